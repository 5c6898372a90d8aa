#!/usr/bin/env python3
"""Prints what each layer costs to build and to test.

  tools/times.py [BUILD] [--markdown] [--slowest N]

BUILD (default: build) is a tree of ./test.sh. Builds: seconds by the clock of each compilation and link in Ninja's log,
the latest of each output, also of the trees of ./test.sh --all in it; with as many jobs as cores this is close to
processor time. What ccache had costs next to nothing, so for figures from nothing set CCACHE_DISABLE=1. Tests: of the
last full run of ./test.sh.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

TREES = ("asan", "asan-fuzz", "tsan", "mpich")


def layer_of(output):
    """src/comm/... and tests/comm/... -> comm; precompiled headers apart."""
    if "_pch.dir" in output:
        return "precompiled headers"
    parts = output.split("/")
    if parts[0] in ("src", "tests") and len(parts) > 2:
        return parts[1]
    return parts[0] if parts[0] in ("examples", "tools") else "links and others"


def read_ninja(path):
    """{output: seconds}"""
    times = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        start, end, _, output, _ = line.split("\t")
        if output.endswith((".o", ".gch", ".pch", ".a")) or "/" in output and ".so" in output or "CMakeFiles" not in output:
            times[output] = (int(end) - int(start)) / 1000
    return times


def read_tests(path):
    """{test: (layer, seconds)}"""
    tests = {}
    if not path.exists():
        return tests
    listed = subprocess.run(["ctest", "--test-dir", path.parent, "--show-only=json-v1"], check=True, capture_output=True)
    layers = {}
    for test in json.loads(listed.stdout)["tests"]:
        for entry in test.get("properties", []):
            if entry["name"] == "LABELS":
                layers[test["name"]] = next((label[6:] for label in entry["value"] if label.startswith("layer.")), "other")
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        tests[case.get("name")] = (layers.get(case.get("name"), "other"), float(case.get("time", 0)))
    return tests


class Row:
    def __init__(self):
        self.units, self.build, self.tests, self.test = 0, 0.0, 0, 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", type=pathlib.Path)
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="also the N slowest units and tests")
    arguments = parser.parse_args()
    log = arguments.build / ".ninja_log"
    if not log.exists():
        sys.exit(f"times: {arguments.build} is no build tree of Ninja: it has no .ninja_log")
    rows = collections.defaultdict(Row)
    times = read_ninja(log)
    for output, seconds in times.items():
        row = rows[layer_of(output)]
        row.units += output.endswith(".o")
        row.build += seconds
    for tree in TREES:
        other = arguments.build / tree / ".ninja_log"
        if other.exists():
            for output, seconds in read_ninja(other).items():
                rows[f"tree {tree}"].units += output.endswith(".o")
                rows[f"tree {tree}"].build += seconds
    tests = read_tests(arguments.build / "test-times.xml")
    for name, (layer, seconds) in tests.items():
        tree = name.split(".")[0]
        row = rows[f"tree {tree}" if tree in TREES else name if tree == "suite" else layer]
        row.tests += 1
        row.test += seconds
    total = Row()
    for row in rows.values():
        for field in vars(total):
            setattr(total, field, getattr(total, field) + getattr(row, field))
    mark = "| " if arguments.markdown else ""
    line = mark + ("{:<20} | {:>6} | {:>9} | {:>6} | {:>9} |" if mark else "{:<20} {:>6} {:>9} {:>6} {:>9}")
    print(line.format("layer", "units", "build, s", "tests", "tests, s"))
    if mark:
        print("|---|---:|---:|---:|---:|")
    for name, row in sorted(rows.items(), key=lambda item: -item[1].build - item[1].test) + [("all", total)]:
        print(line.format(name, row.units, f"{row.build:.0f}", row.tests, f"{row.test:.0f}"))
    if arguments.slowest:
        print("\nslowest to build:")
        for output, seconds in sorted(times.items(), key=lambda item: -item[1])[: arguments.slowest]:
            print(f"{seconds:8.1f} s  {output}")
        print("\nslowest to test:")
        for name, (_, seconds) in sorted(tests.items(), key=lambda item: -item[1][1])[: arguments.slowest]:
            print(f"{seconds:8.1f} s  {name}")


if __name__ == "__main__":
    main()
