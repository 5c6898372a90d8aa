#!/usr/bin/env python3
"""How far Sandblaster trainings of LeNet go apart whose sums are rounded otherwise.

    bench/sandblaster/lenet.py --convoy build/bin/convoy --folder lenet

LeNet is trained on 2,000 of MNIST's images, in float64, by one replica on one shard; then with other numbers of
replicas and shards, which changes no bit; then with portions of other sizes and with replicas of two ranks, where
sums have another order. A table has, by iteration, how much the loss differs from the first training's, relative to
it, and how far the weights are away, over the largest of them. The loss of LeNet is not convex: what rounding
changes grows from iteration to iteration. (That loss and gradient are those of a plain loop of LibTorch to within
1e-12 is a test: SandblasterJob.LeNetsLossAndGradientAreThoseOfAPlainLoop.)

Each run is kept in FOLDER; what is there is not trained again (--overwrite does), and --table trains nothing. Takes
some 5 minutes.
"""

import array
import json
import os
import struct
import subprocess
import sys

import jobs
from jobs import say

# Keys of each training; the first one is what the others are compared with.
RUNS = {
    "one replica": ["sandblaster.replicas=1", "sandblaster.shards=1"],
    "2 replicas, 3 shards, groups of 4": ["sandblaster.replicas=2", "sandblaster.shards=3",
                                          "sandblaster.largest_group=4"],
    "portions of 50": ["sandblaster.portion=50"],
    "portions of 250": ["sandblaster.portion=250"],
    "replicas of two ranks": ["grid.partitions=2", "sandblaster.replicas=1"],
}
SHOWN = [0, 1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100]


def parse():
    parser = jobs.parser_of(__doc__, 4, "trained")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--portion", type=int, default=100, help="images of a portion of the first training (100)")
    parser.add_argument("--iterations", type=int, default=30)
    return parser.parse_args()


def folder_of(options, name):
    return os.path.join(options.folder, name.replace(" ", "-").replace(",", ""))


def is_there(options, name):
    path = os.path.join(folder_of(options, name), "metrics.jsonl")
    return os.path.exists(path) and any(row["how"] == "done" for row in jobs.rows_of(folder_of(options, name), "end"))


def train(options, name):
    # A batch is what goes through the network at once; it has no part in what is compared.
    keys = ["model.name=lenet", "model.options={}", "precision=float64", f"training.batch={min(options.portion, 50)}",
            f"sandblaster.portion={options.portion}", f"training.steps={options.iterations}", *jobs.QUIET,
            "checkpoint.every_steps=5", "checkpoint.keep=1000", "checkpoint.keep_best=false",
            *jobs.first_images(options.folder, options.images), *options.set, *RUNS[name]]
    job = jobs.Job(options.convoy, folder_of(options, name), keys)
    try:
        if not job.finish(60 * options.minutes):
            sys.exit(f"{folder_of(options, name)}: not done after {options.minutes:g} minutes")
    finally:
        job.stop()


def weights_of(options, checkpoint):
    """{name: values} of a checkpoint, by way of `convoy export`."""
    path = os.path.join(options.folder, "exported.safetensors")
    done = subprocess.run([options.convoy, "export", checkpoint, path, "--overwrite"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"convoy export {checkpoint}: {done.stderr.strip()}")
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    os.remove(path)
    values = {}
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            values[name] = array.array("d" if tensor["dtype"] == "F64" else "f", data[begin:end])
    return values


def checkpoints(folder):
    """{iteration: path}"""
    where = os.path.join(folder, "checkpoints")
    return {int(name[5:]): os.path.join(where, name) for name in os.listdir(where)
            if name.startswith("step-") and name[5:].isdigit()}


def distance(a, b):
    most = max(max(abs(x) for x in values) for values in b.values())
    return max(max(abs(x - y) for x, y in zip(a[name], values)) for name, values in b.items()) / most


def text_of(value):
    return "0" if value == 0 else f"{value:.1e}"


def say_table(options):
    names = [name for name in RUNS if is_there(options, name)]
    if not names or names[0] != next(iter(RUNS)):
        sys.exit("lenet.py: the first training is not there")
    losses = {name: {row["step"]: row["loss"] for row in jobs.rows_of(folder_of(options, name), "iteration")}
              for name in names}
    saved = {name: checkpoints(folder_of(options, name)) for name in names}
    first, others = names[0], names[1:]
    last = max(losses[first])
    lines = []
    for step in [s for s in SHOWN if s < last] + [last]:
        if step not in losses[first]:  # an iteration that was over before the evaluator looked
            continue
        line = [step, f"{losses[first][step]:.6g}"]
        for name in others:
            here = losses[name].get(step)
            line.append("" if here is None else text_of(abs(here - losses[first][step]) / abs(losses[first][step])))
        for name in others:
            both = step in saved[name] and step in saved[first]
            line.append(text_of(distance(weights_of(options, saved[name][step]),
                                         weights_of(options, saved[first][step]))) if both else "")
        lines.append(line)
    print(jobs.table(["iteration", "loss"] + [f"loss, {name}" for name in others] +
                     [f"weights, {name}" for name in others], lines))
    print("\nfinal losses: " + "; ".join(f"{name} {losses[name][max(losses[name])]:.6g}" for name in names))


def main():
    options = parse()
    os.makedirs(options.folder, exist_ok=True)
    for name in RUNS:
        if options.table or (is_there(options, name) and not options.overwrite):
            continue
        say(f"lenet.py: {name}")
        train(options, name)
    say_table(options)


if __name__ == "__main__":
    main()
