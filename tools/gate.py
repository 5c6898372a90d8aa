#!/usr/bin/env python3
"""Runs the tests of a build tree, and those whose verdict hangs on the clock once more when they fail.

    tools/gate.py BUILD [-j 2] [arguments of ctest]

What has the label `clock` (tests/clock_cases.txt) and fails by an assertion is run once more, alone. If it passes then,
a line `FLAKE name, load` stands at the end of the output and in BUILD/flakes.jsonl. Everything else that fails, and
every crash, time limit and sanitizer's report, fails at once. With --self-test it tests itself.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

MOST_CLOCK_CASES = 30
REPORT = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:")


def labels_of(build):
    """Test name -> its labels."""
    said = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    labels = {}
    for test in json.loads(said.stdout)["tests"]:
        values = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        labels[test["name"]] = set(values[0]) if values else set()
    return labels


def failures_of(text):
    """Of ctest's JUnit file: test name -> may be tried once more, as far as its end says."""
    failed = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        failure = case.find("failure")
        if failure is None and case.get("status") != "fail":
            continue
        output = case.findtext("system-out") or ""
        # An assertion that fails ends a test program by itself; crashes and time limits have other words.
        asserted = failure is not None and failure.get("message") in ("Failed", "")
        failed[case.get("name")] = asserted and "[  FAILED  ]" in output and not REPORT.search(output)
    return failed


def judge(failed, labels, again):
    """`again(name)` runs a test alone and says whether it passed. Returns what failed for good, and what flaked."""
    bad, flaked = [], []
    for name in sorted(failed):
        if failed[name] and "clock" in labels.get(name, ()) and again(name):
            flaked.append(name)
        else:
            bad.append(name)
    return bad, flaked


def load():
    with open("/proc/loadavg", encoding="ascii") as file:
        return file.read().split()[0]


def run(build, jobs, arguments):
    labels = labels_of(build)
    clock = sum("clock" in of for of in labels.values())
    if clock > MOST_CLOCK_CASES:
        print(f"gate: {clock} tests have the label clock; at most {MOST_CLOCK_CASES} may (tests/clock_cases.txt)")
        return 1
    results = os.path.join(os.path.abspath(build), "test-times.xml")
    if os.path.exists(results):
        os.remove(results)
    ctest = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error"]
    status = subprocess.run(ctest + ["-j", str(jobs), "--output-junit", results] + arguments).returncode
    if status == 0:
        return 0
    if not os.path.exists(results):
        return status
    with open(results, encoding="utf-8", errors="replace") as file:
        failed = failures_of(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", file.read()))
    if not failed:
        return status
    before = load()

    def again(name):
        print(f"gate: once more, alone: {name}", flush=True)
        return subprocess.run(ctest + ["-j", "1", "-R", f"^{re.escape(name)}$"]).returncode == 0

    bad, flaked = judge(failed, labels, again)
    with open(os.path.join(build, "flakes.jsonl"), "a", encoding="utf-8") as file:
        for name in flaked:
            file.write(json.dumps({"test": name, "load": before, "time": int(time.time())}) + "\n")
    for name in bad:
        print(f"FAILED {name}")
    for name in flaked:
        print(f"FLAKE {name}, load {before}")
    return 1 if bad else 0


def self_test():
    text = """<testsuite>
      <testcase name="good" status="run"/>
      <testcase name="late" status="fail"><failure message="Failed"/><system-out>[  FAILED  ] A.B</system-out></testcase>
      <testcase name="wrong" status="fail"><failure message="Failed"/><system-out>[  FAILED  ] C.D</system-out></testcase>
      <testcase name="hung" status="fail"><failure message="Timeout"/><system-out>[  FAILED  ] E</system-out></testcase>
      <testcase name="gone" status="fail"><failure message="SEGFAULT"/><system-out>[ RUN ]</system-out></testcase>
      <testcase name="raced" status="fail"><failure message="Failed"/>
        <system-out>WARNING: ThreadSanitizer [  FAILED  ] F</system-out></testcase>
    </testsuite>"""
    failed = failures_of(text)
    assert failed == {"late": True, "wrong": True, "hung": False, "gone": False, "raced": False}, failed
    labels = {name: {"clock"} for name in failed if name != "wrong"}
    asked = []

    def again(name):
        asked.append(name)
        return True

    assert judge(failed, labels, again) == (["gone", "hung", "raced", "wrong"], ["late"]) and asked == ["late"]
    assert judge(failed, labels, lambda name: False)[1] == []
    print("gate: passed")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    options, arguments = parser.parse_known_args()
    return run(options.build, options.jobs, arguments)


if __name__ == "__main__":
    sys.exit(main())
