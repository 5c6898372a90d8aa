#!/usr/bin/env python3
"""The counterparts of figures 5 to 16 of Kumar et al. 2017, as SVG, on emulated hosts.

    sudo CONVOY_DATA=... bench/kumar/figures.py --convoy build/bin/convoy --folder kumar --pictures kumar

draws into --pictures, from what is in FOLDER and what it measures itself:

  5         throughput of allreduces of both networks' gradients by hosts (`convoy bench allreduce`)
  6         s of an epoch by hosts and allreduce: rows of table1.py (with its arm `ring`, the paper's ring, too)
  7, 8      time and memory of a shuffle of a small and a three times larger data set (`convoy bench shuffle`)
  9         time of a shuffle by groups
  10, 11    s of an epoch without and with DIMD, GoogLeNet-BN and ResNet-50: rows of table1.py
  12        s of an epoch with both data-parallel tables: rows of table1.py
  13 to 16  accuracy and loss by time, base and everything, of a short training on 2 hosts

Seconds of an epoch are those of 1,281,167 images, from the median step, with the lowest and highest repetition.
Trainings are from scratch on Imagenette, --epochs of it; evaluations hold them up and are not in their time. Both have
the same weights at first and the same batches, so that their curves are the same by step but for rounding, which
--reproducible takes away where both give a device the same samples; a table says how far they are apart. Rows go to
FOLDER/figures.jsonl, accuracies for table1.py to FOLDER/accuracy.json. What is there is not measured again; --table
measures nothing. Needs gnuplot. --only 7,8,9 names some figures.

Figures 5, 7, 8 and 9 take some 10 minutes, the trainings 10 to 15 minutes an epoch and network at 224 pixels
(both arms); ResNet-50 may have --curve-size 112.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

import emulated
import table1
from emulated import ARMS, NETWORKS, TITLES, say

ALL = [str(number) for number in range(5, 17)]
ALGORITHMS = {"mpi": "Open MPI", "ring": "ring", "multicolor": "multi-color"}
CURVES = {"base": "base", "table": "optimized"}
SHUFFLED = {"7": 256, "8": 768}  # MiB of all ranks, as 70 to 220 GB in the paper


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convoy", default=os.path.join(emulated.ROOT, "build", "bin", "convoy"))
    parser.add_argument("--folder", required=True)
    parser.add_argument("--pictures", help="folder for kumar-figure-N.svg; FOLDER if it is left out")
    parser.add_argument("--data", help="folder with train/ and val/; $CONVOY_DATA/imagenette_224_small")
    parser.add_argument("--only", type=emulated.names(ALL), default=ALL)
    parser.add_argument("--networks", type=emulated.names(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--hosts", type=emulated.numbers, default=[2, 4, 8])
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--curve-hosts", type=int, default=2)
    parser.add_argument("--curve-batch", type=int, default=32, help="of all hosts together")
    parser.add_argument("--curve-size", type=int, default=224, help="of ResNet-50's images")
    parser.add_argument("--reproducible", action="store_true", help="sums that don't depend on their order")
    parser.add_argument("--table", action="store_true", help="draws what there is, and measures nothing")
    return parser.parse_args(words)


# --- measuring ---

def bench(options, path, hosts, what, words):
    """Rows of `convoy bench` on so many hosts, which are kept with the figure they are for."""
    key = {"figure": what, "hosts": hosts, "rate": options.rate, "words": words}
    if emulated.is_there(emulated.read_rows(path), key):
        return
    log = os.path.join(options.folder, "log")
    answers = os.path.abspath(os.path.join(options.folder, "bench.jsonl"))
    if os.path.exists(answers):
        os.remove(answers)
    with emulated.cluster(hosts, options.rate, emulated.even_share(hosts), log) as run:
        run([os.path.abspath(options.convoy), "bench", *words, "--json", answers])
    emulated.add_row(path, {**key, "rows": emulated.read_rows(answers)})
    say(f"figure {what}, {hosts} hosts: measured")


def measure_benches(options, path):
    repetitions = ["--repetitions", str(options.repetitions)]
    for hosts in options.hosts:
        if "5" in options.only:
            sizes = ",".join(str(emulated.GRADIENT_BYTES[network]) for network in NETWORKS)
            bench(options, path, hosts, "5", ["allreduce", "--sizes", sizes, "--algorithms",
                                              ",".join(ALGORITHMS), "--measure-limit", *repetitions])
        for figure, mebibytes in SHUFFLED.items():
            if figure in options.only:
                bench(options, path, hosts, figure, ["shuffle", "--bytes-per-rank", f"{mebibytes // hosts}MiB",
                                                     *repetitions])
    if "9" in options.only:
        hosts = max(options.hosts)
        groups = [str(count) for count in (1, 2, 4, 8) if hosts % count == 0 and count < hosts]
        bench(options, path, hosts, "9", ["shuffle", "--bytes-per-rank", f"{SHUFFLED['7'] // hosts}MiB", "--groups",
                                          ",".join(groups), *repetitions])


def curve_key(options, network, arm):
    return {"figure": "curve", "network": network, "arm": arm, "hosts": options.curve_hosts, "rate": options.rate,
            "epochs": options.epochs, "batch": options.curve_batch, "reproducible": options.reproducible,
            "size": 224 if network == "googlenet-bn" else options.curve_size}


def train(options, path, network, arm, source, pack):
    key = curve_key(options, network, arm)
    if emulated.is_there(emulated.read_rows(path), key):
        return
    log = os.path.join(options.folder, "log")
    folder = os.path.abspath(os.path.join(options.folder, "curve"))
    emulated.remove(folder)
    validation = f'path = "{source}/val"' if ARMS[arm]["reader"] == "files" else f'files = ["{pack[1]}"]'
    size = key["size"]
    text = emulated.recipe(network, arm, size, options.curve_batch, 2, source, pack[0], f'''folder = "{folder}"

[data.validation]
{validation}

[data.evaluate]
crop = "center"
resize = {size}

[checkpoint]
every_epochs = 0
every_minutes = 0
keep_best = false

[optimizer]
name = "sgd"
lr = {0.1 * options.curve_batch / 256:g}
momentum = 0.9
nesterov = true
weight_decay = 1e-4

[schedule]
name = "step"
milestones = [{options.epochs * 0.75:g}]
warmup = {min(1, options.epochs / 4):g}
warmup_from = 0.1
''') + f"epochs = {options.epochs}\n"
    # All arms have ten classes here, as the data.
    text = text.replace("classes = 1000\n", "").replace(
        "[sync]\n", f"[sync]\nreproducible = {'true' if options.reproducible else 'false'}\n")
    recipe = os.path.abspath(os.path.join(options.folder, "curve.toml"))
    with open(recipe, "w", encoding="utf-8") as file:
        file.write(text)
    with emulated.cluster(options.curve_hosts, options.rate, emulated.even_share(options.curve_hosts), log) as run:
        run([os.path.abspath(options.convoy), "train", recipe])
    emulated.add_row(path, {**key, **curve_of(folder)})
    emulated.remove(folder)
    say(f"{network}, {arm}: trained")


def curve_of(folder):
    """Seconds of training and values; evaluations and checkpoints, which hold it up, are taken out of the time."""
    held, losses, top1 = 0.0, [], []
    rows = emulated.read_rows(os.path.join(folder, "metrics.jsonl"))
    for row in rows:
        if row.get("kind") == "evaluation":
            held += row["time_s"]
            top1.append([row["step"], row["elapsed_s"] - held, row["top1"]])
        elif row.get("kind") == "checkpoint":
            held += row.get("held_s", 0)
        elif row.get("kind") == "step" and row.get("loss") is not None:
            losses.append([row["step"], row["elapsed_s"] - held, row["loss"]])
    return {"losses": losses, "top1": top1}


def measure(options, path):
    if os.geteuid() != 0:
        sys.exit("figures.py: an emulated cluster needs root")
    os.makedirs(options.folder, exist_ok=True)
    measure_benches(options, path)
    wanted = [network for network in options.networks
              if set(options.only) & set(figures_of_curves(network).values())]
    if not wanted:
        return
    source = emulated.data_folder(options.data)
    log = os.path.join(options.folder, "log")
    pack = [emulated.packed(options.convoy, source, os.path.abspath(options.folder), log),
            os.path.abspath(os.path.join(options.folder, "val.tar"))]
    if not os.path.exists(pack[1] + ".index"):
        emulated.call([options.convoy, "pack", os.path.join(source, "val"), pack[1], "--keep"], log)
    for network in wanted:
        for arm in CURVES:
            train(options, path, network, arm, source, pack)


# --- drawing ---

class Picture:
    """Lines with error bars over values of x, or curves."""

    def __init__(self, title, x, y, logarithmic_x=False):
        self.title, self.x, self.y, self.logarithmic = title, x, y, logarithmic_x
        self.series = []  # (title, [(x, middle, low, high)])

    def add(self, title, points):
        if points:
            self.series.append((title, points))

    def text(self, path):
        lines = ['set terminal svg size 720,400 font "sans,13" background "white"', f'set output "{path}"',
                 f'set title "{self.title}"', f'set xlabel "{self.x}"', f'set ylabel "{self.y}"', "set grid",
                 "set key top right", "set yrange [0:*]"]
        if self.logarithmic:
            values = sorted({point[0] for _, points in self.series for point in points})
            lines += ["set logscale x 2", f"set xrange [{values[0] / 1.4:g}:{values[-1] * 1.4:g}]",
                      "set xtics (" + ", ".join(f'"{value:g}" {value:g}' for value in values) + ")"]
        plots = []
        for i, (title, points) in enumerate(self.series):
            bars = len(points[0]) == 4
            lines += [f"$d{i} << EOD"] + [" ".join(f"{value:.9g}" for value in point) for point in points] + ["EOD"]
            style = "yerrorlines linewidth 2 pointtype 7 pointsize 0.6" if bars else "lines linewidth 2"
            plots.append(f'$d{i} with {style} title "{title}"')
        return "\n".join(lines + ["plot " + ", ".join(plots)]) + "\n"

    def draw(self, path):
        if not self.series:
            say(f"{os.path.basename(path)}: there is nothing to draw")
            return
        subprocess.run(["gnuplot"], input=self.text(path), text=True, check=True)
        print(path)


def newest(rows, **key):
    found = [row for row in rows if all(row.get(name) == value for name, value in key.items())]
    return found[-1] if found else None


def epochs_by_hosts(rows, network, arm):
    """(hosts, s of an epoch, lowest, highest): of the settings that were measured last."""
    points = {}
    for (of, hosts, _), arms in table1.groups_of(rows).items():
        if of == network and arm in arms:
            values = [table1.epoch_s(row, emulated.IMAGENET) for row in arms[arm].values()]
            points[hosts] = (hosts, *emulated.interval(values))
    return [points[hosts] for hosts in sorted(points)]


def picture_of_epochs(rows, title, networks, arms):
    picture = Picture(title, "hosts", "s an epoch of ImageNet-1k", True)
    for network in networks:
        for arm, name in arms.items():
            what = name if len(networks) == 1 else f"{TITLES[network]}, {name}"
            picture.add(what, epochs_by_hosts(rows, network, arm))
    return picture


def picture_of_throughput(rows):
    picture = Picture("Allreduce of 76.6 MB (GoogLeNet-BN) and 102 MB (ResNet-50)", "hosts", "MB/s of the sum", True)
    for network in NETWORKS:
        for algorithm, name in ALGORITHMS.items():
            points = []
            for hosts in sorted({row["hosts"] for row in rows if row["figure"] == "5"}):
                own = newest(rows, figure="5", hosts=hosts)["rows"]
                found = [each for each in own if each["bytes"] == emulated.GRADIENT_BYTES[network] and
                         each["algorithm"] == algorithm]
                points += [(hosts, each["bytes"] / each["median_s"] / 1e6) for each in found]
            picture.add(f"{TITLES[network]}, {name}", [(hosts, rate, rate, rate) for hosts, rate in points])
    return picture


def shuffles(rows, figure, hosts):
    """Rows of `convoy bench shuffle`; their spread is highest less lowest, half of which is drawn on either side."""
    own = newest(rows, figure=figure, hosts=hosts)
    return own["rows"] if own else []


def with_spread(x, row):
    return (x, row["median_s"], max(0, row["median_s"] - row["spread_s"] / 2), row["median_s"] + row["spread_s"] / 2)


def picture_of_shuffle(rows, figure):
    picture = Picture(f"A shuffle of {SHUFFLED[figure]} MiB", "hosts", "s; memory of a rank in 100 MiB", True)
    times, memory = [], []
    for hosts in sorted({row["hosts"] for row in rows if row["figure"] == figure}):
        for row in shuffles(rows, figure, hosts):
            times.append(with_spread(hosts, row))
            if row["peak_bytes"]:
                hundreds = row["peak_bytes"] / (100 << 20)
                memory.append((hosts, hundreds, hundreds, hundreds))
    picture.add("time", times)
    picture.add("most memory", memory)
    return picture


def picture_of_groups(rows):
    hosts = max((row["hosts"] for row in rows if row["figure"] == "9"), default=0)
    picture = Picture(f"A shuffle of {SHUFFLED['7']} MiB for each group, {hosts} hosts", "groups", "s", True)
    picture.add("time", [with_spread(row["groups"], row) for row in shuffles(rows, "9", hosts)])
    return picture


def figures_of_curves(network):
    return {"top1": "13", "losses": "15"} if network == "resnet50" else {"top1": "14", "losses": "16"}


def smoothed(points, width=15):
    """Means of the values of so many steps; of times those of the last."""
    values = [point[2] for point in points]
    return [(points[i][1], statistics.mean(values[max(0, i - width + 1):i + 1])) for i in range(len(points))]


def picture_of_curve(rows, network, what):
    title = "accuracy on validation data" if what == "top1" else "loss (mean of 15 steps)"
    picture = Picture(f"{TITLES[network]}, {title}", "s of training", "top-1, %" if what == "top1" else "loss")
    for arm, name in CURVES.items():
        row = newest(rows, figure="curve", network=network, arm=arm)
        if row:
            points = [(point[1], 100 * point[2]) for point in row[what]] if what == "top1" else smoothed(row[what])
            picture.add(name, points)
    return picture


def differences(rows):
    """How far the two trainings of a network are apart, step by step, and when each was done."""
    lines = []
    for network in NETWORKS:
        both = [newest(rows, figure="curve", network=network, arm=arm) for arm in CURVES]
        if None in both:
            continue
        first, second = ({step: loss for step, _, loss in row["losses"]} for row in both)
        common = sorted(set(first) & set(second))
        apart = {step: abs(first[step] - second[step]) / abs(first[step]) for step in common if first[step] != 0}
        ends = [row["losses"][-1][1] for row in both]
        lines.append([TITLES[network], len(common), f"{apart.get(common[0], 0):.1e}",
                      f"{max(apart[s] for s in common[:10] if s in apart):.1e}", f"{max(apart.values()):.1e}",
                      *(f"{row['top1'][-1][2]:.1%}" for row in both), *(f"{end:.0f}" for end in ends)])
    return lines


def write_accuracy(rows, path):
    accuracy = {}
    for network in NETWORKS:
        for arm in CURVES:
            row = newest(rows, figure="curve", network=network, arm=arm)
            if row and row["top1"]:
                accuracy.setdefault(network, {})[arm] = max(point[2] for point in row["top1"])
    if accuracy:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(accuracy, file)


def pictures(rows, own):
    by_allreduce = {"base": "Open MPI", "ring": "ring", "multicolor": "multi-color"}
    by_data = {"multicolor": "files", "dimd": "DIMD"}
    yield "5", picture_of_throughput(own)
    yield "6", picture_of_epochs(rows, "An epoch by allreduce", NETWORKS, by_allreduce)
    for figure in SHUFFLED:
        yield figure, picture_of_shuffle(own, figure)
    yield "9", picture_of_groups(own)
    yield "10", picture_of_epochs(rows, "GoogLeNet-BN, from files and from memory", ["googlenet-bn"], by_data)
    yield "11", picture_of_epochs(rows, "ResNet-50, from files and from memory", ["resnet50"], by_data)
    yield "12", picture_of_epochs(rows, "Both data-parallel tables", NETWORKS,
                                  {"dimd": "baseline", "table": "optimized"})
    for network in NETWORKS:
        for what, figure in figures_of_curves(network).items():
            yield figure, picture_of_curve(own, network, what)


def main():
    options = parse()
    path = os.path.join(options.folder, "figures.jsonl")
    if not options.table:
        try:
            measure(options, path)
        except emulated.Failed as failure:
            sys.exit(f"figures.py: {failure}")
    own = emulated.read_rows(path)
    rows = emulated.read_rows(os.path.join(options.folder, "table1.jsonl"))
    folder = os.path.abspath(options.pictures or options.folder)
    os.makedirs(folder, exist_ok=True)
    for figure, picture in pictures(rows, own):
        if figure in options.only:
            picture.draw(os.path.join(folder, f"kumar-figure-{figure}.svg"))
    write_accuracy(own, os.path.join(options.folder, "accuracy.json"))
    lines = differences(own)
    if lines:
        print()
        print(emulated.table(["network", "steps", "losses differ at the first, relatively", "within ten steps",
                              "at most", "top-1, base", "optimized", "s of training, base", "optimized"], lines))


if __name__ == "__main__":
    main()
