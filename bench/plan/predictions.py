#!/usr/bin/env python3
"""How far predictions of plans are off: plans of small recipes, each checked by trainings with other seeds.

    bench/plan/predictions.py --convoy build/bin/convoy --folder predictions

makes recipes of small networks on 6000 digits of MNIST and on made-up pictures, plans each (`convoy plan batch`), and
trains with the plan's batch, a quarter of it and four times it on each of --workers (`convoy plan check`). A table has
a row for each batch, as in docs/planning-results.md. Below it are

- the geometric mean of measured over predicted times, with a 95% interval. Rows of one recipe share a plan, so that
  they are off together: the interval is that of a mean over clusters, with Student's t for as many recipes;
- the part of rows whose measured time is inside the predicted 95% interval: that of the mean of so many trainings,
  which holds what is not sure of the prediction and the luck of the trainings;
- the same of updates, and of the time of an update.

All are said once for all rows, once for those of each number of workers, and once for those whose batch lies between
the smallest and the largest that the plan has measured, the others having a warning of the plan. Last come the parts by
which workers that share a host compute longer, as each plan has them.

What is finished is kept in FOLDER, whose rows.jsonl has a line for each plan and each check: stopped anywhere, the same
command goes on, and convoy repeats no finished training. --table prints what there is and measures nothing. Leave the
machine alone meanwhile: what else runs on it changes times. Each recipe takes a minute or two on two quiet cores.
"""

import argparse
import gzip
import hashlib
import json
import math
import os
import random
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MNIST = os.path.join(ROOT, "data", "mnist")
SAMPLES = 6000  # of each data set
RULES = "quarter,optimal,four"
# Quantiles of 97.5% of Student's t by degrees of freedom, from 1 on; beyond, 1.96 + 2.45/df is close enough.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
           2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]

EVEN_ODD = 'options.classes = [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]\noptions.class_names = ["even", "odd"]\n'


def recipe(data, model, optimizer, lr, target, batches, hidden=None, momentum=0.0, task="", metric="train_loss"):
    return {"data": data, "model": model, "hidden": hidden, "optimizer": optimizer, "lr": lr, "momentum": momentum,
            "task": task, "metric": metric, "target": target, "batches": batches}


# None of these networks, data and optimizers is one of the tables of docs/planning-results.md.
SMALL, LARGE, WIDE = "16,32,64,128", "16,40,100,256", "8,32,100,320"
FIRST = {
    "digits-mlp128": recipe("digits", "mlp", "sgd", 0.2, 0.05, LARGE, hidden=[128]),
    "digits-mlp256x2": recipe("digits", "mlp", "sgd", 0.2, 0.05, LARGE, hidden=[256, 256]),
    "digits-mlp128x2-momentum": recipe("digits", "mlp", "sgd", 0.025, 0.05, LARGE, hidden=[128, 128], momentum=0.9),
    "digits-mlp256-adam": recipe("digits", "mlp", "adam", 0.001, 0.05, LARGE, hidden=[256]),
    "digits-lenet43k-momentum": recipe("digits", "lenet43k", "sgd", 0.02, 0.12, SMALL, momentum=0.9),
    "evenodd-mlp256": recipe("digits", "mlp", "sgd", 0.2, 0.08, LARGE, hidden=[256], task=EVEN_ODD),
    "evenodd-lenet43k": recipe("digits", "lenet43k", "sgd", 0.1, 0.1, SMALL, task=EVEN_ODD),
    "digits-top1-mlp256": recipe("digits", "mlp", "sgd", 0.2, 0.98, LARGE, hidden=[256], metric="train_top1"),
    "pictures10-mlp256": recipe("pictures10", "mlp", "sgd", 0.2, 0.02, LARGE, hidden=[256]),
    "pictures10-lenet43k": recipe("pictures10", "lenet43k", "sgd", 0.1, 0.1, SMALL),
    "pictures20-mlp256-momentum": recipe("pictures20", "mlp", "sgd", 0.025, 0.02, LARGE, hidden=[256], momentum=0.9),
    "pictures20-mlp128x2-adam": recipe("pictures20", "mlp", "adam", 0.002, 0.02, LARGE, hidden=[128, 128]),
}
# What the first ones showed changed how plans are made; these were looked at only afterwards.
SECOND = {
    "digits-mlp192": recipe("digits", "mlp", "sgd", 0.2, 0.05, WIDE, hidden=[192]),
    "digits-mlp384": recipe("digits", "mlp", "sgd", 0.2, 0.05, WIDE, hidden=[384]),
    "digits-mlp160x2": recipe("digits", "mlp", "sgd", 0.2, 0.05, WIDE, hidden=[160, 160]),
    "digits-mlp192x3": recipe("digits", "mlp", "sgd", 0.1, 0.05, WIDE, hidden=[192, 192, 192]),
    "digits-mlp256-momentum": recipe("digits", "mlp", "sgd", 0.025, 0.05, WIDE, hidden=[256], momentum=0.9),
    "digits-mlp160-adam": recipe("digits", "mlp", "adam", 0.001, 0.05, WIDE, hidden=[160]),
    "digits-mlp128x2-adam": recipe("digits", "mlp", "adam", 0.001, 0.05, WIDE, hidden=[128, 128]),
    "evenodd-mlp160": recipe("digits", "mlp", "sgd", 0.2, 0.08, WIDE, hidden=[160], task=EVEN_ODD),
    "evenodd-mlp192x2-momentum": recipe("digits", "mlp", "sgd", 0.025, 0.08, WIDE, hidden=[192, 192], momentum=0.9,
                                        task=EVEN_ODD),
    "evenodd-lenet43k-momentum": recipe("digits", "lenet43k", "sgd", 0.01, 0.1, SMALL, momentum=0.9, task=EVEN_ODD),
    "digits-top1-mlp160x2": recipe("digits", "mlp", "sgd", 0.2, 0.98, WIDE, hidden=[160, 160], metric="train_top1"),
    "pictures10-mlp160-momentum": recipe("pictures10", "mlp", "sgd", 0.025, 0.02, WIDE, hidden=[160], momentum=0.9),
    "pictures20-mlp192": recipe("pictures20", "mlp", "sgd", 0.2, 0.02, WIDE, hidden=[192]),
    "pictures20-mlp320-adam": recipe("pictures20", "mlp", "adam", 0.001, 0.02, WIDE, hidden=[320]),
}
SETS = {"first": FIRST, "second": SECOND, "all": FIRST | SECOND}
RECIPES = SETS["all"]


def quoted(text):
    return json.dumps(text)


def idx_files(folder, name):
    return (os.path.join(folder, f"{name}-images"), os.path.join(folder, f"{name}-labels"))


def write_idx(folder, name, side, pixels, labels):
    images, numbers = idx_files(folder, name)
    with open(images + ".new", "wb") as file:
        file.write(struct.pack(">4I", 0x803, len(labels), side, side) + pixels)
    with open(numbers + ".new", "wb") as file:
        file.write(struct.pack(">2I", 0x801, len(labels)) + bytes(labels))
    os.replace(numbers + ".new", numbers)
    os.replace(images + ".new", images)  # at last: where it is, both are


def digits(folder, name):
    side = 28
    with gzip.open(os.path.join(MNIST, "train-images-idx3-ubyte.gz")) as file:
        pixels = file.read(16 + SAMPLES * side * side)[16:]
    with gzip.open(os.path.join(MNIST, "train-labels-idx1-ubyte.gz")) as file:
        labels = file.read(8 + SAMPLES)[8:]
    write_idx(folder, name, side, pixels, labels)


def smooth(draw, side, cells):
    """A random picture of so many cells a side, with straight lines between them; values from 0 to 1."""
    grid = [[draw.random() for _ in range(cells + 1)] for _ in range(cells + 1)]
    picture = []
    for y in range(side):
        v, y0 = math.modf(y * cells / side)
        for x in range(side):
            u, x0 = math.modf(x * cells / side)
            a, b = grid[int(y0)][int(x0):int(x0) + 2]
            c, d = grid[int(y0) + 1][int(x0):int(x0) + 2]
            picture.append((a * (1 - u) + b * u) * (1 - v) + (c * (1 - u) + d * u) * v)
    return picture


def pictures(folder, name):
    """Each class is three smooth pictures, and a sample one of them, under noise that is three times as strong."""
    classes, side, kinds = int(name[len("pictures"):]), 28, 3
    draw = random.Random(classes)
    patterns = [[[int(40 * value) for value in smooth(draw, side, 5)] for _ in range(kinds)] for _ in range(classes)]
    pixels, labels = bytearray(), []
    for sample in range(SAMPLES):
        labels.append(sample % classes)
        pattern = patterns[labels[-1]][draw.randrange(kinds)]
        noise = draw.randbytes(side * side)
        pixels += bytes(value + (byte >> 1) for value, byte in zip(pattern, noise))
    write_idx(folder, name, side, bytes(pixels), labels)


def make_data(folder, name):
    if not os.path.exists(idx_files(folder, name)[0]):
        (digits if name == "digits" else pictures)(folder, name)


def text_of(name, one, folder):
    images, labels = idx_files(os.path.abspath(folder), one["data"])
    mean, deviation = (0.1307, 0.3081) if one["data"] == "digits" else (0.33, 0.15)
    lines = [f"name = {quoted(name)}", "threads = 1", "[model]", f"name = {quoted(one['model'])}"]
    if one["task"]:
        lines.append("classes = 10")
    if one["hidden"] is not None:
        lines += ["[model.options]", f"hidden = {one['hidden']}"]
    if one["task"]:
        lines += ["[task]", one["task"].rstrip()]
    lines += ["[data]", 'reader = "idx"', f"mean = [{mean}]", f"deviation = [{deviation}]",
              "[data.train]", f"images = {quoted(images)}", f"labels = {quoted(labels)}",
              "[optimizer]", f"name = {quoted(one['optimizer'])}", f"lr = {one['lr']}"]
    if one["momentum"]:
        lines.append(f"momentum = {one['momentum']}")
    return "\n".join(lines + ["[training]", "batch = 32", "epochs = 10", ""])


def read_jsonl(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be cut


class Kept:
    """rows.jsonl: a line for what is finished of a recipe."""

    def __init__(self, folder, settings):
        self.path = os.path.join(folder, "rows.jsonl")
        self.lines = read_jsonl(self.path)
        if self.lines and settings and self.lines[0] != {"kind": "settings", **settings}:
            raise SystemExit(f"predictions.py: {folder} has rows of other settings, {self.lines[0]}; name another "
                             "--folder, or give the same options")
        if settings and not self.lines:
            self.add({"kind": "settings", **settings})

    def find(self, name, stage):
        return next((line for line in self.lines if line.get("recipe") == name and line.get("stage") == stage), None)

    def add(self, line):
        text = json.dumps(line) + "\n"
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb") as file:
            whole = b"".join((json.dumps(one) + "\n").encode() for one in self.lines)
            file.truncate(len(whole))  # a cut line goes
            file.seek(len(whole))
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)


class Failed(Exception):
    pass


def call(words, log):
    with open(log, "a", encoding="utf-8") as out:
        out.write("$ " + " ".join(words) + "\n")
        out.flush()
        begin = out.tell()
        status = subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    if status == 75:
        raise KeyboardInterrupt
    if status != 0:
        with open(log, encoding="utf-8") as text:
            text.seek(begin)
            last = text.read().strip().split("\n")[-1]
        raise Failed(f"{words[1]} {words[2]} ended with {status}: {last} (see {log})")


def measure(name, one, options, kept):
    folder = os.path.join(options.folder, name)
    os.makedirs(folder, exist_ok=True)
    path, plan, log = (os.path.join(folder, file) for file in ("mine.toml", "plan", "log"))
    make_data(options.folder, one["data"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(text_of(name, one, options.folder))
    base = [options.convoy, "plan"]
    workers = [str(count) for count in options.workers]

    def stage(what, words, rows_of):
        if kept.find(name, what):
            return
        began = time.monotonic()
        answers = os.path.join(folder, what.replace(" ", "-") + ".jsonl")
        call(words + ["--folder", plan, "--resume", "--json", answers], log)
        rows = rows_of(read_jsonl(answers))
        kept.add({"recipe": name, "stage": what, "seconds": round(time.monotonic() - began, 1), "rows": rows})
        print(f"{name}: {what} took {kept.lines[-1]['seconds']:.0f} s", flush=True)

    stage("plan", base + ["batch", path, "--workers", ",".join(workers), "--metric", one["metric"], "--targets",
                          str(one["target"]), "--batches", one["batches"], "--seeds", str(options.plan_seeds),
                          "--rates", ",".join(f"{times * one['lr']:g}" for times in (0.5, 1, 2, 4)),
                          "--time", "1,4,16,64,256"],
          lambda rows: [row for row in rows if row.get("kind") in ("answer", "updates", "machine")])
    for count in workers:
        stage(f"check {count}", base + ["check", path, "--workers", count, "--seeds", str(options.seeds), "--rules",
                                        RULES],
              lambda rows: [row for row in rows if row.get("kind") in ("check", "left_out", "other_machine")])


def rows_of(kept):
    """Rows with a prediction and a measured time, each batch of a recipe and number of workers once; and why others are
    none."""
    rows, without = [], []
    for line in kept.lines:
        if not str(line.get("stage", "")).startswith("check"):
            continue
        plan = kept.find(line["recipe"], "plan")
        laws = [row for row in plan["rows"] if row["kind"] == "updates"] if plan else []
        batches = [point["batch"] for point in laws[-1]["points"] if point["reached"]] if laws else []
        seen = set()
        for row in line["rows"]:
            count = line["stage"].split()[1]
            where = f"{line['recipe']}, {count} worker{'' if count == '1' else 's'}, {row.get('rule', '')}"
            if row["kind"] == "other_machine":
                raise SystemExit(f"predictions.py: {line['recipe']} was planned on {row['predicted_for']} and checked "
                                 f"on {row['trained_on']}; name another --folder")
            if row["kind"] == "left_out":
                without.append(f"{where}: {row['why']}")
            elif row["at_least"] or row["seconds"] is None or row["predicted_seconds"] is None:
                why = ("nothing is predicted for it" if row["predicted_seconds"] is None else
                       f"{row['reached']} of {row['runs']} trainings reached the target, {row['diverged']} diverged")
                without.append(f"{where}, batch {row['batch']}: {why}")
            elif row["batch"] not in seen:
                seen.add(row["batch"])
                inside = bool(batches) and min(batches) <= row["batch"] <= max(batches)
                rows.append({**row, "recipe": line["recipe"], "between": inside,
                             "trusted": bool(laws) and laws[-1]["trusted"]})
    return rows, without


def mean_over_clusters(values):
    """Geometric mean of (cluster, ratio), with the interval of 95% (None with one cluster)."""
    logs = [(cluster, math.log(ratio)) for cluster, ratio in values]
    mean = sum(log for _, log in logs) / len(logs)
    sums = {}
    for cluster, log in logs:
        sums[cluster] = sums.get(cluster, 0) + log - mean
    count = len(sums)
    if count < 2:
        return math.exp(mean), None
    error = math.sqrt(count / (count - 1) * sum(total * total for total in sums.values())) / len(logs)
    quantile = STUDENT[count - 2] if count - 2 < len(STUDENT) else 1.96 + 2.45 / (count - 1)
    return math.exp(mean), (math.exp(mean - quantile * error), math.exp(mean + quantile * error))


def ratio_text(values):
    mean, interval = mean_over_clusters(values)
    return f"{mean:.3f}" + (f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else "")


def is_inside(row):
    low, high = row["expected_seconds_low"], row["expected_seconds_high"]
    return None if low is None or high is None else low <= row["seconds"] <= high


def print_summary(title, rows):
    if not rows:
        return
    recipes = len({row["recipe"] for row in rows})
    print(f"\n{title}: {len(rows)} rows of {recipes} recipe{'s' if recipes > 1 else ''}")
    for name, key in (("time to the target", "seconds"), ("updates", "updates"), ("time of an update", "update_s")):
        values = [(row["recipe"], row[key] / row["predicted_" + key]) for row in rows]
        above = sum(ratio > 1 for _, ratio in values)
        print(f"  {name}, measured over predicted: {ratio_text(values)}; {above} above 1")
    judged = [is_inside(row) for row in rows if is_inside(row) is not None]
    if judged:
        print(f"  measured times inside the predicted 95% intervals: {sum(judged)} of {len(judged)}, "
              f"{100 * sum(judged) / len(judged):.0f}%")


def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def seconds_text(value):
    return f"{number(1000 * value)} ms" if value < 1 else f"{number(value)} s"


def print_table(rows):
    print("\n| recipe | workers | rule | batch | updates: predicted | measured | of an update: predicted | measured "
          "| to the target: predicted | measured | | |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for row in rows:
        inside = is_inside(row)
        notes = ["inside" if inside else "outside" if inside is not None else ""]
        notes += [] if row["between"] else ["not between measured batches"]
        notes += [] if row["trusted"] else ["law not trusted"]
        print(f"| {row['recipe']} | {row['workers']} | `{row['rule']}` | {row['batch']} "
              f"| {number(row['predicted_updates'])} | {number(row['updates'])} "
              f"| {seconds_text(row['predicted_update_s'])} | {seconds_text(row['update_s'])} "
              f"| {seconds_text(row['predicted_seconds'])} | {seconds_text(row['seconds'])} "
              f"| {100 * (row['seconds'] / row['predicted_seconds'] - 1):+.0f}% | {', '.join(filter(None, notes))} |")


def print_contention(kept):
    parts = []
    for line in kept.lines:
        machines = [row for row in line.get("rows", []) if row["kind"] == "machine"]
        for point in machines[-1].get("contention", []) if machines else []:
            low, high = (f"{100 * point[key]:.1f}" for key in ("part_low", "part_high"))
            parts.append(f"{line['recipe']} {100 * point['part']:.1f}% ({low} to {high}) of {point['workers']}")
    if parts:
        print("\nworkers that share a host compute longer: " + ", ".join(parts))


def print_times(kept):
    totals = {}
    for line in kept.lines:
        if "recipe" in line:
            totals[line["recipe"]] = totals.get(line["recipe"], 0) + line["seconds"]
    if totals:
        print("\nseconds by recipe: " + ", ".join(f"{name} {total:.0f}" for name, total in totals.items()) +
              f"; together {sum(totals.values()) / 60:.1f} minutes")


def print_all(kept):
    rows, without = rows_of(kept)
    if not rows:
        print("there are no rows yet")
        return
    print_table(rows)
    if without:
        print("\nwithout a row:")
        for line in without:
            print(f"  {line}")
    between = [row for row in rows if row["between"]]
    print_summary("all rows", rows)
    counts = sorted({row["workers"] for row in rows})
    for count in counts if len(counts) > 1 else []:
        print_summary(f"{count} worker{'' if count == 1 else 's'}", [row for row in rows if row["workers"] == count])
    if len(between) < len(rows):
        print_summary("batches between measured ones", between)
    print_contention(kept)
    print_times(kept)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convoy", default="build/bin/convoy", help="the program (build/bin/convoy)")
    parser.add_argument("--folder", default="predictions", help="where data, plans and rows are kept (predictions)")
    parser.add_argument("--set", choices=list(SETS), default="all", help="of recipes: first, second or all (all)")
    parser.add_argument("--recipes", default="", help="some of them, as " + ",".join(list(RECIPES)[:2]))
    parser.add_argument("--workers", default="1,2", help="numbers of workers to plan for and to check (1,2)")
    parser.add_argument("--seeds", type=int, default=4, help="trainings of each row (4)")
    parser.add_argument("--plan-seeds", type=int, default=4, help="runs of each batch and rate of a plan (4)")
    parser.add_argument("--table", action="store_true", help="print what there is, and measure nothing")
    options = parser.parse_args()
    options.workers = [int(word) for word in options.workers.split(",")]
    options.recipes = options.recipes.split(",") if options.recipes else list(SETS[options.set])
    unknown = [name for name in options.recipes if name not in RECIPES]
    if unknown:
        parser.error(f"there is no recipe {unknown[0]}; there are {', '.join(RECIPES)}")
    return options


def main():
    options = parse()
    if options.table:
        print_all(Kept(options.folder, None))
        return 0
    os.makedirs(options.folder, exist_ok=True)
    definition = hashlib.sha256(json.dumps(RECIPES, sort_keys=True).encode()).hexdigest()[:8]
    kept = Kept(options.folder, {"recipes": definition, "workers": options.workers, "seeds": options.seeds,
                                 "plan_seeds": options.plan_seeds})
    failed = 0
    try:
        for name in options.recipes:
            try:
                measure(name, RECIPES[name], options, kept)
            except Failed as failure:
                failed += 1
                print(f"{name}: {failure}", flush=True)
    except KeyboardInterrupt:
        print("stopped; the same command goes on")
        print_all(kept)
        return 75
    print_all(kept)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
