#!/usr/bin/env python3
"""Names the tests that a change asks for, as a pattern of labels for ctest -L.

  tools/changed_tests.py --passed FILE [--since REV]   prints the pattern; nothing if no test looks at the change
  tools/changed_tests.py --state                       prints the state of the working tree
  tools/changed_tests.py --passed FILE --remember STATE  writes to FILE that this state has passed
  tools/changed_tests.py --self-test

What has changed is told by comparing the working tree, files that git does not know yet included, with REV, with what
FILE remembers, or with HEAD. A changed layer brings all its tests (label layer.NAME) and one end-to-end test of each
layer above (label e2e.NAME); a changed build file or tool brings everything. A file that tests of other layers read,
compile or run brings these, too: the tests themselves say which (see Users).
"""

import argparse
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from check_layers import HEIGHT

EVERYTHING = ".*"
ROOT = pathlib.Path(__file__).resolve().parent.parent
# What looks at folders beside those of the layers, whoever else names one of their files.
OTHERS = {"examples": ["package"], "recipes": ["cli", "train"], "docs": ["checks"], "deploy": ["checks"],
          "README.md": ["checks"], "bench": ["checks"]}
SINGLE = {"tests/budgets.txt": ["checks"]}
IGNORED = re.compile(r"^(LICENSE|\.gitignore|quickstart\.sh|\.ci/)")
EVERYWHERE = ("golden", "fuzz", "base")


def git(*arguments, **options):
    return subprocess.run(["git", *arguments], check=True, text=True, capture_output=True, **options).stdout.strip()


def working_tree():
    """The git tree of the files as they are now."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, GIT_INDEX_FILE=os.path.join(folder, "index"))
        git("read-tree", "HEAD", env=environment)
        git("add", "--all", env=environment)
        return git("write-tree", env=environment)


class Users:
    """Which layers' tests look at a file: what they include, list in a CMakeLists.txt, import, or name in a string."""

    INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
    IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
    NAMED = re.compile(r"""(?:^|[/"'\s])((?:recipes|bench|docs|deploy|examples|data|tests)/[\w./-]+)""", re.MULTILINE)
    SET = re.compile(r"\bset\((\w+)\s+([^\s()]+)\)")

    def __init__(self, root):
        self.root = root
        self.named_by = {}  # path, or the beginning of paths -> files that name it
        for top in ("tests", "bench", "tools"):
            for file in sorted((root / top).rglob("*")):
                if file.suffix in (".cc", ".h", ".py", ".sh") or file.name == "CMakeLists.txt":
                    self.read(file)

    def read(self, file):
        text = file.read_text(encoding="utf-8", errors="replace")
        name = file.relative_to(self.root).as_posix()
        for other in self.named_in(file, text):
            if other != name:
                self.named_by.setdefault(other, set()).add(name)

    def named_in(self, file, text):
        if file.suffix in (".cc", ".h"):
            text = re.sub(r"//.*", "", text)
            for word in self.INCLUDE.findall(text):
                yield from self.existing([file.parent / word, self.root / word])
        else:
            text = re.sub(r'""".*?"""', "", text, flags=re.DOTALL) if file.suffix == ".py" else text
            text = re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE)
        if file.name == "CMakeLists.txt":
            variables = {"PROJECT_SOURCE_DIR": str(self.root), "CMAKE_CURRENT_SOURCE_DIR": str(file.parent)}

            def value(match):
                return variables.get(match.group(1), match.group())

            for variable, word in self.SET.findall(text):
                variables.setdefault(variable, re.sub(r"\$\{(\w+)\}", value, word))
            for word in re.findall(r"[\w./-]+", re.sub(r"\$\{(\w+)\}", value, self.SET.sub("", text))):
                if "/" in word or "." in word:
                    yield from self.existing([file.parent / word])
            return
        if file.suffix == ".py":
            yield from self.existing(file.parent / f"{module}.py" for module in self.IMPORT.findall(text))
        for word in self.NAMED.findall(text):
            if list(self.root.glob(f"{word.rstrip('/')}*")):
                yield word.rstrip("/")

    def existing(self, paths):
        for path in paths:
            path = pathlib.Path(os.path.normpath(path))
            if self.root in path.parent.parents and path.exists():  # no folder of the top, such as that of all sources
                yield path.relative_to(self.root).as_posix()

    def layers(self, path):
        """Those under tests/ that look at a path, directly or through other files."""
        found, seen, queue = set(), {path}, [path]
        for file in queue:
            for named, users in self.named_by.items():
                if not file.startswith(named):
                    continue
                for user in users - seen:
                    seen.add(user)
                    queue.append(user)
                    parts = user.split("/")
                    if parts[0] == "tests" and len(parts) > 2 and parts[1] not in ("golden", "base"):
                        found.add(parts[1])
        return found


@functools.lru_cache
def users_here():
    return Users(ROOT)


def pattern(paths, users=None):
    """The labels for changed paths, as one pattern, or an empty string."""
    changed, whole, labels = set(), set(), set()
    for path in paths:
        parts = path.split("/")
        if IGNORED.match(path):
            continue
        if path in SINGLE:
            found = SINGLE[path]
        elif parts[0] in ("src", "tests") and len(parts) > 2:
            found = [parts[1]]
        elif parts[:2] == ["include", "convoy"] and len(parts) > 3:
            found = [parts[2]]
        elif parts[0] in OTHERS:
            found = OTHERS[parts[0]]
        else:
            return EVERYTHING
        if any(layer in EVERYWHERE for layer in found):
            return EVERYTHING
        changed.update(found)
        whole.update((users or users_here()).layers(path))
    for layer in changed:
        if layer in HEIGHT:
            labels.update(f"e2e.{other}" for other in HEIGHT if HEIGHT[other] > HEIGHT[layer])
    labels.update(f"layer.{layer}" for layer in changed | whole)
    if not labels:
        return ""
    labels.add("layer.checks")
    return "^(" + "|".join(sorted(re.escape(label) for label in labels)) + ")$"


MADE_UP = {
    "tests/cli/CMakeLists.txt": "convoy_test(a SOURCES a_test.cc ../comm/main.cc)\n"
                                "set(_tool ${PROJECT_SOURCE_DIR}/tools)\nadd_test(NAME b COMMAND ${_tool}/check.py)\n",
    "tests/cli/a_test.cc": '#include "tests/data/support.h"\nrun(source + "/bench/x/rows.py");\n'
                           '// recipes/b.toml is for others.\n',
    "tests/server/host/CMakeLists.txt": "set(_cli ${PROJECT_SOURCE_DIR}/src/cli/server)\n"
                                        "convoy_test(h SOURCES h.cc ${_cli}/serve.cc)\n",
    "tests/server/host/h.cc": "", "tests/comm/main.cc": '#include "main.h"\n', "tests/comm/main.h": "",
    "tests/comm/other.h": "", "tests/data/support.h": '#include "tests/data/pixels.h"\n', "tests/data/pixels.h": "",
    "tests/train/t.cc": 'open("/data/mnist/t10k-" + x); open("/recipes/b");\n', "data/mnist/t10k-images": "",
    "recipes/b.toml": "", "src/cli/server/serve.cc": "", "src/cli/server/other.cc": "",
    "bench/x/rows.py": "import laws\n", "bench/x/laws.py": "", "bench/x/alone.py": "",
    "tools/check.py": 'PAGE = ROOT / "docs/keys.md"\n', "docs/keys.md": "", "docs/other.md": "",
}


def self_test():
    def expect(paths, *present, absent=(), users=None):
        found = pattern(paths, users)
        for label in present:
            assert re.search(found, label), (paths, label, found)
        for label in absent:
            assert not re.search(found, label), (paths, label, found)

    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        for name, text in MADE_UP.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        users = Users(root)
    for path, layers in {"tests/comm/main.cc": {"comm", "cli"}, "tests/comm/main.h": {"comm", "cli"},
                         "tests/comm/other.h": {"comm"}, "tests/data/support.h": {"data", "cli"},
                         "tests/data/pixels.h": {"data", "cli"}, "bench/x/rows.py": {"cli"},
                         "bench/x/laws.py": {"cli"}, "bench/x/alone.py": {"checks"}, "docs/keys.md": {"checks", "cli"},
                         "docs/other.md": {"checks"}, "recipes/b.toml": {"cli", "train"},
                         "src/cli/server/serve.cc": {"cli", "server"}, "src/cli/server/other.cc": {"cli"},
                         "tests/soak/kills.py": {"soak"}, "tests/faults/ledger.py": {"faults"},
                         "tests/budgets.txt": {"checks"}}.items():
        found = set(re.findall(r"layer\\?\.(\w+)", pattern([path], users)))
        assert found - {"checks"} == layers - {"checks"}, (path, found)
        assert not found or "checks" in found, path
    assert users.layers("data/mnist/t10k-images") == {"train"}

    expect(["src/comm/engine/engine.cc"], "layer.comm", "e2e.train", "e2e.cli", "e2e.data", "layer.checks",
           absent=["layer.train", "e2e.comm", "layer.commander"])
    expect(["tests/cli/run_test.cc"], "layer.cli", absent=["layer.comm"])
    expect(["include/convoy/data/loader.h"], "layer.data", "e2e.parallel", absent=["e2e.preload", "e2e.model2"])
    expect(["docs/data.md"], "layer.checks", absent=["layer.data"])
    expect(["examples/plugin/plugin.cc"], "layer.package")
    # What is here now.
    expect(["recipes/lenet-mnist.toml"], "layer.cli", "layer.train", absent=["layer.data"])
    expect(["bench/plan/partitions.py"], "layer.cli", "layer.checks", absent=["layer.train"])
    expect(["docs/recipes.md"], "layer.cli", "layer.checks", absent=["layer.train"])
    expect(["docs/training.md"], "layer.train")
    expect(["deploy/kubernetes/README.md", "deploy/slurm/downpour.sbatch"], "layer.tools")
    expect(["examples/plugin/lion.cc"], "layer.package", "layer.train")
    expect(["tests/parallel/mpi_main.cc"], "layer.parallel", "layer.train")
    expect(["tests/comm/ranks_main.cc"], "layer.comm", "layer.data")
    expect(["tests/faults/ledger.py"], "layer.tools")
    expect(["src/cli/server/serve.cc"], "layer.cli", "layer.server", absent=["layer.train"])
    for path in ("CMakeLists.txt", "tests/CMakeLists.txt", "cmake/x.cmake", "include/convoy/convoy.h", "tools/setup.sh",
                 "test.sh", "new_file", "data/mnist/new", "tests/golden/read.h", "src/base/x.cc",
                 "tests/clock_cases.txt"):
        expect([path], "layer.anything", "suite")
    assert pattern(["bench/comm/kernels_bench.cc"]) == r"^(layer\.checks)$"
    assert pattern(["LICENSE"]) == ""
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
