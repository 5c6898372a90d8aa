#!/usr/bin/env python3
"""Loss against iterations and time: Sandblaster, and plain SGD on the same network and data.

    CONVOY_DATA=... bench/sandblaster/curves.py --convoy build/bin/convoy --folder curves --picture curves.png

Softmax regression on MNIST (recipes/mnist-softmax-sandblaster.toml), and, where CONVOY_DATA names a folder with
fsdd/recordings/ (docs/data-sets.md), a small network for speech on spoken digits
(recipes/speech/fsdd-sandblaster.toml). Each is trained by Sandblaster with two replicas and by synchronous SGD on
two ranks (--rate, momentum 0.9), from the same first weights. A table has the loss on a tenth of the training data,
and what the metric is on validation data, by iteration or epoch, with the seconds of training and how often all
samples were gone through by then; --picture draws the losses against both (needs gnuplot). Evaluations hold SGD up,
and are not in its time.

Each run is kept in FOLDER; what is there is not trained again (--overwrite does), and --table trains nothing. Takes
some 6 minutes.
"""

import os
import subprocess
import sys

import jobs
from jobs import ROOT, say

SPEECH = os.path.join(ROOT, "recipes", "speech", "fsdd-sandblaster.toml")
# Data: recipe, rate of SGD, its mini-batch and epochs.
DATA = {"mnist": (jobs.SOFTMAX, "0.01", 64, 6), "speech": (SPEECH, "0.05", 256, 12)}


def parse():
    parser = jobs.parser_of(__doc__, 5, "trained")
    parser.add_argument("--data", default="mnist,speech", help="mnist, speech (where CONVOY_DATA is set) or both")
    parser.add_argument("--iterations", type=int, default=0, help="of Sandblaster; 0: the recipe's")
    parser.add_argument("--epochs", type=int, default=0, help="of SGD; 0: 6 with mnist, 12 with speech")
    parser.add_argument("--rate", help="of SGD (0.01 with mnist, 0.05 with speech)")
    parser.add_argument("--picture", help="PNG of the losses")
    return parser.parse_args()


def keys_of(options, data, method):
    _, rate, batch, epochs = DATA[data]
    keys = ["evaluation.training_fraction=0.1", "checkpoint.every_steps=0", "output.tensorboard=false"]
    if method == "sandblaster":
        keys += ["evaluation.every_steps=2"]
        if options.iterations:
            keys.append(f"training.steps={options.iterations}")
        return keys
    return keys + ["strategy=sync", f"training.batch={batch}", "training.steps=0",
                   f"training.epochs={options.epochs or epochs}", "optimizer.name=sgd",
                   f"optimizer.lr={options.rate or rate}", "optimizer.momentum=0.9", "schedule.name=cosine",
                   "evaluation.every_steps=0", "evaluation.every_epochs=1"]


def folder_of(options, data, method):
    return os.path.join(options.folder, f"{data}-{method}")


def is_there(options, data, method):
    folder = folder_of(options, data, method)
    return os.path.exists(os.path.join(folder, "metrics.jsonl")) and bool(jobs.rows_of(folder, "end"))


def train(options, data, method):
    more = ["-n", "2"] if method == "sync" else []
    job = jobs.Job(options.convoy, folder_of(options, data, method), keys_of(options, data, method) + options.set,
                   DATA[data][0], more)
    try:
        job.finish(60 * options.minutes)
    finally:
        job.stop()


class Curve:
    """Passes through the data, seconds of training, losses of training data, and the metric, at each evaluation."""

    def __init__(self, options, data, method):
        folder = folder_of(options, data, method)
        self.method = method
        self.metric = jobs.rows_of(folder, "run")[-1]["best_metric"]
        passes = {0: 1}  # of iterations: evaluations so far, the one at the first weights with them
        for row in jobs.rows_of(folder, "iteration"):
            passes[row["step"]] = passes.get(row["step"] - 1, max(passes.values())) + row["evaluations"]
        self.points = []
        held = 0
        for row in jobs.rows_of(folder, "evaluation"):
            if method == "sync":
                held += row["time_s"]
                at, through, seconds = row["epoch"], row["epoch"], row["elapsed_s"] - held
            else:
                at, through = row["step"], passes.get(row["step"], row["step"] + 1)
                seconds = row["elapsed_s"] - row["time_s"]
            self.points.append((at, through, seconds, row["train_loss"], row["loss"], row[self.metric]))


def say_curve(data, curve):
    what = "iteration" if curve.method == "sandblaster" else "epoch"
    print(f"\n{data}, {curve.method}\n")
    points = curve.points
    some = [p for i, p in enumerate(points) if i < 5 or i % 5 == 4 or i + 1 == len(points)]
    print(jobs.table([what, "passes", "s", "loss of training data", "of validation data", curve.metric],
                     [[f"{p[0]:g}", f"{p[1]:.0f}", f"{p[2]:.2f}", f"{p[3]:.4f}", f"{p[4]:.4f}", f"{p[5]:.2%}"]
                      for p in some]))


def draw(path, curves):
    lines = [f'set terminal pngcairo size 1200,{420 * len(curves)} font "sans,11"', f'set output "{path}"',
             f"set multiplot layout {len(curves)},2", "set logscale y", "set grid", "set key top right"]
    for data, both in curves.items():
        for column, what in ((1, "passes through the training data"), (2, "seconds of training")):
            lines.append(f'set title "{data}: loss of training data"; set xlabel "{what}"')
            parts = []
            for i, curve in enumerate(both):
                block = f"$d{data}{column}{i}"
                lines += [f"{block} << EOD"] + [f"{p[column]} {p[3]}" for p in curve.points] + ["EOD"]
                title = "Sandblaster, L-BFGS" if curve.method == "sandblaster" else "SGD with momentum, 2 ranks"
                parts.append(f'{block} with linespoints linewidth 2 pointtype 7 pointsize 0.5 title "{title}"')
            lines.append("plot " + ", ".join(parts))
    subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", text=True, check=True)


def main():
    options = parse()
    os.makedirs(options.folder, exist_ok=True)
    wanted = options.data.split(",")
    for data in wanted:
        if data not in DATA:
            sys.exit(f"curves.py: --data: there is no {data}; there are mnist and speech")
    if "speech" in wanted and "CONVOY_DATA" not in os.environ:
        say("curves.py: speech is left out: CONVOY_DATA is not set")
        wanted.remove("speech")
    curves = {}
    for data in wanted:
        for method in ("sandblaster", "sync"):
            if not options.table and (options.overwrite or not is_there(options, data, method)):
                say(f"curves.py: {data}, {method}")
                train(options, data, method)
            if is_there(options, data, method):
                curves.setdefault(data, []).append(Curve(options, data, method))
                say_curve(data, curves[data][-1])
    if options.picture and curves:
        draw(options.picture, curves)


if __name__ == "__main__":
    main()
