#!/usr/bin/env python3
"""What one slow replica of a Sandblaster job costs, by the clock.

    sudo bench/sandblaster/slow_replica.py --convoy build/bin/convoy --folder slow-replica

LeNet is trained on MNIST by 8 replicas, each with an equal share of a processor (--share, a cgroup's quota), once
with all alike and once with one of them 10 times as slow (--slow): that is a tenth of its share, from the end of
the first evaluation on. Servers, coordinator and evaluator have no quota, so that the shares should leave them
some.

Said are, of an iteration,
- its time: the median over --iterations of them, behind two that are left out, in which the coordinator learns who is
  slow;
- the ideal: so long as the replicas' speeds together allow for all portions. A replica's speed is portions over the
  time that it had them, in the same iterations, without the first group of each evaluation, whose time has the
  fetching of the weights. Beside it stands the ideal by the processor time that a portion takes: it is the stricter
  one where replicas wait for servers;
- what a static split would take: each replica has as many portions, and the slow one is waited for. It is computed
  from the same speeds, since it would take 9 times as long to measure.
Also drawn is who had which portions in the last iteration: as text, and with --picture as PNG (needs gnuplot).

Needs root for the cgroups, and a machine that does nothing else. Each run is kept in FOLDER; what is there is not
measured again (--overwrite does), and --table measures nothing. Takes some 6 minutes, at most --minutes for each run.
"""

import json
import os
import subprocess
import sys
import time

import jobs
from jobs import ROOT, median, say

sys.path.insert(0, os.path.join(ROOT, "tools"))
from cluster_errors import NotPossible  # noqa: E402
from cpu_shares import CpuShares  # noqa: E402

LEFT_OUT = 2  # iterations, beside the first evaluation


def parse():
    parser = jobs.parser_of(__doc__, 8)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--share", type=float, default=20, help="of a processor, percent, for each replica (20)")
    parser.add_argument("--slow", type=float, default=10, help="how many times as slow one of them is (10)")
    parser.add_argument("--portion", type=int, default=300, help="images (300: 200 portions of MNIST)")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--alike", type=int, default=3, help="iterations with all alike; 0: none (3)")
    parser.add_argument("--picture", help="PNG of the last iteration")
    return parser.parse_args()


def keys_of(options, iterations):
    keys = ["model.name=lenet", "model.options={}", f"training.batch={options.portion}",
            f"training.steps={iterations + LEFT_OUT}", f"sandblaster.replicas={options.replicas}",
            "sandblaster.lease_s=30", *jobs.QUIET]
    return keys + options.set


def names_of(options):
    return [f"replica-{i}" for i in range(options.replicas)]


def enter(job, shares, names, limit_s):
    """Puts each replica's process into the group of its name as soon as it is there; {name: pid}."""
    until = time.monotonic() + limit_s
    inside = {}
    while len(inside) < len(names):
        for name, pid in job.roles("replica").items():
            if name in names and name not in inside:
                (shares.folder / name / "cgroup.procs").write_text(str(pid))
                inside[name] = pid
        if job.process.poll() is not None or time.monotonic() > until:
            job.stop()
            sys.exit("the replicas did not start:\n" + "\n".join(job.lines[-12:]))
        time.sleep(0.05)
    return inside


def slow_down(shares, name, share):
    settings = shares.hierarchy.settings(share)
    # A quota above its period's would be refused on the way, so that the period goes first.
    for file in sorted(settings, key=lambda file: "quota" in file):
        (shares.folder / name / file).write_text(settings[file])


def measure(options, kind, iterations):
    """A run; what it came to goes to FOLDER/KIND.json."""
    names = names_of(options)
    share = options.share / 100
    shares = CpuShares(f"slow-replica-{os.getpid()}")
    try:
        shares.make(names, [share] * len(names))
    except NotPossible as error:
        sys.exit(f"slow_replica.py: {error}")
    limit_s = 60 * options.minutes
    began = time.monotonic()
    job = jobs.Job(options.convoy, os.path.join(options.folder, kind), keys_of(options, iterations))
    try:
        pids = enter(job, shares, names, 120)
        if not job.wait_for(0, limit_s):
            job.stop()
            sys.exit("no evaluation was done:\n" + "\n".join(job.lines[-12:]))
        if kind == "slow":
            slow_down(shares, names[-1], share / options.slow)
        job.wait_for(LEFT_OUT, limit_s)
        before = {name: jobs.processor_s(pid) for name, pid in pids.items()}
        after = dict(before)
        while not job.wait_for(iterations + LEFT_OUT, 0.2) and job.process.poll() is None and \
                time.monotonic() < began + limit_s:
            for name, pid in pids.items():
                try:
                    after[name] = jobs.processor_s(pid)
                except OSError:  # it is gone, and another one in its place has other numbers
                    pass
        if kind == "slow":  # its end shall not take ten times as long
            slow_down(shares, names[-1], share)
        job.finish(max(60, began + limit_s - time.monotonic()))
    finally:
        job.stop()
        shares.remove()
    result = {"kind": kind, "replicas": options.replicas, "share": share,
              "slow": options.slow if kind == "slow" else 1,
              "processor_s": {name: after[name] - before[name] for name in names},
              "iterations": [[each.number, each.evaluations, each.at - began] for each in job.iterations]}
    with open(os.path.join(options.folder, kind + ".json"), "w") as file:
        json.dump(result, file)


class Figures:
    """What a run came to."""

    def __init__(self, options, kind):
        with open(os.path.join(options.folder, kind + ".json")) as file:
            self.run = json.load(file)
        self.folder = os.path.join(options.folder, kind)
        groups = jobs.groups_of(self.folder)
        rows = jobs.rows_of(self.folder, "iteration")
        lines = {number: (evaluations, at) for number, evaluations, at in self.run["iterations"]}
        counted = [n for n in sorted(lines) if n > LEFT_OUT and n - 1 in lines]
        if not counted:
            sys.exit(f"{self.folder}: there is no iteration behind the first {LEFT_OUT}")
        self.times = [lines[n][1] - lines[n - 1][1] for n in counted]
        self.evaluations = [lines[n][0] for n in counted]
        self.copied = [row["portions_copied"] for row in rows if row["step"] in counted]
        self.twice = [row["portions_unused"] for row in rows if row["step"] in counted]
        # Evaluation (i, e > 0) is of the line search of iteration i; its weights are those that it ends with.
        self.groups = [g for g in groups if g["iteration"] in counted]
        self.portions = sum(g["portions"] for g in self.groups if g["end"] == 0) / sum(self.evaluations)
        self.speeds = {}
        seen = set()
        sums = {}
        for g in self.groups:
            first = (g["replica"], g["iteration"], g["evaluation"])
            if g["end"] == 0 and first in seen:
                part = sums.setdefault(g["replica"], [0, 0])
                part[0] += g["portions"]
                part[1] += g["ended_s"] - g["began_s"]
            seen.add(first)
        for name, (portions, seconds) in sums.items():
            if seconds > 0:
                self.speeds[name] = portions / seconds
        self.slow_name = f"replica-{self.run['replicas'] - 1}" if self.run["slow"] > 1 else None
        fast = [speed for name, speed in self.speeds.items() if name != self.slow_name]
        self.fast = median(fast)
        self.total = self.run["replicas"] - (1 - 1 / self.run["slow"])  # 7.1 of 8
        # One that came to nothing by itself has the speed that it was given.
        slow = self.speeds.get(self.slow_name, self.fast / self.run["slow"])
        self.measured_total = sum(fast) + (slow if self.slow_name else 0)
        self.slow_speed = slow
        # By processor time: of the fast ones, with all that they computed.
        had = {}
        for g in self.groups:
            if g["replica"] != self.slow_name:
                had[g["replica"]] = had.get(g["replica"], 0) + g["portions"]
        used = sum(s for name, s in self.run["processor_s"].items() if name in had)
        self.portion_cpu_s = used / sum(had.values())

    def ideal(self):
        return self.portions / (self.fast * self.total)

    def ideal_of_processors(self):
        return self.portions * self.portion_cpu_s / (self.run["share"] * self.total)

    def ratios(self, ideal):
        return [time_s / evaluations / ideal for time_s, evaluations in zip(self.times, self.evaluations)]

    def static_split(self):
        """Over the ideal."""
        return self.portions / self.run["replicas"] / (self.fast / self.run["slow"]) / self.ideal()


def say_figures(figures):
    run = figures.run
    what = f"one {run['slow']:g} times as slow" if run["slow"] > 1 else "all alike"
    print(f"\n{run['replicas']} replicas with {run['share']:.0%} of a processor each, {what}: "
          f"{figures.portions:.0f} portions of {1 / figures.fast:.3f} s ({figures.portion_cpu_s:.3f} s of processor time), total speed "
          f"{figures.total:g} of {run['replicas']} (measured: {figures.measured_total / figures.fast:.2f})\n")
    ideal, strict = figures.ideal(), figures.ideal_of_processors()
    times, ratios = figures.ratios(1), figures.ratios(ideal)
    rows = [["iterations", f"{len(times)}, of {sum(figures.evaluations)} evaluations"],
            ["time of an evaluation, median (least to most)",
             f"{median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"],
            ["ideal, by the speeds of replicas", f"{ideal:.2f} s"],
            ["time over ideal, median (least to most)",
             f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"],
            ["ideal, by processor time", f"{strict:.2f} s"],
            ["time over that, median", f"{median(figures.ratios(strict)):.3f}"],
            ["static split over ideal, computed", f"{figures.static_split():.2f}"],
            ["portions copied, done twice, of an iteration (median)",
             f"{median(figures.copied or [0]):.0f}, {median(figures.twice or [0]):.0f}"]]
    if figures.slow_name:
        rows.insert(2, ["speed of the slow one, of the others'", f"{figures.slow_speed / figures.fast:.3f}"])
    print(jobs.table(["", "of an evaluation"], rows))


def last_evaluation(figures):
    iteration = max(g["iteration"] for g in figures.groups)
    evaluation = max(g["evaluation"] for g in figures.groups if g["iteration"] == iteration)
    return [g for g in figures.groups if g["iteration"] == iteration and g["evaluation"] == evaluation]


def say_timeline(figures, width=96):
    """A row for each replica; neighbors differ in letters."""
    groups = last_evaluation(figures)
    begin, end = min(g["began_s"] for g in groups), max(g["ended_s"] for g in groups)
    print(f"\nGroups of the last evaluation, {end - begin:.1f} s: a letter is a group of so many portions (A: 1, "
          "B: 2, C: 4, D: 8, E: 16), which begins at a line; small: a copy; x: another one was first; a point: nothing\n")
    for name in sorted({g["replica"] for g in figures.groups} | {figures.slow_name or "replica-0"}):
        cells = ["."] * width
        for g in (g for g in groups if g["replica"] == name):
            first = int((g["began_s"] - begin) / (end - begin) * width)
            last = max(first + 1, int((g["ended_s"] - begin) / (end - begin) * width))
            letter = chr(ord("A") + max(0, int(g["portions"]) - 1).bit_length())
            letter = "x" if g["end"] == 1 else letter.lower() if g["copy"] else letter
            for at in range(first, min(last, width)):
                cells[at] = "|" if at == first and last - first > 1 else letter
        print(f"    {name} {''.join(cells)}")


def draw(figures, path):
    groups = last_evaluation(figures)
    begin = min(g["began_s"] for g in groups)
    end = max(g["ended_s"] for g in groups)
    names = sorted({g["replica"] for g in figures.groups} | {figures.slow_name or "replica-0"})
    colors = {(0, 0): "#4c78a8", (1, 0): "#f58518", (0, 1): "#bfd3e6", (1, 1): "#fbd5ab"}
    gap = 0.0012 * (end - begin)
    lines = [f'set terminal pngcairo size 1200,{60 + 36 * len(names)} font "sans,11"', f'set output "{path}"',
             "unset key", f"set xrange [0:{end - begin:.3f}]", f"set yrange [0.4:{len(names) + 0.6}]",
             'set xlabel "time of the evaluation, s"',
             "set ytics (" + ", ".join(f'"{name}" {len(names) - i}' for i, name in enumerate(names)) + ")"]
    for number, g in enumerate(groups, 1):
        y = len(names) - names.index(g["replica"])
        left, right = g["began_s"] - begin, max(g["ended_s"] - begin - gap, g["began_s"] - begin + gap / 2)
        color = colors.get((int(g["copy"]), int(g["end"])), "#888888")
        lines.append(f'set object {number} rectangle from {left:.3f},{y - 0.35} to {right:.3f},{y + 0.35} '
                     f'fillcolor rgb "{color}" fillstyle solid noborder')
    subprocess.run(["gnuplot"], input="\n".join(lines + ["plot NaN notitle"]) + "\n", text=True, check=True)


def main():
    options = parse()
    os.makedirs(options.folder, exist_ok=True)
    kinds = [("alike", options.alike), ("slow", options.iterations)]
    for kind, iterations in kinds:
        path = os.path.join(options.folder, kind + ".json")
        if options.table or iterations == 0 or (os.path.exists(path) and not options.overwrite):
            continue
        say(f"slow_replica.py: {kind}")
        measure(options, kind, iterations)
    all_of_them = {}
    for kind, _ in kinds:
        if os.path.exists(os.path.join(options.folder, kind + ".json")):
            all_of_them[kind] = Figures(options, kind)
            say_figures(all_of_them[kind])
    if len(all_of_them) == 2:
        alike, slow = (median(all_of_them[kind].ratios(1)) for kind in ("alike", "slow"))
        total = all_of_them["slow"].total
        print(f"\nWith one slow it takes {slow / alike:.3f} times as long as with all alike; their speeds allow "
              f"{options.replicas / total:.3f}.")
    if "slow" in all_of_them:
        say_timeline(all_of_them["slow"])
        if options.picture:
            draw(all_of_them["slow"], options.picture)


if __name__ == "__main__":
    main()
