"""Updates to a target over the mini-batch, of several plans: a picture and a table.

    convoy plan batch recipes/mini-batch/mnist-lenet43k.toml ... --json lenet43k.json
    python3 bench/plan/laws.py "LeNet 43k, MNIST=lenet43k.json" ... --svg laws.svg

A panel for each TITLE=FILE, with the mean updates of each batch at its best rate, and the law that was fitted, for each
target; the table, as Markdown, goes to standard output. Needs gnuplot.
"""

import argparse
import json
import math
import subprocess

COLORS = ["#3b6fd4", "#d9622b", "#2f9e5f", "#8a5bc8"]
COLUMNS, WIDTH, HEIGHT = 3, 320, 250


def laws_of(path):
    """[(target, row)] of the answers to each target, easiest first. The target stands in the rows behind a law."""
    laws, law = [], None
    with open(path, encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["kind"] == "updates":
                law = row
            elif row["kind"] == "batch" and law is not None:
                laws.append((row["metric"], row["target"], law))
                law = None
    return laws


def number(value):
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}"


def interval(row, name):
    return f"{number(row[name])} ({number(row[name + '_low'])} to {number(row[name + '_high'])})"


def print_table(plans):
    print("| | target | batches | rates | N∞ | α | farthest from the law | |")
    print("|---|---|---|---|---:|---:|---:|---|")
    for title, laws in plans:
        for metric, target, row in laws:
            points = [p for p in row["points"] if p["reached"]]
            far = max(abs(p["updates"] / p["fitted"] - 1) for p in points)
            rates = sorted({p["learning_rate"] for p in points})
            runs = sum(p["runs"] for p in row["points"])
            print(f"| {title} | {metric} {target:g} | {points[0]['batch']} to {points[-1]['batch']} "
                  f"| {', '.join(f'{r:g}' for r in rates)} | {interval(row, 'updates_at_infinity')} "
                  f"| {interval(row, 'noise_sensitivity')} | {100 * far:.0f}% | {runs} runs"
                  f"{'' if row['trusted'] else ', not trusted'} |")


def panel(title, laws):
    plots, data = [], []
    for i, (_, target, row) in enumerate(laws):
        color = COLORS[i % len(COLORS)]
        law = f"{row['updates_at_infinity']:.8g} + {row['noise_sensitivity']:.8g} / x"
        points = [p for p in row["points"] if p["reached"]]
        name = f"p{i}"
        data.append(f"${name} << EOD\n" + "\n".join(f"{p['batch']} {p['updates']:.8g}" for p in points) + "\nEOD")
        plots.append(f"[{points[0]['batch'] / 1.3:g}:{points[-1]['batch'] * 1.3:g}] {law} lc rgb '{color}' lw 1.5 notitle")
        plots.append(f"${name} with points pt 7 ps 0.55 lc rgb '{color}' title 'to {target:g}'")
    return "\n".join(data) + f"\nset title \"{title}\"\nplot " + ", \\\n  ".join(plots) + "\n"


def draw(plans, path):
    columns = min(COLUMNS, len(plans))
    rows = -(-len(plans) // columns)
    script = [f"set terminal svg size {columns * WIDTH},{rows * HEIGHT} background '#ffffff' font 'sans-serif,11'",
              f"set output '{path}'",
              f"set multiplot layout {rows},{columns}",
              "set logscale xy", "set xlabel 'samples in a mini-batch' offset 0,0.4", "set ylabel 'updates' offset 1",
              "set grid lc rgb '#dddddd'", "set key top right samplen 1", "set border 3", "set tics nomirror"]
    script += [panel(title, laws) for title, laws in plans]
    subprocess.run(["gnuplot"], input="\n".join(script) + "\nunset multiplot\n", text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", metavar="TITLE=FILE", help="answers of convoy plan batch --json")
    parser.add_argument("--svg", help="the picture's file")
    options = parser.parse_args()
    plans = []
    for plan in options.plans:
        title, _, path = plan.rpartition("=")
        laws = laws_of(path)
        if not laws:
            raise SystemExit(f"laws.py: {path} has no law: no target was reached with enough batches")
        plans.append((title or path, laws))
    print_table(plans)
    if options.svg:
        draw(plans, options.svg)


if __name__ == "__main__":
    main()
