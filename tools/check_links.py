#!/usr/bin/env python3
"""Checks that what the Markdown files of a source tree link to is there: files, images, headings.

  tools/check_links.py [ROOT]
"""

import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(text):
    """The names under which headings can be linked to."""
    names = set()
    for heading in HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return names


def problems(page):
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(CODE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        found = page.parent / name if name else page
        if not found.exists():
            yield f"{target}: there is no such file"
        elif anchor and found.suffix == ".md" and anchor not in anchors(found.read_text("utf-8")):
            yield f"{target}: there is no such heading"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    pages = sorted(root.glob("*.md"))
    for folder in ("docs", "examples", "deploy", "recipes", "data"):
        pages += sorted((root / folder).rglob("*.md"))
    wrong = [f"{page.relative_to(root)}: {what}" for page in pages for what in problems(page)]
    for line in wrong:
        print(f"check_links: {line}", file=sys.stderr)
    if not pages:
        print(f"check_links: no page in {root}", file=sys.stderr)
    sys.exit(1 if wrong or not pages else 0)


if __name__ == "__main__":
    main()
