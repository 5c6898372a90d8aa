"""What more partitions of a network would bring: a projection of `convoy bench partition` to other numbers of them.

    convoy bench partition --model local-s -P 1,2,4 --json rows.jsonl
    python3 bench/plan/partitions.py --convoy build/bin/convoy --rows rows.jsonl --bandwidth 1gbit --latency 1e-4

Rows are of one network; of P for which there are several the last one counts. A mini-batch of training takes

    compute(P) + exposed(P)
    compute(P) = unit x (largest share of MACs at P) + fixed
    exposed(P) = communication(P) x part that is not hidden

where shares and what is sent are counted (`convoy plan partition`), and communication(P) is the sum over exchanges,
forward and backward, of latency + the longest that a partition takes for its bytes and messages at the given
--bandwidth and --message; gradients that all partitions sum come on top, as in a ring. `fixed` is what does not become
less with more partitions: starting operations, small products that use a core badly, messages' copies. It and `unit`
are fitted to the rows of --fit by least squares of relative errors, the exposed part is the median over them; rows that
are not among them test the forecast. A single row has nothing to fit: nothing fixed, nothing hidden. Waiting for what is
slower than others of its kind (stragglers) is in neither.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys

KEPT = ("model.", "data.", "task.", "training.", "optimizer.", "precision")


def bytes_per_s(text):
    found = re.fullmatch(r"([0-9.]+)(k|m|g)bit", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is no rate; write 200mbit or 10gbit")
    return float(found[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[found[2]] / 8


def numbers(text):
    values = [int(word) for word in text.split(",")]
    if min(values) < 1:
        raise argparse.ArgumentTypeError("numbers of partitions are at least 1")
    return values


def read_rows(files):
    rows = {}
    for name in files:
        with open(name, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if row.get("kind") == "partition" and "error" not in row:
                    rows[row["partitions"]] = row
    if not rows:
        raise SystemExit("partitions.py: there is no row of `convoy bench partition` in --rows")
    keys = ("network", "batch", "images", "precision", "threads", "set")
    if len({json.dumps([row[key] for key in keys]) for row in rows.values()}) > 1:
        raise SystemExit("partitions.py: rows are to be of one network and measured alike: " + ", ".join(keys))
    return rows


class Plans:
    """Counted sizes, by number of partitions."""

    def __init__(self, convoy, row, options, scores):
        self.command = [convoy, "plan", "partition", row["network"], "--by", row["images"],
                        "--batch", str(row["batch"]), "--json", "-"]
        for override in row["set"]:
            if override.startswith(KEPT):
                self.command += ["--set", override]
        self.options, self.scores, self.known = options, scores, {}

    def of(self, partitions):
        if partitions not in self.known:
            done = subprocess.run([*self.command, "-P", str(partitions)], stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"partitions.py: status {done.returncode} from {' '.join(done.args)}")
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            self.known[partitions] = {kind: [row for row in rows if row["kind"] == kind]
                                      for kind in ("partition", "exchange")}
        return self.known[partitions]

    def share(self, partitions):
        return max(row["macs_share"] for row in self.of(partitions)["partition"])

    def communication(self, partitions):
        o, plan, total = self.options, self.of(partitions), 0.0
        for row in plan["exchange"]:
            if row["how"] == "outputs" and not self.scores:
                continue
            for way in ("forward_bytes", "backward_bytes"):
                if row[way] == 0:
                    continue
                sent, received, messages = {}, {}, {}
                for pair in row["pairs"]:
                    sender, receiver = (pair["from"], pair["to"]) if way == "forward_bytes" else (pair["to"], pair["from"])
                    sent[sender] = sent.get(sender, 0) + pair["bytes"]
                    received[receiver] = received.get(receiver, 0) + pair["bytes"]
                    for one in (sender, receiver):
                        messages[one] = messages.get(one, 0) + 1
                total += o.latency + max(max(sent.get(p, 0), received.get(p, 0)) / o.bandwidth + n * o.message
                                         for p, n in messages.items())
        summed = 4 * plan["partition"][0]["summed_parameters"]
        if summed > 0 and partitions > 1:
            total += 2 * (partitions - 1) * (summed / partitions / o.bandwidth + o.latency)
        return total


def exposed_of(row):
    return max(0.0, row["training_s"] - row["compute_s"]["most"])


def fitted_line(points):
    """Slope and intercept, none of them negative, with the least sum of squared relative errors."""
    if len(points) > 1:
        # Each equation a x / y + b / y = 1.
        xx = sum((x / y) ** 2 for x, y in points)
        xo = sum(x / y / y for x, y in points)
        oo = sum(1 / y / y for _, y in points)
        x1, o1 = sum(x / y for x, y in points), sum(1 / y for _, y in points)
        determinant = xx * oo - xo * xo
        slope, intercept = (x1 * oo - o1 * xo) / determinant, (o1 * xx - x1 * xo) / determinant
        if intercept > 0:
            return slope, intercept
    return sum(x / y for x, y in points) / sum((x / y) ** 2 for x, y in points), 0.0


def forecasts(options, rows):
    first = min(rows)
    for p, row in sorted(rows.items()):
        if row["ranks_per_host"] * row["threads"] > row["cores_per_host"]:
            print(f"partitions.py: the {p} partitions shared cores, so their times are not those of as many machines",
                  file=sys.stderr)
    sends = [row["exchange"].get("scores", {}).get("sent_bytes", 0) for row in rows.values()]
    plans = Plans(options.convoy, rows[first], options, scores=len(rows) == 1 or max(sends) > 0)
    fit = [p for p in sorted(options.fit or sorted(rows)[:2]) if p in rows]
    unit, fixed = fitted_line([(plans.share(p), rows[p]["compute_s"]["most"]) for p in fit or [first]])
    parts = [exposed_of(rows[p]) / plans.communication(p) for p in fit if p > 1 and plans.communication(p) > 0]
    part = statistics.median(parts) if parts else 1.0
    print(f"{rows[first]['model']}, mini-batches of {rows[first]['batch']}: {fixed:.3g} s of computing stay however many "
          f"partitions there are, {100 * part:.0f} % of the communication exposed (from P = {', '.join(map(str, fit))})",
          file=sys.stderr)
    for p in sorted({*rows, *options.to}):
        compute = unit * plans.share(p) + fixed
        exposed = plans.communication(p) * part
        row = {"partitions": p, "compute_s": compute, "exposed_communication_s": exposed,
               "training_s": compute + exposed, "fitted": p in fit}
        if p in rows:
            row["measured_s"] = rows[p]["training_s"]
            row["error"] = row["training_s"] / row["measured_s"] - 1
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convoy", required=True)
    parser.add_argument("--rows", nargs="+", required=True)
    parser.add_argument("--bandwidth", type=bytes_per_s, required=True, help="of a machine, each way: 1gbit")
    parser.add_argument("--latency", type=float, default=1e-4, help="seconds, of an exchange (1e-4)")
    parser.add_argument("--message", type=float, default=2e-5, help="seconds that a message costs its ends (2e-5)")
    parser.add_argument("--fit", type=numbers, default=[], help="rows to fit to (the two with fewest partitions)")
    parser.add_argument("--to", type=numbers, default=[16, 32, 64, 128])
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    out = list(forecasts(options, rows))
    print(f"{'partitions':>10} {'compute':>10} {'exposed':>10} {'mini-batch':>10} {'speed-up':>9} {'measured':>10} {'forecast':>9}")
    for row in out:
        measured = f"{row['measured_s']:9.4f}s {100 * row['error']:+8.1f}%" if "measured_s" in row else ""
        print(f"{row['partitions']:10d} {row['compute_s']:9.4f}s {row['exposed_communication_s']:9.4f}s "
              f"{row['training_s']:9.4f}s {out[0]['training_s'] / row['training_s']:8.2f}x {measured}"
              + (" (fitted)" if row["fitted"] else ""))
    best = min(out, key=lambda row: row["training_s"])
    more = [row for row in out if row["partitions"] > best["partitions"]]
    print(f"fastest: {best['partitions']} partitions" + ("; more of them slow it down" if more else
                                                        ", the most that were asked for"))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
