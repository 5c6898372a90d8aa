#!/usr/bin/env python3
"""Table II of Kumar et al. 2017 as a projection: 90 epochs of ResNet-50 on ImageNet-1k on 256 devices.

    bench/kumar/table2.py --images-per-s 178                     # of a device, measured or read somewhere
    bench/kumar/table2.py --rows kumar/table1.jsonl              # of a device here, from rows of table1.py
    bench/kumar/table2.py --convoy build/bin/convoy              # and cores here, forecast by the planner

Nobody trains on 256 devices here. A step of a device takes as long as its images take at the given rate, which is that
of computing alone, and what of the sum over nodes is not hidden behind that. A sum of S bytes over n nodes has the
planner's model (docs/placement.md): 2 S (n-1)/n over the link, and 2 (n-1) times the latency. --hidden says which part
of the backward pass, two thirds of computing, may hide it. A node's devices add up in its memory at --bus bytes a
second. With --convoy a second table has what `convoy plan placement` forecasts for as many cores of this machine with
such links, each a rank of its own.

Without an option the rate is what the paper's own Table I implies of a P100: an epoch on 8 nodes with 64 images for
each device, less what the model says of the sums there. So the projection says what the model makes of the way from 32
to 256 devices and to half the batch, and how far that is from the paper's 48 minutes. Stragglers, evaluation, reading
data and a slower start are not in it.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys

import emulated
from emulated import IMAGENET

# Who, devices, minutes of 90 epochs, top-1; Table II and its text.
PAPER = [("Kumar et al.", "256 P100", 48, "75.4%"), ("Goyal et al.", "256 P100", 65, "76.2%"),
         ("You et al.", "512 KNL", 60, "74.7%")]
UNITS = {"kbit": 1e3 / 8, "mbit": 1e6 / 8, "gbit": 1e9 / 8}


def rate_of(text):
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return float(text[:-len(unit)]) * factor
    raise argparse.ArgumentTypeError(f"'{text}' is no rate such as 100gbit")


def time_of(text):
    for unit, factor in (("us", 1e-6), ("ms", 1e-3), ("s", 1)):
        if text.endswith(unit):
            return float(text[:-len(unit)]) * factor
    raise argparse.ArgumentTypeError(f"'{text}' is no time such as 2us")


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=emulated.NETWORKS, default="resnet50")
    parser.add_argument("--images-per-s", type=float, help="of a device that computes alone")
    parser.add_argument("--rows", help="table1.jsonl: the rate of its devices")
    parser.add_argument("--convoy", help="the program, for a forecast of cores of this machine")
    parser.add_argument("--nodes", type=emulated.numbers, default=[8, 16, 32, 64])
    parser.add_argument("--devices", type=int, default=4, help="of a node")
    parser.add_argument("--batch-per-device", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--bandwidth", default="200gbit", help="of a node, each way (two adapters of 100 Gbit/s)")
    parser.add_argument("--latency", default="2us")
    parser.add_argument("--part", type=float, default=1.0, help="of that bandwidth that a sum reaches")
    parser.add_argument("--hidden", type=float, default=0.0, help="0: sums follow the backward pass, as in the paper")
    parser.add_argument("--bus", type=float, default=20e9, help="bytes a second of the sum within a node")
    parser.add_argument("--threads", type=int, default=1, help="of a rank of --convoy")
    options = parser.parse_args(words)
    options.link, options.delay = rate_of(options.bandwidth), time_of(options.latency)
    if not 0 <= options.hidden <= 1 or not 0 < options.part <= 1:
        parser.error("--hidden is from 0 to 1, --part above 0 and up to 1")
    return options


def rate_in_paper(options):
    """Images/s that a P100 computes, of Table I: the step on 8 nodes without the sums of the model."""
    nodes, devices, batch = 8, 4, 64
    epoch_s = {"googlenet-bn": 155, "resnet50": 224}[options.network]
    between, within = sum_s(options, nodes, devices)
    rest = epoch_s * nodes * devices * batch / IMAGENET - within
    hides = options.hidden * 2 / 3  # of computing
    computing = rest if between <= hides * rest else (rest - between) / (1 - hides)
    return batch / computing


def rate_of_rows(path, network):
    """Images/s of a device's forward and backward pass and update, from rows with everything; the median."""
    rates = []
    for row in emulated.read_rows(path):
        if row["network"] == network and row["arm"] == "table":
            computing = row["forward_s"] + row["backward_s"] + row["update_s"]
            rates.append(row["batch_per_device"] / computing)
    if not rates:
        sys.exit(f"table2.py: {path} has no rows of {network} with the arm 'table'")
    return statistics.median(rates)


def sum_s(options, nodes, devices):
    """Of the gradients over nodes, and within a node before and after it."""
    size = emulated.GRADIENT_BYTES[options.network]
    between = 0 if nodes == 1 else (2 * size * (nodes - 1) / nodes / (options.link * options.part) +
                                    2 * (nodes - 1) * options.delay)
    within = 2 * size * (devices - 1) / options.bus
    return between, within


def project(options, rate, nodes):
    computing = options.batch_per_device / rate
    between, within = sum_s(options, nodes, options.devices)
    exposed = max(0.0, between - options.hidden * computing * 2 / 3)
    step = computing + within + exposed
    steps = math.ceil(IMAGENET / (nodes * options.devices * options.batch_per_device))
    return {"nodes": nodes, "step_s": step, "computing_s": computing, "between_s": between, "within_s": within,
            "exposed_s": exposed, "epoch_s": steps * step, "minutes": options.epochs * steps * step / 60,
            "efficiency": computing / step}


def forecast(options):
    """Rows of `convoy plan placement`, data parallelism on as many ranks; layers are timed once."""
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"convoy-table2-{os.getpid()}.toml")
    found = []
    try:
        for nodes in options.nodes:
            world = nodes * options.devices
            words = [options.convoy, "plan", "placement", options.network, "--world", str(world), "--batch-per-rank",
                     str(options.batch_per_device), "--bandwidth", options.bandwidth, "--latency", options.latency,
                     "--set", f"threads={options.threads}", "--json", "-"]
            words += ["--machine", folder] if os.path.exists(folder) else ["-n", "1", "--write-machine", folder]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"table2.py: {' '.join(words)}: {done.stderr.strip()}")
            rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            found.append((world, next(row for row in rows if row.get("strategy") == "sync")))
    finally:
        if os.path.exists(folder):
            os.remove(folder)
    return found


def print_assumptions(options, rate, why):
    print(f"{emulated.TITLES[options.network]}, {options.epochs} epochs of {IMAGENET:,} images, "
          f"{options.batch_per_device} images for each device and step\n")
    for line in (f"a device computes {rate:.1f} images/s ({why})",
                 f"{options.devices} devices in a node, whose gradients are added up at {options.bus / 1e9:g} GB/s",
                 f"{emulated.GRADIENT_BYTES[options.network] / 1e6:.1f} MB of gradients between nodes over "
                 f"{options.bandwidth}, of which a sum reaches {options.part:.0%}, each way; latency "
                 f"{options.latency}",
                 f"{options.hidden:.0%} of the backward pass may hide the sum",
                 "all devices alike; no evaluation, reading or waiting for stragglers"):
        print(f"- {line}")


def main():
    options = parse()
    if options.images_per_s:
        rate, why = options.images_per_s, "given"
    elif options.rows:
        rate, why = rate_of_rows(options.rows, options.network), f"measured, {options.rows}"
    else:
        rate, why = rate_in_paper(options), "the paper's Table I on 8 nodes, less the sums of this model"
    print_assumptions(options, rate, why)
    print()
    print(emulated.table(
        ["devices", "step", "computing", "sum between nodes", "within", "s an epoch", f"{options.epochs} epochs",
         "efficiency"],
        [[each["nodes"] * options.devices, f"{each['step_s']:.3f} s", f"{each['computing_s']:.3f} s",
          f"{1e3 * each['between_s']:.1f} ms", f"{1e3 * each['within_s']:.1f} ms", f"{each['epoch_s']:,.0f}",
          f"{each['minutes']:,.1f} min", f"{each['efficiency']:.1%}"]
         for each in (project(options, rate, nodes) for nodes in options.nodes)]))
    if options.network == "resnet50":
        print("\nThe paper's Table II\n")
        print(emulated.table(["", "devices", "90 epochs", "top-1"],
                             [[who, devices, f"{minutes} min", top1] for who, devices, minutes, top1 in PAPER]))
    if options.convoy:
        print(f"\nForecast of ranks with {options.threads} thread{'s' if options.threads > 1 else ''} of this machine "
              "each, a link of that bandwidth each, by convoy plan placement\n")
        lines = []
        for world, row in forecast(options):
            steps = math.ceil(IMAGENET / (world * options.batch_per_device))
            lines.append([world, f"{row['step_s']:.2f} s", f"{row['exposed_communication_s']:.3f} s",
                          f"{row['hidden_communication']:.0%}",
                          f"{options.epochs * steps * row['step_s'] / 3600:,.1f} h"])
        print(emulated.table(["ranks", "step", "exposed", "hidden", f"{options.epochs} epochs"], lines))


if __name__ == "__main__":
    main()
