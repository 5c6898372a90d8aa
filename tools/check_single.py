#!/usr/bin/env python3
"""Reads by itself each unit that a build compiles together with others: whether it includes what it needs.

  tools/check_single.py BUILD [-j 2] [--only PATTERN]
  tools/check_single.py --self-test

BUILD has been built. The compiler is the build's, with its flags and precompiled headers, but makes nothing: this takes
it a third of the time.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from unity_units import sources_of


def units_of(commands):
    """[(source, words of the command that reads it, folder)] of units that are compiled together."""
    units = []
    for command in commands:
        sources = sources_of(command["file"])
        if len(sources) < 2:
            continue
        words = shlex.split(command["command"])
        output = words.index("-o")
        words = words[:output] + words[output + 2:]
        for source in map(str, sources):
            alone = [source if word == command["file"] else word for word in words]
            units.append((source, alone + ["-fsyntax-only"], command["directory"]))
    return units


def read(unit):
    source, words, folder = unit
    said = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace")
    return source, said.returncode, said.stderr


def check(units, jobs):
    if not units:
        print("check_single: no units are compiled together here")
        return 1
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for source, status, text in pool.map(read, units):
            if status != 0:
                bad += 1
                print(f"check_single: {source} can't be compiled by itself:\n{text}")
    print(f"check_single: {len(units)} units, {bad} of them can't be compiled by themselves")
    return 1 if bad else 0


def self_test():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "Unity").mkdir()
        (folder / "good.cc").write_text("#include <string>\nstd::string good();\n")
        (folder / "bad.cc").write_text("std::string bad();\n")
        unity = folder / "Unity/unity_0_cxx.cxx"

        def found(*sources):
            unity.write_text("".join(f'#include "{folder / source}"\n' for source in sources))
            return units_of([{"file": str(unity), "directory": name, "command": f"c++ -o x.o -c {unity}"}])

        assert [unit[0] for unit in found("good.cc", "bad.cc")] == [str(folder / "good.cc"), str(folder / "bad.cc")]
        assert check(found("good.cc", "bad.cc"), 2) == 1
        assert check(found("good.cc", "good.cc"), 2) == 0
        assert found("bad.cc") == [] and check([], 1) == 1
    print("check_single: self-test passed")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--only", default="", metavar="PATTERN", help="only units whose path has this pattern")
    options = parser.parse_args()
    units = units_of(json.loads((options.build / "compile_commands.json").read_text()))
    return check([unit for unit in units if re.search(options.only, unit[0])], options.jobs)


if __name__ == "__main__":
    sys.exit(main())
