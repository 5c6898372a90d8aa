"""Compares the pushes that replicas wrote down with the ledgers of the shards.

Replicas write a line for each push (src/cli/training/push_records.h): "+ ID" before it, "= ID" when it
was acknowledged, "~ ID" when a server did not apply it. A shard's ledger has the number, the sum and
the sum of squares of the ids that are in its parameters, modulo 2^64. Of a push that was begun and not
acknowledged, since its replica died, nobody can say whether it is in: some set of those has to explain
what the ledger has beyond the acknowledged ones.
"""

import json
import pathlib

MODULUS = 1 << 64


def of_ids(ids):
    """(count, sum, squares)"""
    return (len(ids), sum(ids) % MODULUS, sum(i * i for i in ids) % MODULUS)


def subsets(ids):
    """{(count, sum, squares): how many of the subsets of ids come to that}"""
    found = {(0, 0, 0): 1}
    for i in ids:
        new = dict(found)
        for (count, total, squares), ways in found.items():
            key = (count + 1, (total + i) % MODULUS, (squares + i * i) % MODULUS)
            new[key] = new.get(key, 0) + ways
        found = new
    return found


def explains(rest, unknown):
    """Whether some of the unknown ids come to `rest`, the ledger without the acknowledged ones."""
    if not unknown:
        return rest == (0, 0, 0)
    half = len(unknown) // 2
    first, second = subsets(unknown[:half]), subsets(unknown[half:])
    for count, total, squares in first:
        key = (rest[0] - count, (rest[1] - total) % MODULUS, (rest[2] - squares) % MODULUS)
        if key in second:
            return True
    return False


def read_records(folder):
    """(acknowledged ids, ids of which nothing is known)"""
    begun, done = set(), set()
    for path in sorted(pathlib.Path(folder).glob("*.log")):
        for line in path.read_text().splitlines():
            what, _, number = line.partition(" ")
            if not number.isdigit():
                continue  # cut off by a kill
            if what == "+":
                if int(number) in begun:
                    raise ValueError(f"id {number} was used twice")
                begun.add(int(number))
            elif what == "=":
                done.add(int(number))
    return done, sorted(begun - done)


MOST_UNKNOWN = 40  # two times 2^20 subsets


def check(folder):
    """(text, problems): what the records and FOLDER/status.json come to."""
    done, unknown = read_records(folder)
    status_file = pathlib.Path(folder) / "status.json"
    if not status_file.exists():
        return "", ["the evaluator has not written the job's status at the end"]
    if not done:
        return "", ["no push was written down"]
    problems = []
    status = json.loads(status_file.read_text())
    acknowledged = of_ids(done)
    for shard in status["shards"]:
        ledger = shard["ledger"]
        rest = (ledger["count"] - acknowledged[0], (ledger["sum"] - acknowledged[1]) % MODULUS,
                (ledger["squares"] - acknowledged[2]) % MODULUS)
        name = f"shard {shard['shard']}"
        if rest[0] < 0:
            problems.append(f"{name} lacks {-rest[0]} of {len(done)} acknowledged pushes")
        elif rest[0] > len(unknown):
            problems.append(f"{name} has {rest[0]} pushes beyond the {len(done)} acknowledged ones, "
                            f"and {len(unknown)} are unknown: some are in it twice")
        elif len(unknown) <= MOST_UNKNOWN and not explains(rest, unknown):
            problems.append(f"{name}: the sums of its ids are not those of the {len(done)} acknowledged "
                            f"pushes and any of the {len(unknown)} unknown ones")
    text = f"{len(done)} acknowledged pushes, {len(unknown)} unknown"
    if len(unknown) > MOST_UNKNOWN:
        text += " (too many to look at their sums: only the numbers were compared)"
    return text, problems
