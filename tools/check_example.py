#!/usr/bin/env python3
"""Checks that README.md and examples/mnist_ddp/README.md show the real difference between mnist.cc
and mnist_ddp.cc, and that it stays at most 10 lines, removed and added ones counted.

  tools/check_example.py          exit status 0 or 1
  tools/check_example.py --fix    puts the real difference into both
"""

import difflib
import pathlib
import re
import sys

MOST = 10
ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "mnist_ddp"
BLOCK = re.compile(r"(```diff\n)(.*?)(```\n)", re.DOTALL)


def difference():
    files = [(FOLDER / name).read_text().splitlines(keepends=True)
             for name in ("mnist.cc", "mnist_ddp.cc")]
    lines = difflib.unified_diff(*files, "mnist.cc", "mnist_ddp.cc", n=1)
    # Line numbers say nothing to a reader.
    return ["@@\n" if line.startswith("@@") else line for line in lines]


def main(arguments):
    if arguments not in ([], ["--fix"]):
        print(__doc__, file=sys.stderr)
        return 2
    real = difference()
    changed = sum(line[0] in "+-" for line in real[2:])
    print(f"check_example: mnist.cc and mnist_ddp.cc differ in {changed} lines")
    status = 0
    if changed > MOST:
        print(f"at most {MOST} are promised")
        status = 1
    for page in (ROOT / "README.md", FOLDER / "README.md"):
        text = page.read_text()
        shown = BLOCK.search(text)
        if not shown:
            print(f"{page}: has no ```diff block")
            status = 1
        elif arguments:
            page.write_text(text[:shown.start(2)] + "".join(real) + text[shown.end(2):])
        elif shown.group(2) != "".join(real):
            print(f"{page}: the difference shown is not the real one; run tools/check_example.py --fix")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
