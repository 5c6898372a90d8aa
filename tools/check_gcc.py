#!/usr/bin/env python3
"""Has GCC look at the layers that need LibTorch, which are built with clang.

  tools/check_gcc.py BUILD [-j N] [--compiler NAME]    for errors and warnings, without making anything
  tools/check_gcc.py --self-test

BUILD is a build tree with compile_commands.json. GCC takes 15 s to read LibTorch's headers, and less than one for what
a unit adds. So units are read together, as many as have no names of their own in common in a layer; where that gives errors all
the same, in halves, down to the unit that has them by itself. Exit status 0, 1 for errors, 77 where there is no GCC.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from unity_units import sources_of

LAYERS = ("model", "optim", "parallel", "train", "cli")
# Classes of a unit are taken for those of a header when the unit is included.
OPTIONS = ["-fsyntax-only", "-Werror", "-Wno-subobject-linkage"]
MOST_UNITS = 16  # read together: memory


def own_names(text):
    """The names that a unit may declare in namespaces without a name: an estimate, in this project's layout."""
    names, inside = set(), False
    for line in text.splitlines():
        if line.startswith("namespace {"):
            inside = True
        elif line.startswith("}  // namespace"):
            inside = inside and line.rstrip() != "}  // namespace"
        elif inside and re.match(r"[A-Za-z]", line):
            declared = re.search(r"\b(?:class|struct|union|enum class|enum|using|namespace)\s+(\w+)", line)
            declared = declared or re.search(r"(\w+)\s*(?:\(|\{|=|\[|;)", line)
            if declared:
                names.add(declared.group(1))
    return names


def declarations_of(path, text):
    """{name: file} of what a unit has to itself, and of the types in private headers that it includes."""
    names = {}
    sources = next((folder for folder in pathlib.Path(path).parents if folder.name == "src"), pathlib.Path())
    for header in re.findall(r'^#include "([^"]+)"', text, re.M):
        if (sources / header).is_file():
            types = re.findall(r"^(?:class|struct|enum class|using) (\w+)(?= (?:=|final|:|\{))", (sources / header).read_text(), re.M)
            names.update(dict.fromkeys(types, header))
    names.update(dict.fromkeys(own_names(text), path))
    return names


def groups_of(units):
    """Units, {path: (layer, text)}, in groups that can be read together."""
    groups = []
    for path, (layer, text) in units.items():
        declared = {(layer, name): where for name, where in declarations_of(path, text).items()}
        for paths, others in groups:
            if len(paths) < MOST_UNITS and all(others.get(name, where) == where for name, where in declared.items()):
                break
        else:
            paths, others = [], {}
            groups.append((paths, others))
        paths.append(path)
        others.update(declared)
    return [paths for paths, _ in groups]


def flags_of(command):
    """What another compiler needs to know of a compilation."""
    flags, words = [], iter(shlex.split(command))
    for word in words:
        if word == "-Xclang":
            next(words)
        elif word in ("-I", "-isystem", "-D"):
            flags += [word, next(words)]
        elif word.startswith(("-I", "-std=", "-W")) or word.startswith("-D") and not word.endswith("_EXPORTS"):
            flags.append(word)
    return flags


def units_of(build):
    """{path: (layer, text)} of the units of these layers, and flags for all of them."""
    units, flags = {}, []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        for path in sources_of(entry["file"]):
            layer = next((name for name in LAYERS if f"/src/{name}/" in str(path)), None)
            if layer is None or build.resolve() in path.resolve().parents:
                continue
            units[str(path)] = (layer, path.read_text())
            flags.append(flags_of(entry["command"]))
    return units, merged(flags)


def merged(lists):
    """All flags of some lists; a word and its argument stay together."""
    result = {}
    for flags in lists:
        words = iter(flags)
        for word in words:
            result[(word, next(words)) if word in ("-I", "-isystem", "-D") else (word,)] = True
    return [word for pair in result for word in pair]


def check(compiler, flags, paths):
    """What the compiler says against units, read together where it lets that pass; empty if nothing."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as unit:
        unit.write("".join(f'#include "{path}"\n' for path in paths))
        unit.flush()
        source = paths[0] if len(paths) == 1 else unit.name
        done = subprocess.run([compiler, *flags, *OPTIONS, source], capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    if len(paths) == 1:
        return done.stderr
    half = len(paths) // 2
    return check(compiler, flags, paths[:half]) + check(compiler, flags, paths[half:])


def check_build(build, compiler, jobs):
    if shutil.which(compiler) is None:
        print(f"check_gcc: there is no {compiler}")
        return 77
    units, flags = units_of(build)
    if not units:
        print(f"check_gcc: {build} has no units of {' '.join(LAYERS)}", file=sys.stderr)
        return 1
    groups = groups_of(units)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(lambda paths: check(compiler, flags, paths), groups))
    for text in filter(None, said):
        print(text, file=sys.stderr)
    print(f"check_gcc: {len(units)} units in {len(groups)} groups, {'errors' if any(said) else 'no errors'}")
    return 1 if any(said) else 0


def self_test():
    """Units that can't be read together are none the worse for it; those with errors are named."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src/model").mkdir(parents=True)
        (root / "build").mkdir()
        sources = {
            "one": "namespace {\nint kMost = 1;\nint twice(int x) {\n  return 2 * x;\n}\n}  // namespace\n"
                   "int one() { return twice(kMost); }\n",
            "two": "namespace {\nconst char* kMost = \"\";\n}  // namespace\nconst char* two() { return kMost; }\n",
            "three": "int three() { return 3; }\n",
            # A name that own_names() does not see.
            "four": "static int twice(int x) { return x; }\nint four() { return twice(4); }\n",
        }

        def outcome(arranged=list, **more):
            entries = []
            for name, text in {**sources, **more}.items():
                path = root / f"src/model/{name}.cc"
                path.write_text(text)
                entries.append({"file": str(path), "command": f"clang++ -Xclang -x -Dx_EXPORTS -isystem {root}/torch/include "
                                                              f"-Wall -std=c++20 -c {path}"})
            (root / "build/compile_commands.json").write_text(json.dumps(arranged(entries)))
            command = [sys.executable, __file__, str(root / "build")]
            return subprocess.run(command, capture_output=True, text=True)

        def as_one(entries):
            unit = root / "build/Unity/unity_group_cxx.cxx"
            unit.parent.mkdir(exist_ok=True)
            unit.write_text("".join(f'#include "{entry["file"]}"\n' for entry in entries))
            return [{**entries[0], "file": str(unit)}]

        clean = outcome()
        assert clean.returncode == 0, clean
        units = {name: ("model", text) for name, text in sources.items() if name != "four"}
        assert groups_of(units) == [["one", "three"], ["two"]]
        assert groups_of({**units, "two": ("cli", sources["two"])}) == [["one", "two", "three"]]
        wrong = outcome(five="int five() { return nothing; }\n")
        assert wrong.returncode == 1 and "five.cc:1:" in wrong.stderr and "nothing" in wrong.stderr, wrong
        assert "five.cc:1:" in outcome(as_one, five="int five() { return nothing; }\n").stderr
        warned = outcome(five="int five() { int unused = 5; return 1; }\n")
        assert warned.returncode == 1 and "five.cc:1:" in warned.stderr and "[-Werror=unused" in warned.stderr, warned
        # Errors that only come from reading units together are none.
        assert "four.cc" not in wrong.stderr + warned.stderr
    print("check_gcc: self-test passed")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    parser.add_argument("-j", dest="jobs", type=int, default=2)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test() if shutil.which("g++") else 77
    if options.build is None:
        parser.error("needs the folder of a build")
    return check_build(options.build, options.compiler, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
