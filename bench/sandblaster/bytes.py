#!/usr/bin/env python3
"""What goes through the coordinator of a Sandblaster job, and what memory its servers have, by the network's size.

    bench/sandblaster/bytes.py --convoy build/bin/convoy --folder bytes

Fully connected networks of 1e5, 1e6 and 1e7 parameters are trained on 10,000 of MNIST's images, in 100 portions, by
two replicas and two servers with backups, for as many iterations as fill L-BFGS's history of 10, and a few more.
Said are
- bytes between the method and the shards (commands, questions, answers), of an evaluation: in the mean over the
  last iterations, when the history is full, and the most of any iteration, whatever has shards repeat it. The bound
  is 64 KiB;
- bytes of requests for portions and of answers, of a portion. The bound is 100. Groups have 16 portions at most,
  and once more one, so that each portion is asked for by itself;
- what servers need as the job says beforehand ("servers need up to ..."), and what the larger of them had in
  memory, at most: anonymous and shared pages, looked at every 50 ms. What a server has before there are vectors is
  taken off.
Both counts are the coordinator's own (metrics.jsonl, rows of kind `iteration`).

Each run is kept in FOLDER; what is there is not measured again (--overwrite does), and --table measures nothing.
Takes some 5 minutes; the largest network writes some GB of logs (--set sandblaster.durability=none: no logs).
"""

import os
import re
import sys
import time

import jobs
from jobs import say

# By name: hidden layers between 784 pixels and 10 scores.
NETWORKS = {"1e5": [126], "1e6": [1258], "1e7": [2790, 2790]}
HISTORY = 10
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse():
    parser = jobs.parser_of(__doc__, 5)
    parser.add_argument("--networks", default=",".join(NETWORKS), help="some of " + ",".join(NETWORKS))
    parser.add_argument("--groups", default="16,1", help="portions of the largest group: the first number with all "
                        "networks, others with the smallest alone (16,1)")
    parser.add_argument("--portion", type=int, default=100, help="images (100: 100 portions)")
    parser.add_argument("--iterations", type=int, default=14)
    return parser.parse_args()


def memory_of(pid):
    """Bytes of anonymous and of shared pages that a process has."""
    with open(f"/proc/{pid}/status") as file:
        fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", file.read(), re.M))
    return 1024 * (int(fields["RssAnon"]) + int(fields["RssShmem"]))


def size_of(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


def measure(options, network, group):
    name = f"{network}-{group}"
    folder = os.path.join(options.folder, name)
    keys = ["model.name=mlp", f"model.options.hidden={NETWORKS[network]}", f"training.batch={options.portion}",
            f"training.steps={options.iterations}", f"sandblaster.largest_group={group}",
            f"sandblaster.history={HISTORY}", *jobs.QUIET, *jobs.test_images(), *options.set]
    until = time.monotonic() + 60 * options.minutes
    job = jobs.Job(options.convoy, folder, keys)
    first, most, samples = {}, {}, 0
    try:
        servers = {}
        while job.process.poll() is None and time.monotonic() < until:
            if len(servers) < 2:
                servers = job.roles("serve")
            for pid in servers.values():
                try:
                    now = memory_of(pid)
                except (OSError, KeyError):
                    continue
                # Before the evaluator has given them anything.
                if not any("servers need up to" in line for line in job.lines):
                    first[pid] = now
                most[pid] = max(most.get(pid, 0), now)
                samples += 1
            time.sleep(0.05)
        job.finish(max(20, until - time.monotonic()))
    finally:
        job.stop()
    need = next((line for line in job.lines if "servers need up to" in line), "")
    found = re.search(r"up to ([\d.]+ \w+) \(([\d.]+ \w+) each\): (\d+) vectors of (\d+) parameters", need)
    if not found:
        sys.exit(f"{folder}: the job doesn't say what servers need")
    rows = jobs.rows_of(folder, "iteration")
    steps = []
    for before, row in zip(rows, rows[1:]):
        evaluations = sum(r["evaluations"] for r in rows if before["step"] < r["step"] <= row["step"])
        steps.append({"step": row["step"], "evaluations": evaluations,
                      "method_bytes": row["method_bytes"] - before["method_bytes"],
                      "portions": row["portions"], "portion_bytes": row["portion_bytes"] - before["portion_bytes"]})
    return {"name": name, "network": network, "group": group, "parameters": int(found[4]), "vectors": int(found[3]),
            "need": size_of(found[2]), "memory": max(most.values()) - min(first.values(), default=0),
            "before": min(first.values(), default=0), "looks": samples, "steps": steps}


def text_of(size):
    return f"{size / 2**20:,.1f} MiB" if size < 2**30 else f"{size / 2**30:.2f} GiB"


def say_table(rows):
    head = ["parameters", "largest group", "of the method, an evaluation", "(most)", "of portions, a portion",
            "servers need up to, each", "the larger one had", "of that"]
    lines = []
    for row in rows:
        full = [s for s in row["steps"] if s["step"] > HISTORY + 1] or row["steps"]
        evaluations = sum(s["evaluations"] for s in full)
        method = sum(s["method_bytes"] for s in full) / evaluations
        most = max(s["method_bytes"] / s["evaluations"] for s in row["steps"])
        portions = sum(s["portions"] for s in row["steps"])
        portion = sum(s["portion_bytes"] for s in row["steps"]) / portions
        lines.append([f"{row['parameters']:,}", row["group"], f"{method / 1024:.1f} KiB", f"{most / 1024:.1f} KiB",
                      f"{portion:.1f} B", text_of(row["need"]), text_of(row["memory"]),
                      f"{row['memory'] / row['need']:.0%}"])
    print(jobs.table(head, lines))


def main():
    options = parse()
    networks = options.networks.split(",")
    for network in networks:
        if network not in NETWORKS:
            sys.exit(f"bytes.py: --networks: there is no {network}; there are {', '.join(NETWORKS)}")
    os.makedirs(options.folder, exist_ok=True)
    path = os.path.join(options.folder, "rows.jsonl")
    groups = [int(word) for word in options.groups.split(",")]
    wanted = [(network, groups[0]) for network in networks] + [(networks[0], group) for group in groups[1:]]
    for network, group in wanted:
        there = {row["name"] for row in jobs.read_json_lines(path)}
        if options.table or (f"{network}-{group}" in there and not options.overwrite):
            continue
        say(f"bytes.py: {network} parameters, groups of {group} portions at most")
        jobs.add_json_line(path, measure(options, network, group))
    rows = {row["name"]: row for row in jobs.read_json_lines(path)}  # the newest of each
    say_table([rows[f"{network}-{group}"] for network, group in wanted if f"{network}-{group}" in rows])


if __name__ == "__main__":
    main()
