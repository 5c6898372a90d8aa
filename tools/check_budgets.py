#!/usr/bin/env python3
"""Checks that the build and the gate stay as large as tests/budgets.txt allows.

  tools/check_budgets.py BUILD          counts in a configured build tree
  tools/check_budgets.py --self-test    tests itself

Each budget has a name by which it is counted here, or in what the tests of the gate wrote to BUILD/starts.txt
(tools/gate.py): lines "program SUBCOMMAND", one for each program of Convoy that a test started.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGETS = "tests/budgets.txt"
WITH_TORCH = re.compile(r"convoy_(?:unoptimized_)?torch_pch\.dir|\s(?:-I|-isystem)\s*\S*/torch/include[\s/]")
PROGRAM = re.compile(r"/tests/[^/.]+$")
ADDED = re.compile(r"^add_test\(\[=*\[(.*?)\]=*\] (.*)\)$", re.MULTILINE)


def read_budgets(text):
    """{name: (budget, what it counts)}"""
    budgets = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, number, what = line.split(None, 2)
            budgets[name] = (int(number), what)
    return budgets


def count(tests, commands, clock_cases):
    """{name: number} of what is known without running anything."""
    gate = [test for test in tests if "all" not in labels_of(test)]
    programs = {word for test in gate for word in test["words"] if PROGRAM.search(word)}
    return {
        "gate_entries": len(gate),
        "mpirun_entries": sum(any(word.rsplit("/", 1)[-1].startswith("mpirun") for word in test["words"])
                              for test in gate),
        "gate_programs": len(programs),
        "torch_units": sum(bool(WITH_TORCH.search(command["command"])) for command in commands),
        "units": len(commands),
        "clock_cases": sum(bool(re.match(r"[a-z]", line)) for line in clock_cases.splitlines()),
    }


def count_starts(lines):
    """{name: number} of what the tests of a gate started."""
    starts = [line.split() for line in lines if line.split()]
    convoy = [words for words in starts if words[0].rsplit("/", 1)[-1] == "convoy"]
    return {"convoy_starts": len(convoy), "trainings": sum(words[1:2] == ["train"] for words in convoy)}


def labels_of(test):
    return next((entry["value"] for entry in test.get("properties", []) if entry["name"] == "LABELS"), [])


def judge(counts, budgets):
    """Complaints, one line each."""
    complaints = []
    for name, number in counts.items():
        if name not in budgets:
            complaints.append(f"budget: {name} is {number}, and {BUDGETS} has no budget for it")
        elif number > budgets[name][0]:
            complaints.append(f"budget: {name} is {number}, {budgets[name][0]} are allowed: {budgets[name][1]}. "
                              f"Make it less, or change {BUDGETS} and give the reason in the commit")
    return complaints


def judge_starts(path):
    """Complaints about the starts that a gate's tests wrote down; none where they wrote nothing."""
    if not path.exists():
        return []
    counts = count_starts(path.read_text(encoding="utf-8", errors="replace").splitlines())
    print("gate: " + ", ".join(f"{number} {name}" for name, number in counts.items()))
    return judge(counts, read_budgets((ROOT / BUDGETS).read_text()))


def tests_of(build):
    """As ctest tells of them, with the words of their commands, which it doesn't tell of what isn't built."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    words = {}
    for file in [*(build / "tests").rglob("CTestTestfile.cmake"), *build.glob("*.cmake")]:
        for name, command in ADDED.findall(file.read_text()):
            words[name] = re.findall(r'"((?:[^"\\]|\\.)*)"', command)
    return [dict(test, words=words[test["name"]]) for test in json.loads(listed.stdout)["tests"]]


def check(build):
    counts = count(tests_of(build), json.loads((build / "compile_commands.json").read_text()),
                   (ROOT / "tests/clock_cases.txt").read_text())
    budgets = read_budgets((ROOT / BUDGETS).read_text())
    complaints = judge(counts, budgets)
    unknown = set(budgets) - set(counts) - set(count_starts([]))
    complaints += [f"budget: nothing counts '{name}' of {BUDGETS}" for name in sorted(unknown)]
    for line in complaints:
        print(line)
    print("check_budgets: " + ", ".join(f"{name} {number} of {budgets.get(name, ('?',))[0]}"
                                        for name, number in counts.items()))
    return 1 if complaints else 0


def self_test():
    def entry(name, command, *labels):
        return {"name": name, "words": command, "properties": [{"name": "LABELS", "value": list(labels)}]}

    tests = [entry("a", ["/b/tests/a"], "threads"), entry("a.2", ["/usr/bin/mpirun", "-n", "2", "/b/tests/a"], "mpi"),
             entry("a.8", ["/usr/bin/mpirun", "-n", "8", "/b/tests/a"], "mpi", "all"),
             entry("c", ["env", "/usr/bin/mpirun.mpich", "/b/tests/c"]),
             entry("fuzz", ["/b/fuzz/x", "/s/tests/fuzz/x"]),
             entry("check", ["python3", "/s/tests/x/check.py"]), entry("d", ["/b/tests/d"])]
    commands = [{"command": "c++ -isystem /t/torch/include -c a.cc"}, {"command": "c++ -I/x/torch/include/csrc -c b.cc"},
                {"command": "c++ -include-pch x/convoy_torch_pch.dir/y.pch -c c.cc"}, {"command": "c++ -c torch.cc"}]
    counts = count(tests, commands, "# A\nprogram A.B why\nother C.D why\n")
    assert counts == {"gate_entries": 6, "mpirun_entries": 2, "gate_programs": 3, "torch_units": 3, "units": 4,
                      "clock_cases": 2}, counts
    assert count_starts(["/b/bin/convoy train", "convoy plan", "convoy", "other train", ""]) == {
        "convoy_starts": 3, "trainings": 1}
    budgets = read_budgets("# of what\nunits 4 all units\nclock_cases 1 of the clock\n")
    assert judge({"units": 4}, budgets) == []
    assert "units is 5, 4 are allowed: all units. " in judge({"units": 5}, budgets)[0]
    assert len(judge(counts, budgets)) == 5
    print("check_budgets: self-test passed")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1 or not (pathlib.Path(arguments[0]) / "compile_commands.json").exists():
        print(__doc__, file=sys.stderr)
        return 2
    return check(pathlib.Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
