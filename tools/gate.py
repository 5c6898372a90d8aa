#!/usr/bin/env python3
"""Runs the tests of a build tree, and those whose verdict hangs on the clock once more when they fail.

    tools/gate.py BUILD [--tier gate|all|part] [-j 2] [arguments of ctest]

What has the label `clock` (tests/clock_cases.txt) and fails by an assertion is run once more, alone. If it passes then,
a line `FLAKE name, load` stands at the end of the output and in BUILD/flakes.jsonl. Everything else that fails, and
every crash, time limit and sanitizer's report, fails at once. With --self-test it tests itself.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

import check_budgets

MOST_CLOCK_CASES = 30
ASSERTED = re.compile(r"^\s*\d+ FAILED TESTS?\s*$", re.MULTILINE)
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
        # Not every version of ctest writes here how a program ended. One whose assertions failed counts them at its
        # end, and a crash or a time limit comes before that.
        asserted = failure is not None and ASSERTED.search(output)
        failed[case.get("name")] = bool(asserted and not REPORT.search(output))
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


def run(build, jobs, tier, arguments):
    """Runs the tests and judges them, then what they started."""
    starts = pathlib.Path(build).absolute() / "starts.txt"
    os.environ.pop("CONVOY_TEST_COUNT", None)
    if tier == "gate":
        starts.unlink(missing_ok=True)
        os.environ["CONVOY_TEST_COUNT"] = str(starts)
    status = run_tests(build, jobs, tier, arguments)
    complaints = check_budgets.judge_starts(starts) if tier == "gate" else []
    for line in complaints:
        print(line)
    return status or (1 if complaints else 0)


def run_tests(build, jobs, tier, arguments):
    labels = labels_of(build)
    # Those of other trees are cases of this one, too.
    clock = sum("clock" in of and "suite" not in of for of in labels.values())
    if clock > MOST_CLOCK_CASES:
        print(f"gate: {clock} tests have the label clock; at most {MOST_CLOCK_CASES} may (tests/clock_cases.txt)")
        return 1
    results = os.path.join(os.path.abspath(build), "test-times-part.xml" if tier == "part" else "test-times.xml")
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
        os.environ.pop("CONVOY_TEST_COUNT", None)
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
    end = "\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.B\n\n 1 FAILED TEST\n"
    text = f"""<testsuite>
      <testcase name="good" status="run"/>
      <testcase name="late" status="fail"><failure message=""/><system-out>[  FAILED  ] A.B{end}</system-out></testcase>
      <testcase name="wrong" status="fail"><failure message=""/><system-out>[  FAILED  ] A.B{end}</system-out></testcase>
      <testcase name="hung" status="fail"><failure message=""/><system-out>[  FAILED  ] A.B</system-out></testcase>
      <testcase name="gone" status="fail"><failure message=""/><system-out>[ RUN ]</system-out></testcase>
      <testcase name="raced" status="fail"><failure message=""/>
        <system-out>WARNING: ThreadSanitizer [  FAILED  ] A.B{end}</system-out></testcase>
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
    with tempfile.TemporaryDirectory() as folder:
        starts = pathlib.Path(folder) / "starts.txt"
        assert check_budgets.judge_starts(starts) == []
        budgets = check_budgets.read_budgets((check_budgets.ROOT / check_budgets.BUDGETS).read_text())
        starts.write_text("convoy train\n" * (budgets["trainings"][0] + 1))
        assert any("trainings" in line for line in check_budgets.judge_starts(starts))
    print("gate: passed")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--tier", choices=("gate", "all", "part"), default="part")
    options, arguments = parser.parse_known_args()
    return run(options.build, options.jobs, options.tier, arguments)


if __name__ == "__main__":
    sys.exit(main())
