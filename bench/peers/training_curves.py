"""Loss and accuracy of trainings, epoch by epoch: a table and a picture.

    python3 bench/peers/torch_train.py recipes/resnet20-cifar10.toml --epochs 3 --ranks 2 >torch.jsonl
    python3 bench/peers/training_curves.py "Convoy=runs/resnet20-cifar10" "PyTorch=torch.jsonl" --svg curves.svg

Each TITLE=RUN is a run folder of `convoy train`, or a file of lines like those of its metrics.jsonl, such as
torch_train.py prints. The table, as Markdown, goes to standard output: the mean loss of the epoch's updates, top-1 and
loss of the evaluation after it, and images/s without evaluations. The picture has the loss of training and top-1, over
epochs, or with --time over the seconds of training. Needs gnuplot for the picture.
"""

import argparse
import json
import os
import statistics
import subprocess

COLORS = ["#3b6fd4", "#d9622b", "#2f9e5f", "#8a5bc8"]


class Run:
    def __init__(self, title, path):
        self.title = title
        if os.path.isdir(path):
            path = os.path.join(path, "metrics.jsonl")
        self.epochs, self.evaluations = {}, {}
        with open(path, encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if row["kind"] == "epoch":
                    self.epochs[round(row["epoch"])] = row
                elif row["kind"] == "evaluation" and float(row["epoch"]).is_integer():
                    self.evaluations[round(row["epoch"])] = row
        if not self.epochs:
            raise SystemExit(f"training_curves.py: {path} has no epoch")


def print_table(runs):
    for run in runs:
        rate = statistics.median(row["images_per_s"] for row in run.epochs.values())
        print(f"{run.title}: {len(run.epochs)} epochs, median {rate:,.1f} images/s\n")
        print("| epoch | loss | images/s | top-1 | loss of the evaluation |\n|---:|---:|---:|---:|---:|")
        for epoch, row in sorted(run.epochs.items()):
            after = run.evaluations.get(epoch)
            judged = f"{after['top1']:.2%} | {after['loss']:.4f}" if after else " | "
            print(f"| {epoch} | {row['loss']:.4f} | {row['images_per_s']:,.1f} | {judged} |")
        print()


def draw(runs, path, by_time):
    blocks, losses, accuracies = [], [], []
    for i, run in enumerate(runs):
        title = run.title.replace('"', "'")
        how = f"with linespoints pt 7 ps 0.4 lw 1.5 lc rgb '{COLORS[i % len(COLORS)]}' title \"{title}\""
        for name, rows, key, factor, plots in (("loss", run.epochs, "loss", 1, losses),
                                               ("top", run.evaluations, "top1", 100, accuracies)):
            if not rows:
                continue
            points = [f"{row['elapsed_s'] if by_time else epoch} {factor * row[key]:.8g}"
                      for epoch, row in sorted(rows.items())]
            blocks.append(f"${name}{i} << EOD\n" + "\n".join(points) + "\nEOD")
            plots.append(f"${name}{i} {how}")
    script = ["set terminal svg size 900,340 background '#ffffff' font 'sans-serif,11'", f"set output '{path}'",
              "set grid lc rgb '#dddddd'", "set border 3", "set tics nomirror", "set encoding utf8",
              f"set xlabel '{'seconds of training' if by_time else 'epoch'}' offset 0,0.4"] + blocks
    script.append("set multiplot layout 1,2")
    script += ["set key top right", "set title 'loss of training'", "plot " + ", ".join(losses)]
    if accuracies:
        script += ["set key bottom right", "set title 'top-1 of the evaluation, %'", "plot " + ", ".join(accuracies)]
    subprocess.run(["gnuplot"], input="\n".join(script) + "\nunset multiplot\n", text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="TITLE=RUN")
    parser.add_argument("--svg", help="the picture's file")
    parser.add_argument("--time", action="store_true", help="over time")
    options = parser.parse_args()
    runs = []
    for run in options.runs:
        title, _, path = run.rpartition("=")
        runs.append(Run(title or path, path))
    print_table(runs)
    if options.svg:
        draw(runs, options.svg, options.time)


if __name__ == "__main__":
    main()
