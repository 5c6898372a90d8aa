#!/usr/bin/env python3
"""The counterpart of Table I of Kumar et al. 2017: what each optimization takes off an epoch, on emulated hosts.

    sudo CONVOY_DATA=... bench/kumar/table1.py --convoy build/bin/convoy --folder kumar

GoogLeNet-BN and ResNet-50 train on 2, 4 and 8 emulated hosts (tools/cluster) with equal shares of this machine's
processors and links of 1 Gbit/s; a rank on each host drives two devices, which are threads. The arms, each of which
adds one thing to the one before:

  base        the files are read one by one (image_folder), Open MPI's own allreduce sums all gradients in one call
              after the backward pass, the table is "baseline"
  multicolor  the multi-color allreduce in its place (section 4.2)
  dimd        the data is in the memory of the ranks, from a pack that is made here (section 4.1)
  table       the table is "optimized" (section 4.3): all that the paper has
  overlap     gradients are summed in buckets of 8 MiB while others are computed, as Convoy does unless told otherwise

The arms take turns, --repetitions times, in another order each time; a run makes --warm steps that don't count, and
--steps that do. Start, loading, evaluation (there is none) and checkpoints are not in the time of a step. Rows go to
FOLDER/table1.jsonl: stopped anywhere, the same command goes on, and no run that is there is repeated. --table prints
the tables and measures nothing; --accuracy FILE (from figures.py) fills their last column.

The files lie on this machine's disk and are in the page cache after the first run, so that a slow file system, which
is what DIMD is for, is not emulated unless --disk READS:BYTES says how many reads and bytes a second all hosts
together get from it: a file system of its own is throttled then, and its cache dropped all the time. That needs root,
as the cluster does, and the blkio controller of control groups, version 1.

One network takes some 10, 20 and 35 minutes on 2, 4 and 8 hosts of two cores: three quarters of that with
--arms base,multicolor,dimd,table. Run nothing beside it.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys

import emulated
from emulated import ARMS, IMAGENET, IMAGENETTE, NETWORKS, STEPS, TITLES, say

# Of Table I: seconds of an epoch of the base and with everything, speedup, accuracy; by nodes of four GPUs.
PAPER = {"googlenet-bn": {8: (249, 155, "60%", "74.86%"), 16: (131, 76, "72%", "74.36%"),
                          32: (65, 41, "58%", "74.19%")},
         "resnet50": {8: (498, 224, "120%", "75.99%"), 16: (251, 109, "130%", "75.78%"),
                      32: (128, 58, "110%", "75.56%")}}
PARTS = ("data_s", "forward_s", "backward_s", "exposed_communication_s", "update_s", "device_staged_bytes",
         "device_hand_overs", "device_wait_s")
# What runs must share to be compared.
SETTINGS = ("cpu", "rate", "batch_per_device", "devices", "size", "steps", "warm", "disk")


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convoy", default=os.path.join(emulated.ROOT, "build", "bin", "convoy"))
    parser.add_argument("--folder", required=True, help="of rows, the pack and logs")
    parser.add_argument("--data", help="folder with train/; $CONVOY_DATA/imagenette_224_small")
    parser.add_argument("--networks", type=emulated.names(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--hosts", type=emulated.numbers, default=[2, 4, 8])
    parser.add_argument("--arms", type=emulated.names(ARMS), default=list(STEPS),
                        help="of those above, and ring: the paper's ring in the place of multicolor")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--cpu", help="share of a CPU of each host (nine tenths of the machine, divided evenly)")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--devices", type=int, default=2, help="of each rank")
    parser.add_argument("--batch-per-device", type=int, default=1)
    parser.add_argument("--size", type=int, default=224, help="of images; GoogLeNet-BN takes no other")
    parser.add_argument("--disk", help="READS:BYTES a second that all hosts together read")
    parser.add_argument("--accuracy", help="JSON of figures.py: {network: {base: part, table: part}}")
    parser.add_argument("--table", action="store_true", help="prints what there is")
    options = parser.parse_args(words)
    if options.steps < 1 or options.warm < 1 or options.repetitions < 1:
        parser.error("--steps, --warm and --repetitions have to be 1 at least")
    if options.disk:
        try:
            options.reads, options.bytes = (int(word) for word in options.disk.split(":"))
        except ValueError:
            parser.error("--disk: READS:BYTES a second, as 40:2000000")
    return options


def rows_path(options):
    return os.path.join(options.folder, "table1.jsonl")


def key_of(options, network, hosts, arm, repetition):
    return {"network": network, "hosts": hosts, "arm": arm, "repetition": repetition,
            "cpu": options.cpu or emulated.even_share(hosts), "rate": options.rate,
            "batch_per_device": options.batch_per_device, "devices": options.devices, "size": options.size,
            "steps": options.steps, "warm": options.warm, "disk": options.disk}


def steps_of(rows, warm):
    """Seconds of each step behind the first `warm` ones, and the medians of their parts."""
    rows = sorted(rows, key=lambda row: row["step"])
    seconds = [after["elapsed_s"] - before["elapsed_s"] for before, after in zip(rows, rows[1:])
               if before["step"] >= warm and after["step"] == before["step"] + 1]
    counted = [row for row in rows if row["step"] > warm]
    parts = {part: statistics.median(row[part] for row in counted) for part in PARTS
             if counted and all(row.get(part) is not None for row in counted)}
    return seconds, parts


@contextlib.contextmanager
def place_of_data(options, source, folder, log):
    """Where files and pack are, and what a run goes through: a disk of its own where one is asked for."""
    if not options.disk:
        yield source, emulated.packed(options.convoy, source, os.path.abspath(folder), log), contextlib.nullcontext
        return
    sys.path.insert(0, os.path.join(emulated.ROOT, "bench", "data"))
    import pathlib
    import tempfile

    import epochs

    limits = argparse.Namespace(reads=options.reads, rate=options.bytes)

    @contextlib.contextmanager
    def limited(mounted):
        with epochs.throttled(limits, mounted, True) as group, epochs.dropping(True):
            group.write_text(str(os.getpid()))  # what this process starts is in it
            try:
                yield
            finally:
                (group.parent.parent / "cgroup.procs").write_text(str(os.getpid()))  # back to the root

    with tempfile.TemporaryDirectory(prefix="convoy-kumar-", dir=os.path.abspath(folder)) as name:
        with epochs.disk(pathlib.Path(name), source) as mounted:
            pack = emulated.packed(options.convoy, str(mounted / "images"), str(mounted), log)
            yield str(mounted / "images"), pack, lambda: limited(mounted)


def measure(options, key, run, source, pack, limited):
    folder = os.path.abspath(os.path.join(options.folder, "run"))
    emulated.remove(folder)
    batch = key["hosts"] * options.devices * options.batch_per_device
    path = os.path.abspath(os.path.join(options.folder, "recipe.toml"))
    more = f'folder = "{folder}"\n\n[checkpoint]\nevery_epochs = 0\nevery_minutes = 0\nkeep_best = false\n\n' \
           '[optimizer]\nname = "sgd"\nlr = 0.001\nmomentum = 0.9\nweight_decay = 1e-4\n'
    with open(path, "w", encoding="utf-8") as file:
        file.write(emulated.recipe(key["network"], key["arm"], options.size, batch, options.devices, source, pack,
                                   more) + f"steps = {options.warm + options.steps}\n")
    with limited():
        run([os.path.abspath(options.convoy), "train", path])
    seconds, parts = steps_of(emulated.metrics(folder, "step"), options.warm)
    if len(seconds) != options.steps:
        raise emulated.Failed(f"{folder}: {len(seconds)} steps of {options.steps}")
    run_row = emulated.metrics(folder, "run")[-1]
    emulated.remove(folder)
    return {**key, "batch": batch, "step_s": statistics.median(seconds), "steps_s": seconds, **parts,
            "parameters": run_row["parameters"], "processor": run_row.get("processor")}


def measure_all(options):
    if os.geteuid() != 0:
        sys.exit("table1.py: an emulated cluster needs root")
    os.makedirs(options.folder, exist_ok=True)
    path, log = rows_path(options), os.path.join(options.folder, "log")
    source = emulated.data_folder(options.data)
    with place_of_data(options, source, options.folder, log) as (files, pack, limited):
        for network in options.networks:
            for hosts in options.hosts:
                measure_pair(options, network, hosts, files, os.path.abspath(pack), limited, path, log)


def measure_pair(options, network, hosts, files, pack, limited, path, log):
    wanted = []
    for repetition in range(options.repetitions):
        turn = repetition % len(options.arms)
        for arm in options.arms[turn:] + options.arms[:turn]:
            key = key_of(options, network, hosts, arm, repetition)
            if not emulated.is_there(emulated.read_rows(path), key):
                wanted.append(key)
    if not wanted:
        return
    with emulated.cluster(hosts, options.rate, wanted[0]["cpu"], log) as run:
        for key in wanted:
            try:
                row = measure(options, key, run, files, pack, limited)
            except emulated.Failed as failure:
                sys.exit(f"table1.py: {network}, {hosts} hosts, {key['arm']}: {failure}")
            emulated.add_row(path, row)
            say(f"{network}, {hosts} hosts, {key['arm']}, repetition {key['repetition'] + 1} of "
                f"{options.repetitions}: {row['step_s']:.3f} s a step")


# --- what the rows say ---

def groups_of(rows):
    """{(network, hosts, settings): {arm: {repetition: row}}}"""
    groups = {}
    for row in rows:
        settings = tuple((name, row.get(name)) for name in SETTINGS)
        arms = groups.setdefault((row["network"], row["hosts"], settings), {})
        arms.setdefault(row["arm"], {})[row["repetition"]] = row
    return groups


def of_each_repetition(arms, value, *needed):
    """value(rows of one repetition, by arm), of every repetition that has all these arms."""
    common = set.intersection(*(set(arms.get(arm, {})) for arm in needed))
    return [value({arm: arms[arm][repetition] for arm in needed}) for repetition in sorted(common)]


def epoch_s(row, images):
    return images / row["batch"] * row["step_s"]


def seconds_text(low, middle, high):
    digits = 0 if middle >= 100 else 1
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def percent_text(middle, low, high):
    return f"{middle:.0%} ({low:.0%} to {high:.0%})"


def share_lines(arms):
    """A line for each arm: what it takes off, in percent of the base's time, in the same repetition."""
    lines, before = [], None
    for arm in STEPS:
        if arm not in arms:
            continue
        steps = [row["step_s"] for row in arms[arm].values()]
        row = next(iter(arms[arm].values()))
        epochs = [epoch_s(each, IMAGENET) for each in arms[arm].values()]
        small = [epoch_s(each, IMAGENETTE) for each in arms[arm].values()]
        middle, low, high = emulated.interval(epochs)
        share = speedup = ""
        if before and "base" in arms:
            taken = of_each_repetition(
                arms, lambda by: (by[before]["step_s"] - by[arm]["step_s"]) / by["base"]["step_s"],
                *dict.fromkeys(("base", before, arm)))
            faster = of_each_repetition(arms, lambda by: by["base"]["step_s"] / by[arm]["step_s"] - 1, "base", arm)
            if taken and faster:
                share = percent_text(*emulated.interval(taken))
                speedup = percent_text(*emulated.interval(faster))
        lines.append([ARMS[arm]["title"], f"{statistics.median(steps):.3f}", seconds_text(low, middle, high),
                      f"{statistics.median(small):,.0f}", share, speedup,
                      f"{statistics.median(r.get('data_s', 0) for r in arms[arm].values()):.3f}",
                      f"{statistics.median(r.get('exposed_communication_s', 0) for r in arms[arm].values()):.3f}",
                      f"{row.get('device_staged_bytes', 0):,.0f}", f"{row.get('device_hand_overs', 0):.0f}",
                      f"{statistics.median(r.get('device_wait_s', 0) for r in arms[arm].values()):.3f}"])
        before = arm
    return lines


def print_tables(rows, accuracy):
    groups = groups_of(rows)
    if not groups:
        sys.exit("table1.py: there are no rows")
    for (network, hosts, settings), arms in sorted(groups.items(), key=lambda item: item[0][:2]):
        own = dict(settings)
        repetitions = max(len(each) for each in arms.values())
        print(f"\n{TITLES[network]}, {hosts} hosts with {own['cpu']} of a CPU, links of {own['rate']}, "
              f"{own['devices']} devices on each, images of {own['size']} x {own['size']}, "
              f"{own['batch_per_device']} for each device; "
              f"{own['steps']} steps x {repetitions} repetitions" +
              (f"; a disk of {own['disk'].replace(':', ' reads and ')} bytes a second" if own["disk"] else "") + "\n")
        print(emulated.table(["", "s a step", "s an epoch of ImageNet-1k", "of Imagenette", "takes off, of base",
                              "faster than base", "s waiting for data", "s of exposed sums", "bytes staged",
                              "hand-overs", "s of devices' waits"], share_lines(arms)))
    print("\nIn the form of Table I\n")
    print(emulated.table(["network", "hosts", "s an epoch, base", "all", "faster", "accuracy, base", "all"],
                         table_one(groups, accuracy)))
    print("\nThe paper's Table I\n")
    print(emulated.table(["network", "nodes", "s an epoch, open source", "fully optimized", "faster", "accuracy"],
                         [[TITLES[network], nodes, *cells]
                          for network, by in PAPER.items() for nodes, cells in by.items()]))


def table_one(groups, accuracy):
    lines = []
    for (network, hosts, _), arms in sorted(groups.items(), key=lambda item: item[0][:2]):
        if "base" not in arms or "table" not in arms:
            continue
        faster = of_each_repetition(arms, lambda by: by["base"]["step_s"] / by["table"]["step_s"] - 1, "base", "table")
        if not faster:
            continue
        texts = []
        for arm in ("base", "table"):
            middle, low, high = emulated.interval([epoch_s(row, IMAGENET) for row in arms[arm].values()])
            texts.append(seconds_text(low, middle, high))
        reached = [accuracy.get(network, {}).get(arm) for arm in ("base", "table")]
        lines.append([TITLES[network], hosts, *texts, percent_text(*emulated.interval(faster)),
                      *("" if part is None else f"{part:.1%}" for part in reached)])
    return lines


def main():
    options = parse()
    accuracy = {}
    if options.accuracy:
        with open(options.accuracy, encoding="utf-8") as file:
            accuracy = json.load(file)
    if not options.table:
        measure_all(options)
    print_tables(emulated.read_rows(rows_path(options)), accuracy)


if __name__ == "__main__":
    main()
