#!/usr/bin/env python3
"""Plants faults in the product, one at a time, and looks whether the gate finds them.

  tests/soak/planted.py [--only NAME ...] [--keep]   builds a clone of HEAD and runs the tests that are to find each
  tests/soak/planted.py --check                      whether every patch still applies and names tests that there are

tests/soak/planted/ has a patch for each fault. Its head says of which layer the fault is, what it is, which tests of
the gate find it (a pattern of ctest -R), and what has to be built for these. The clone is built through
tools/at_one_place, so that the compiler cache helps. First all of those tests run without a fault and have to pass.
Then, for each fault, it is planted, its tests are built and run, and at least one assertion has to fail. A table comes
last. The exit status is 1 if a fault was not found, or could not be planted.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PATCHES = SOURCE / "tests/soak/planted"
LAYERS = ("base", "comm", "data", "optim", "server", "plan", "model", "parallel", "train", "cli", "preload")
CONFIGURE = (". tools/build_functions.sh; configure build -DCONVOY_TESTS=ON -DCONVOY_TORCH=ON -DCONVOY_EXAMPLES=ON "
             "-DCONVOY_SUITES=")


@dataclasses.dataclass
class Fault:
    name: str
    layer: str
    what: str
    found_by: str
    build: list


def read(path):
    head = path.read_text().split("\ndiff --git ", 1)[0]
    words = dict(re.findall(r"^([A-Z][a-z ]+): (.+)$", head, re.M))
    return Fault(path.stem, words["Layer"], words["Fault"], words["Found by"], words["Build"].split())


def faults():
    return [read(path) for path in sorted(PATCHES.glob("*.patch"))]


def check():
    """Problems of the patches, as lines."""
    problems = []
    lists = "\n".join(path.read_text() for path in (SOURCE / "tests").rglob("CMakeLists.txt"))
    programs = set(re.findall(r"convoy_test\((\w+)", lists))
    layers = set()
    for path in sorted(PATCHES.glob("*.patch")):
        try:
            fault = read(path)
        except KeyError as missing:
            problems.append(f"{path.name}: its head has no line {missing}")
            continue
        layers.add(fault.layer)
        for target in fault.build:
            if target not in programs:
                problems.append(f"{path.name}: there is no test {target}")
        if not any(re.search(fault.found_by, target + end) for target in fault.build for end in ("", ".3", ".4")):
            problems.append(f"{path.name}: nothing that is built is called {fault.found_by}")
        applied = subprocess.run(["git", "apply", "--check", path], cwd=SOURCE, capture_output=True, text=True)
        if applied.returncode != 0:
            problems.append(f"{path.name} does not apply: {applied.stderr.strip()}")
    problems += [f"no fault of the layer {layer}" for layer in LAYERS if layer not in layers]
    return problems


class Clone:
    def __init__(self, folder):
        self.folder = folder
        self.log = folder.parent / "log"
        subprocess.run(["git", "clone", "-q", SOURCE, folder], check=True)

    def run(self, command):
        """The status and the output of a command there."""
        words = [self.folder / "tools/at_one_place", "bash", "-c", command]
        environment = dict(os.environ, CONVOY_REQUIRE_ALL="1")
        data = SOURCE.parent / "shared/data"
        if data.is_dir():
            environment.setdefault("CONVOY_DATA", str(data))
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=environment, stdin=subprocess.DEVNULL)
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"\n$ {command}\n{done.stdout}")
        return done.returncode, done.stdout

    def build(self, targets):
        jobs = os.environ.get("JOBS", "2")
        return self.run(f"{CONFIGURE} && ninja -C build -j {jobs} {' '.join(sorted(targets))}")[0] == 0

    def test(self, pattern):
        return self.run(f"ctest --test-dir build --output-on-failure --no-tests=error -LE '^all$' -R '{pattern}'")


def found(output):
    """The tests that failed by an assertion, and the first case of each."""
    output = re.sub(r"\x1b\[[0-9;]*[mK]", "", output)  # mpirun's ranks write in colors
    tests = re.findall(r"Test +#\d+: (\S+) \.+\*\*\*Failed", output)
    cases = list(dict.fromkeys(re.findall(r"\[  FAILED  \] ([\w/.]+\.[\w/]+)", output)))
    return tests, cases


def try_one(clone, fault):
    """(verdict, by what)"""
    if clone.run(f"git apply tests/soak/planted/{fault.name}.patch")[0] != 0:
        return "does not apply", ""
    try:
        if not clone.build(fault.build):
            return "does not compile", ""
        status, output = clone.test(fault.found_by)
        tests, cases = found(output)
        if status != 0 and tests and cases:
            more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
            return "found", f"{', '.join(tests)}: {cases[0]}{more}"
        return ("NOT FOUND" if status == 0 else "failed otherwise"), ""
    finally:
        clone.run(f"git apply -R tests/soak/planted/{fault.name}.patch")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--keep", action="store_true", help="the clone, and its log")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        if shutil.which("git") is None:
            print("planted: there is no git, which applies patches")
            return 77
        problems = check()
        print("\n".join(problems) if problems else f"planted: {len(faults())} patches, no complaints")
        return 1 if problems else 0
    chosen = [fault for fault in faults() if not arguments.only or fault.name in arguments.only]
    place = pathlib.Path(tempfile.mkdtemp(prefix="planted-"))
    rows, bad = [], 0
    try:
        clone = Clone(place / "clone")
        if not clone.build({target for fault in chosen for target in fault.build}):
            sys.exit(f"planted: the clone does not build: {clone.log}")
        # One by one: all of them would be too long a pattern for ctest.
        for pattern in sorted({fault.found_by for fault in chosen}):
            if clone.test(pattern)[0] != 0:
                sys.exit(f"planted: {pattern} fails without any fault: {clone.log}")
        for fault in chosen:
            began = time.monotonic()
            verdict, what = try_one(clone, fault)
            bad += verdict != "found"
            print(f"{fault.name}: {verdict} in {time.monotonic() - began:.0f} s {what}", flush=True)
            rows.append(f"| {fault.layer} | {fault.what} | {what or verdict} |")
        arguments.keep = arguments.keep or bad > 0
    finally:
        if not arguments.keep:
            shutil.rmtree(place)
    print("\n| layer | fault | found by |\n|---|---|---|\n" + "\n".join(rows))
    if arguments.keep:
        print(f"the clone and its log: {place}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
