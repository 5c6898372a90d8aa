#!/usr/bin/env python3
"""Runs the gate's tests while the machine is kept busy, and the cases that read the clock.

  tests/soak/busy.py BUILD [--runs 2] [--clock 30] [--loops 4] [--jobs 2]

BUILD is a tree of ./test.sh. Beside the tests so many processes compute without end, and one writes 64 MiB to the disk
and syncs it, again and again. The tests of the gate run `--runs` times, then those with the label `clock` `--clock`
times. Each run gets a line: how long it took, what failed, what passed only on its second try. The exit status is 1 if
anything failed for good.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
COMPUTE = "while True: pass"
WRITE = """
import os, sys
block = os.urandom(1 << 20)
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(64):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
"""


def run(build, jobs, selection):
    """The run's status, and the lines of tools/gate.py about what failed and what flaked."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, SOURCE / "tools/gate.py", build, "-j", str(jobs), *selection],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    said = [line for line in done.stdout.splitlines() if re.match(r"(FAILED|FLAKE|gate: \d)", line)]
    if done.returncode != 0:
        log = pathlib.Path(tempfile.mkstemp(prefix="busy-", suffix=".log")[1])
        log.write_text(done.stdout)
        said.append(f"all of its output: {log}")
    return done.returncode, time.monotonic() - began, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--clock", type=int, default=30)
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="busy-", dir=arguments.build) as folder:
        load = [subprocess.Popen([sys.executable, "-c", COMPUTE]) for _ in range(arguments.loops)]
        load.append(subprocess.Popen([sys.executable, "-c", WRITE, os.path.join(folder, "written")]))
        try:
            rounds = [("gate", ["-LE", "^all$"])] * arguments.runs + [("clock", ["-L", "^clock$"])] * arguments.clock
            for number, (what, selection) in enumerate(rounds, 1):
                status, seconds, said = run(arguments.build, arguments.jobs, selection)
                failed += status != 0
                verdict = "failed" if status else "passed"
                print(f"{number}/{len(rounds)} {what}: {verdict} in {seconds:.0f} s", flush=True)
                for line in said:
                    print(f"  {line}", flush=True)
        finally:
            for process in load:
                process.kill()
                process.wait()
    print(f"{failed} of {len(rounds)} runs failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
