#!/usr/bin/env python3
"""Makes the tests of the build trees under one entries of that one's ctest.

  tools/flatten_tests.py BUILD [SUITE...]   writes BUILD/suites.cmake, which BUILD's ctest reads; suites: see below
  tools/flatten_tests.py --self-test        tests itself

Each test x of BUILD/asan, BUILD/tsan and BUILD/mpich that a suite takes becomes asan.x, tsan.x or mpich.x (those of
BUILD/asan-fuzz, too, asan.x), as it is in its tree but for the labels `suite` and `all`. (ctest reads files of other
trees, too, but takes the folders that they name for folders of the tree that includes them.) What a suite takes must
have been built. Without suites there are no such tests.
"""

import json
import pathlib
import re
import subprocess
import sys

UBSAN = "UBSAN_OPTIONS=print_stacktrace=1"


class Suite:
    def __init__(self, tree, prefix, takes, environment=(), of_mpi=()):
        self.tree, self.prefix, self.takes, self.environment, self.of_mpi = tree, prefix, takes, environment, of_mpi


SUITES = {
    # MPI keeps memory from modules that it unloads, so its leaks can't even be told apart by their source.
    "asan": Suite("asan", "asan", lambda name, labels: True, [UBSAN], ["ASAN_OPTIONS=detect_leaks=0"]),
    # Parsers of bytes from outside, for the gate: in a tree that is not optimized, which is built in half the time.
    "fuzz": Suite("asan-fuzz", "asan", lambda name, labels: "fuzz" in labels, [UBSAN]),
    # What has threads of its own. Ranks are threads, too: MPI is not built with the sanitizer, so that its own locks
    # look like races. So do those of libvips and GLib, which packing uses.
    "tsan": Suite("tsan", "tsan", lambda name, labels: "threads" in labels, ["TSAN_OPTIONS=second_deadlock_stack=1"]),
    # The other layers know nothing of MPI.
    "mpich": Suite("mpich", "mpich", lambda name, labels: re.match("comm|preload", name)),
}


def quoted(text):
    level = "=" * next(n for n in range(2, 100) if f"]{'=' * n}]" not in text)
    return f"[{level}[{text}]{level}]"


def value_of(value):
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    if isinstance(value, list):
        return ";".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def entries(suite, tests):
    """The text for ctest. Throws ValueError if a test isn't built."""
    lines = []
    for test in tests:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        labels = properties.get("LABELS", [])
        if not suite.takes(test["name"], labels):
            continue
        name = f"{suite.prefix}.{test['name']}"
        if "command" not in test:
            raise ValueError(f"the program of {name} isn't built")
        properties["LABELS"] = [*labels, "suite", *([] if "fuzz" in labels or "all" in labels else ["all"])]
        properties["ENVIRONMENT"] = [*properties.get("ENVIRONMENT", []), *suite.environment,
                                     *(suite.of_mpi if "mpi" in labels else [])]
        if "DEPENDS" in properties:
            properties["DEPENDS"] = [f"{suite.prefix}.{other}" for other in properties["DEPENDS"]]
        lines.append(f"add_test({quoted(name)} {' '.join(map(quoted, test['command']))})")
        lines.append(f"set_tests_properties({quoted(name)} PROPERTIES")
        lines += [f"  {key} {quoted(value_of(value))}" for key, value in properties.items()]
        lines.append(")")
    if not lines:
        raise ValueError(f"build tree {suite.tree} has no tests that are wanted")
    return "\n".join(lines) + "\n"


def shown(tree):
    said = subprocess.run(["ctest", "--test-dir", tree, "--show-only=json-v1"], check=True, capture_output=True)
    return json.loads(said.stdout)["tests"]


def self_test():
    import tempfile  # pylint: disable=import-outside-toplevel

    def labels_of(test):
        return next(entry["value"] for entry in test["properties"] if entry["name"] == "LABELS")

    def environment_of(test):
        return next(entry["value"] for entry in test["properties"] if entry["name"] == "ENVIRONMENT")

    with tempfile.TemporaryDirectory() as folder:
        tree, build = pathlib.Path(folder) / "asan", pathlib.Path(folder)
        (tree / "sub").mkdir(parents=True)
        (tree / "CTestTestfile.cmake").write_text('subdirs("sub")\n')
        (tree / "sub/CTestTestfile.cmake").write_text(
            'add_test(fuzz.a "/bin/sh" "-c" "test \\"$A$B\\" = 12 && : \';]==]\'")\n'
            'set_tests_properties(fuzz.a PROPERTIES LABELS "fuzz;layer.fuzz" ENVIRONMENT "A=1;B=2" TIMEOUT "4500")\n'
            'add_test(comm "/bin/sh" "-c" "exit 0")\n'
            'set_tests_properties(comm PROPERTIES LABELS "mpi;layer.comm" RUN_SERIAL ON PROCESSORS 3)\n')
        (build / "CTestTestfile.cmake").write_text('include("suites.cmake")\n')
        (build / "suites.cmake").write_text(entries(SUITES["asan"], shown(tree)))
        tests = {test["name"]: test for test in shown(build)}
        assert list(tests) == ["asan.fuzz.a", "asan.comm"], tests
        assert set(labels_of(tests["asan.fuzz.a"])) == {"fuzz", "layer.fuzz", "suite"}, tests
        assert set(labels_of(tests["asan.comm"])) == {"mpi", "layer.comm", "suite", "all"}
        assert environment_of(tests["asan.comm"]) == [UBSAN, "ASAN_OPTIONS=detect_leaks=0"]
        assert tests["asan.comm"]["command"] == ["/bin/sh", "-c", "exit 0"]
        kept = {entry["name"]: entry["value"] for entry in tests["asan.comm"]["properties"]}
        assert kept["RUN_SERIAL"] is True and kept["PROCESSORS"] == 3, kept
        assert {"name": "TIMEOUT", "value": 4500.0} in tests["asan.fuzz.a"]["properties"]
        subprocess.run(["ctest", "--test-dir", build], check=True, capture_output=True)
        (build / "suites.cmake").write_text(entries(SUITES["fuzz"], shown(tree)))
        assert [test["name"] for test in shown(build)] == ["asan.fuzz.a"]
        for suite, listed in (("mpich", []), ("asan", [{"name": "a"}])):
            try:
                entries(SUITES[suite], listed)
            except ValueError:
                continue
            raise AssertionError(f"{suite} was taken")
    print("flatten_tests: self-test passed")


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if not arguments or any(name not in SUITES for name in arguments[1:]):
        sys.exit(__doc__)
    build = pathlib.Path(arguments[0])
    try:
        text = "".join(entries(SUITES[name], shown(build / SUITES[name].tree)) for name in arguments[1:])
    except ValueError as error:
        sys.exit(f"flatten_tests: {error}")
    (build / "suites.cmake").write_text(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
