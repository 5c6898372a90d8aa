#!/usr/bin/env python3
"""Checks that docs/recipes.md has exactly the tables and keys of recipes, with their defaults.

  tools/check_recipe_docs.py build/bin/convoy      exit status 0 or 1

What there is comes from the program: `convoy train --print-recipe`, for each reader, model,
optimizer, schedule and strategy it knows. In the page a heading names tables and, after them, the
choices they belong to (## `[data.train]` with `idx`); a heading without choices has the keys that
all of them have. Each row of the Markdown table under it is a key, with its default in TOML, or in
words where there is none.
"""

import math
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/recipes.md"
TABLE = re.compile(r"`\[+([a-z_.]+)\]+`")
CODE = re.compile(r"`([^`]+)`")
ROW = re.compile(r"^\|(.*)\|$")
# Two complete recipes, without a key in common that has a default.
RECIPES = (
    '[model]\nname = "lenet"\n[data]\nreader = "image_folder"\n[data.train]\npath = "."\n'
    '[data.validation]\npath = "."\n[training]\nbatch = 1\nepochs = 1\n'
    '[[optimizer.groups]]\nmax_dims = 1\n',
    '[model]\nname = "lenet"\n[data]\nreader = "image_folder"\n[data.train]\npath = "."\n'
    '[data.validation]\npath = "."\n[training]\nbatch = 1\nsteps = 1\n'
    '[[optimizer.groups]]\nparameters = ["*"]\n',
)
# One that every strategy takes: some have no use for [optimizer].
PLAIN = RECIPES[0].split("[[optimizer.groups]]")[0]
# What schedules can't do without.
SCHEDULE_KEYS = {"step": {"milestones": "[0.5]"}}


class Section:
    def __init__(self, line, tables, choices):
        self.line = line
        self.tables = tables    # names; "" is the top level
        self.choices = choices  # readers, models, optimizers, schedules; empty: any
        self.keys = {}          # key -> cells between the first and the last


def sections_of(text):
    sections = []
    current, fenced = None, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        if line.startswith("#"):
            tables = TABLE.findall(line)
            if line == "## Top level":
                tables = [""]
            choices = [c for c in CODE.findall(line) if not c.startswith("[")]
            current = Section(number, tables, choices) if tables else None
            if current:
                sections.append(current)
        elif current and (row := ROW.match(line)):
            cells = [cell.strip() for cell in row.group(1).split(" | ")]
            if cells[0].startswith("`"):
                current.keys[cells[0].strip("`")] = cells[1:-1]
    return [section for section in sections if section.keys]


def flatten(tree, path=""):
    """{table: {key: value}} of parsed TOML; a list of tables counts as its first element."""
    tables = {}
    for key, value in tree.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = value[0]
        if isinstance(value, dict):
            tables.update(flatten(value, name))
            tables.setdefault(name, {})
        else:
            tables.setdefault(path, {})[key] = value
    return tables


def equal(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (a, b))
    return math.isclose(a, b, rel_tol=1e-4) if numbers else type(a) is type(b) and a == b


class Convoy:
    def __init__(self, program, folder):
        self.program = str(pathlib.Path(program).resolve())
        self.folder = folder

    def run(self, *arguments):
        return subprocess.run([self.program, "train", *arguments, "--print-recipe"],
                              cwd=self.folder, capture_output=True, text=True, timeout=60)

    def recipe(self, *arguments):
        result = self.run(*arguments)
        if result.returncode != 0:
            sys.exit(f"check_recipe_docs: convoy train {' '.join(arguments)}:\n{result.stderr}")
        return flatten(tomllib.loads(result.stdout))

    def names(self, key):
        """What a key can be, from the message about a choice that doesn't exist."""
        stderr = self.run("recipe0.toml", "--set", f"{key}=?").stderr
        found = re.search(r"there is no \w+ '\?'; there are (.*?)(;|$)", stderr, re.MULTILINE)
        if not found:
            sys.exit(f"check_recipe_docs: can't tell what {key} can be from:\n{stderr}")
        return found.group(1).split(", ")


def required_keys(convoy, reader):
    """The keys that a reader's table can't do without, each with a value that will do."""
    base = ["recipe0.toml", "--set", f"data.reader={reader}", "--set", "data.train={}",
            "--set", "data.validation={}"]
    missing = re.findall(r"(data\.\w+\.\w+): is missing", convoy.run(*base).stderr)
    for key in missing:
        base += ["--set", f"{key}=.", ]
    stderr = convoy.run(*base).stderr
    for key in re.findall(r"(data\.\w+\.\w+): has to be a list", stderr):
        base += ["--set", f'{key}=["."]']
    return base, {key.rsplit(".", 1)[1] for key in missing}


def check(convoy):
    problems = []
    sections = sections_of(PAGE.read_text())

    def sections_for(table, choice):
        return [s for s in sections if table in s.tables and (choice in s.choices or not s.choices)]

    seen = set()

    def compare(printed, given, choice_of):
        for table, keys in printed.items():
            choice = choice_of.get(table)
            found = sections_for(table, choice)
            name = f"[{table}]" + (f" with {choice}" if choice else "") if table else "the top level"
            if not found:
                if keys:
                    problems.append(f"{name} is missing: {', '.join(keys)}")
                continue
            seen.update((id(section), key) for section in found for key in section.keys)
            for key, value in keys.items():
                section = next((s for s in found if key in s.keys), None)
                if section is None:
                    problems.append(f"{name} lacks the key {key} (default {value!r})")
                    continue
                if (table, key) in given:
                    continue
                cells = section.keys[key]
                cell = cells[section.tables.index(table) if len(cells) > 1 else 0]
                try:
                    documented = tomllib.loads(f"value = {cell.strip('`')}")["value"]
                except tomllib.TOMLDecodeError:
                    problems.append(f"{name}: the default of {key} is {value!r}, not {cell}")
                    continue
                if not equal(documented, value):
                    problems.append(f"{name}: the default of {key} is {value!r}, not {documented!r}")
            for section in found:
                for key in section.keys:
                    if key not in keys:
                        problems.append(f"{name} has no key {key} (line {section.line})")

    def given_in(number):
        tables = flatten(tomllib.loads(RECIPES[number]))
        return {(table, key) for table, keys in tables.items() for key in keys} | {("", "name")}

    readers, models = convoy.names("data.reader"), convoy.names("model.name")
    optimizers, schedules = convoy.names("optimizer.name"), convoy.names("schedule.name")
    reader_tables = ("data.train", "data.validation")
    defaults = {table: "image_folder" for table in reader_tables}
    defaults |= {"model.options": "resnet18", "optimizer": "sgd", "schedule": "constant"}
    for number in range(len(RECIPES)):
        compare(convoy.recipe(f"recipe{number}.toml"), given_in(number), defaults)
    for reader in readers:
        arguments, required = required_keys(convoy, reader)
        printed = convoy.recipe(*arguments)
        compare({table: printed[table] for table in reader_tables},
                {(table, key) for table in reader_tables for key in required},
                {table: reader for table in reader_tables})
    for model in models:
        printed = convoy.recipe("recipe0.toml", "--set", f"model.name={model}")
        options = printed.get("model.options", {})
        compare({"model.options": options} if options else {}, set(), {"model.options": model})
        documented = any("model.options" in s.tables and model in s.choices for s in sections)
        if documented and not options:
            problems.append(f"[model.options]: {model} has none")
    for optimizer in optimizers:
        printed = convoy.recipe("recipe0.toml", "--set", f"optimizer.name={optimizer}")
        compare({"optimizer": printed["optimizer"]}, {("optimizer", "name")},
                {"optimizer": optimizer})
    for schedule in schedules:
        needed = SCHEDULE_KEYS.get(schedule, {})
        arguments = ["--set", f"schedule.name={schedule}"]
        for key, value in needed.items():
            arguments += ["--set", f"schedule.{key}={value}"]
        printed = convoy.recipe("recipe0.toml", *arguments)
        compare({"schedule": printed["schedule"]},
                {("schedule", key) for key in ("name", *needed)}, {"schedule": schedule})
    for strategy in convoy.names("strategy"):
        printed = convoy.recipe("plain.toml", "--set", f"strategy={strategy}")
        compare({strategy: printed.get(strategy, {})}, set(), {})
    # Without a recipe, too, there is nothing else to print.
    for table, keys in convoy.recipe().items():
        known = {key for s in sections_for(table, defaults.get(table)) for key in s.keys}
        for key in keys:
            if key not in known:
                problems.append(f"--print-recipe without a recipe prints {table}.{key}")
    for section in sections:
        if not any((id(section), key) in seen for key in section.keys):
            problems.append(f"line {section.line} describes what no recipe has: {section.tables}")
        known = {*readers, *models, *optimizers, *schedules}
        for choice in section.choices:
            if choice not in known:
                problems.append(f"line {section.line}: there is no {choice}")
    return list(dict.fromkeys(problems)), sum(len(s.keys) for s in sections)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        for number, recipe in enumerate(RECIPES):
            (pathlib.Path(folder) / f"recipe{number}.toml").write_text(recipe)
        (pathlib.Path(folder) / "plain.toml").write_text(PLAIN)
        problems, count = check(Convoy(arguments[0], folder))
    for problem in problems:
        print(f"docs/recipes.md: {problem}")
    print(f"check_recipe_docs: {count} keys, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
