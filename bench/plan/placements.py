"""Steps of placements as `convoy plan placement` forecasts them, and as `convoy bench step` measures them.

    python3 bench/plan/placements.py --convoy build/bin/convoy \\
        --launch "tools/cluster --hosts 4 --rate 200mbit --cpu 20% --"

--launch starts the ranks; without it, two on this machine. Each network, MODEL:BATCH_PER_RANK with --set words
of the commands behind further colons, is planned once, and then measured in each placement: sync, and hybrid as
SCHEME or SCHEME/PARTITIONS (bc2/4: two senders of four partitions; c2: two passes). The last column is measured / forecast; --json
FILE has a row of each.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys

NETWORKS = ["alexnet-one-tower:16", "alexnet-one-tower:16:model.options.hidden=1024", "resnet18:4"]
PLACEMENTS = ["sync", "a", "c"]


def rows_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"placements.py: status {done.returncode} from {' '.join(command)}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def words_of(network):
    """(model, [--batch-per-rank, N, --set, ...])"""
    model, batch, *overrides = network.split(":")
    words = ["--batch-per-rank", batch]
    for override in overrides:
        words += ["--set", override]
    return model, words


def options_of(placement):
    """The words of bench step, and which rows of the plan they mean."""
    if placement == "sync":
        return ["--strategy", "sync"], lambda row: row["strategy"] == "sync"
    found = re.fullmatch(r"(a|b|bc(?=\d)|c)(\d*)(?:/(\d+))?", placement)
    if not found or (found[2] and found[1] in ("a", "b")):
        raise SystemExit(f"placements.py: '{placement}' is no placement; write sync, a, b, c, bc2, c2 or c/4")
    scheme, number, partitions = found.groups()
    senders, passes = (number, "") if scheme == "bc" else ("", number)
    words = ["--strategy", "hybrid", "--scheme", scheme]
    if senders:
        words += ["--senders", senders]
    if passes:
        words += ["--passes", passes]
    if partitions:
        words += ["--partitions", partitions]

    def means(row):
        return (row["strategy"] == "hybrid" and row["scheme"] == scheme
                and row["senders"] == int(senders or 0) and row["passes"] == int(passes or 0)
                and (row["partitions"] == int(partitions) if partitions else row["replicas"] == 1))
    return words, means


def compare(options, network):
    model, words = words_of(network)
    start = [*shlex.split(options.launch), options.convoy]
    ranks = [] if options.launch else ["-n", "2"]
    world = [] if options.launch else ["--world", "2"]
    plan = rows_of([*start, "plan", "placement", model, *words, *ranks, *world, "--json", "-"])
    plan = [row for row in plan if row["kind"] == "placement"]
    for placement in options.placements:
        chosen, means = options_of(placement)
        forecast = next(filter(means, plan), None)
        if forecast is None:
            raise SystemExit(f"placements.py: the plan of {network} has no {placement}")
        measured = rows_of([*start, "bench", "step", "--model", model, *words, *ranks, *chosen,
                            "--repetitions", str(options.repetitions), "--seconds",
                            str(options.seconds), "--json", "-"])[0]
        yield {"network": network, "placement": forecast["placement"],
               "forecast_s": forecast["step_s"], "measured_s": measured["step_s"],
               "ratio": measured["step_s"] / forecast["step_s"],
               "forecast_compute_s": forecast["compute_s"],
               "forecast_exposed_s": forecast["exposed_communication_s"],
               "measured_exposed_s": measured["exposed_communication_s"],
               "forecast_hidden": forecast["hidden_communication"],
               "measured_hidden": measured["hidden_communication"],
               "forecast_bytes": forecast["sent_bytes"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convoy", required=True)
    parser.add_argument("--launch", default="")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--placements", nargs="+", default=PLACEMENTS)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--json")
    options = parser.parse_args()
    out = open(options.json, "w", encoding="utf-8") if options.json else None
    print(f"{'network':<48} {'placement':<18} {'forecast':>9} {'measured':>9} {'ratio':>6}", flush=True)
    for network in options.networks:
        for row in compare(options, network):
            print(f"{row['network']:<48} {row['placement']:<18} {row['forecast_s']:8.3f}s "
                  f"{row['measured_s']:8.3f}s {row['ratio']:6.2f}", flush=True)
            if out:
                print(json.dumps(row), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
