#!/usr/bin/env python3
"""Names the tests that a change asks for, as a pattern of labels for ctest -L.

  tools/changed_tests.py --passed FILE [--since REV]   prints the pattern; nothing if no test looks at the change
  tools/changed_tests.py --state                       prints the state of the working tree
  tools/changed_tests.py --passed FILE --remember STATE  writes to FILE that this state has passed
  tools/changed_tests.py --self-test

What has changed is told by comparing the working tree, files that git does not know yet included, with REV, with what
FILE remembers, or with HEAD. A changed layer brings all its tests (label layer.NAME) and one end-to-end test of each
layer above (label e2e.NAME); a changed build file or tool brings everything.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from check_layers import HEIGHT

EVERYTHING = ".*"
# Folders of tests beside those of the layers, and what they look at.
OTHERS = {"examples": "package", "recipes": "cli", "docs": "checks", "deploy": "checks", "README.md": "checks"}
IGNORED = re.compile(r"^(bench/|LICENSE|\.gitignore|quickstart\.sh|\.ci/)")


def git(*arguments, **options):
    return subprocess.run(["git", *arguments], check=True, text=True, capture_output=True, **options).stdout.strip()


def working_tree():
    """The git tree of the files as they are now."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, GIT_INDEX_FILE=os.path.join(folder, "index"))
        git("read-tree", "HEAD", env=environment)
        git("add", "--all", env=environment)
        return git("write-tree", env=environment)


def pattern(paths):
    """The labels for changed paths, as one pattern, or an empty string."""
    layers, labels = set(), set()
    for path in paths:
        parts = path.split("/")
        if IGNORED.match(path):
            continue
        if parts[0] in ("src", "tests") and len(parts) > 2:
            layer = parts[1]
        elif parts[:2] == ["include", "convoy"] and len(parts) > 3:
            layer = parts[2]
        else:
            layer = OTHERS.get(parts[0])
        if layer is None:
            return EVERYTHING
        layers.add(layer)
    for layer in layers:
        if layer in ("golden", "fuzz", "base"):  # used from everywhere
            return EVERYTHING
        labels.add(f"layer.{layer}")
        if layer in HEIGHT:
            labels.update(f"e2e.{other}" for other in HEIGHT if HEIGHT[other] > HEIGHT[layer])
    if not labels:
        return ""
    labels.add("layer.checks")
    return "^(" + "|".join(sorted(re.escape(label) for label in labels)) + ")$"


def self_test():
    def expect(paths, *present, absent=()):
        found = pattern(paths)
        for label in present:
            assert re.search(found, label), (paths, label, found)
        for label in absent:
            assert not re.search(found, label), (paths, label, found)

    expect(["src/comm/engine/engine.cc"], "layer.comm", "e2e.train", "e2e.cli", "e2e.data", "layer.checks",
           absent=["layer.train", "e2e.comm", "layer.commander"])
    expect(["tests/cli/run_test.cc"], "layer.cli", absent=["e2e.train", "layer.comm"])
    expect(["include/convoy/data/loader.h"], "layer.data", "e2e.parallel", absent=["e2e.preload", "e2e.model2"])
    expect(["docs/data.md"], "layer.checks", absent=["layer.data"])
    expect(["examples/plugin/plugin.cc"], "layer.package")
    for path in ("CMakeLists.txt", "tests/CMakeLists.txt", "cmake/x.cmake", "include/convoy/convoy.h", "tools/setup.sh",
                 "test.sh", "new_file"):
        expect([path], "layer.anything", "suite")
    assert pattern(["bench/comm/kernels_bench.cc", "LICENSE"]) == ""
    assert pattern([]) == ""
    print("changed_tests: self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passed", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--since", metavar="REV")
    parser.add_argument("--state", action="store_true")
    parser.add_argument("--remember", metavar="STATE")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.passed is None and not arguments.state:
        parser.error("--passed FILE is missing")
    if arguments.remember:
        arguments.passed.write_text(arguments.remember + "\n")
        return
    try:
        git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        if not arguments.state:  # a source tree from elsewhere
            print(EVERYTHING)
        return
    if arguments.state:
        print(working_tree())
        return
    since = arguments.since
    if since is None:
        since = arguments.passed.read_text().strip() if arguments.passed.exists() else "HEAD"
    try:
        changed = git("diff-tree", "-r", "--name-only", "--no-renames", f"{since}^{{tree}}", working_tree())
    except subprocess.CalledProcessError as error:
        if arguments.since is None:  # git keeps states that nothing refers to for some weeks
            print(EVERYTHING)
            return
        sys.exit(f"changed_tests: git can't compare with '{since}': {error.stderr.strip()}")
    print(pattern(changed.splitlines()))


if __name__ == "__main__":
    main()
