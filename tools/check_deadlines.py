#!/usr/bin/env python3
"""Checks that no test's verdict hangs on how much time has passed.

  tools/check_deadlines.py              checks tests/
  tools/check_deadlines.py --list       prints every place it asks about, allowed or not
  tools/check_deadlines.py --self-test  tests itself

It asks about assertions that bound elapsed time from above, and about sleeps. Allowed are the limit of all waits,
test::patience(); pauses of 100 ms at most in a loop that waits for something other than a time; tests/soak; the cases
of tests/clock_cases.txt; and the functions of tests/pauses.txt, each with the reason why it decides nothing.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".cc", ".h", ".c", ".py"}
SLEEP = re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(")
ASSERTION = re.compile(r"\b(?:EXPECT|ASSERT)_(LT|LE|GT|GE|NEAR|TRUE|FALSE)\s*\(")
ELAPSED = re.compile(r"seconds_since\(|\belapsed\w*|::now\(\)|(?<![.\w>])(?:seconds|took)\b(?!\()")
PATIENCE = re.compile(r"\bpatience(?:_s)?\(\)|\bkPatience")
TEST = re.compile(r"\bTEST(?:_F|_P)?\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")
LOOP = re.compile(r"\b(?:while|for)\s*\((.*)\)\s*(?:\{|[^{};]*$)", re.DOTALL)
ONLY_TIME = re.compile(r"^[^&|;]*now\(\)[^&|;]*$|^\s*(?:true|1)?\s*$")
LITERAL = re.compile(r"(?:chrono::(microseconds|milliseconds|seconds)\(\s*|\b)([\d']+)(us|ms|s)?\b")
NOISE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""", re.DOTALL)


def blank(match):
    """Comments and strings without a text, but with their lines."""
    text = match.group()
    return ('""' if text[0] in 'R"' else " ") + "\n" * text.count("\n")


def arguments_from(text, at):
    """Those of the call whose parenthesis ends at `at`."""
    depth, words, begin = 0, [], at
    for i in range(at, len(text)):
        letter = text[i]
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            if depth == 0:
                return words + [text[begin:i]]
            depth -= 1
        elif letter == "," and depth == 0:
            words.append(text[begin:i])
            begin = i + 1
    return words + [text[begin:]]


def bounds_time(kind, words):
    """Whether an assertion says that at most some time has passed, other than the limit of all waits."""
    if PATIENCE.search(" ".join(words)):
        return False
    if kind == "NEAR":
        return any(ELAPSED.search(word) for word in words[:2])
    if kind in ("TRUE", "FALSE"):
        sides = re.split(r"(?<![<>-])([<>])=?(?![<>])", words[0])
        smaller = 0 if kind == "TRUE" else 2
        return len(sides) == 3 and bool(ELAPSED.search(sides[smaller if sides[1] == "<" else 2 - smaller]))
    return bool(ELAPSED.search(words[0 if kind in ("LT", "LE") else 1])) if len(words) > 1 else False


def milliseconds(text):
    """Of a literal pause; None if it is none."""
    match = LITERAL.search(text)
    if match is None:
        return None
    unit = match.group(1) or match.group(3)
    number = int(match.group(2).replace("'", ""))
    return number * {"microseconds": 0.001, "us": 0.001, "milliseconds": 1, "ms": 1}.get(unit, 1000)


def polls(loop):
    """Whether a loop's head waits for something other than a time."""
    if loop is None:
        return False
    condition = loop.split(";")[1] if loop.count(";") == 2 else loop
    return ";" in condition or not ONLY_TIME.match(condition) and ":" not in condition.replace("::", "")


class Places:
    """Walks a C++ file; found: [(line, function, what)] of what is to be asked about."""

    def __init__(self, text):
        self.text = NOISE.sub(blank, text)
        self.found = []
        self.walk()

    def walk(self):
        head, depth, stack = "", 0, []  # the statement so far, its parentheses; the blocks around: (head, depth)
        hits = {match.start(): match for pattern in (SLEEP, ASSERTION) for match in pattern.finditer(self.text)}
        line = 1
        for at, letter in enumerate(self.text):
            if at in hits:
                self.ask(hits[at], line, [of for of, _ in stack] + [head])
            if letter == "\n":
                line += 1
            if letter == "{":
                stack.append((head, depth))
                head, depth = "", 0
                continue
            if letter == "}" and stack:
                head, depth = stack.pop()
                head = head + "{}" if depth else ""
                continue
            depth += (letter == "(") - (letter == ")")
            head = "" if letter == ";" and depth == 0 else head + letter

    def ask(self, hit, line, heads):
        words = arguments_from(self.text, hit.end())
        if hit.re is ASSERTION:
            if bounds_time(hit.group(1), words):
                self.found.append((line, self.function(heads), "bounds elapsed time from above"))
            return
        if self.text[hit.end() - 1] != "(" or re.search(r"\b(?:void|int|auto)\s+$", self.text[:hit.start()]):
            return
        pause = milliseconds(words[0])
        if pause is not None and hit.group().startswith("usleep"):
            pause = pause / 1e6
        # The innermost loop around, as far as the function goes.
        loop = None
        for head in reversed(heads):
            match = LOOP.search(head + ("" if head is heads[-1] else "{"))
            if match:
                loop = match.group(1)
                break
            if TEST.search(head) or re.search(r"\]\s*(?:\([^()]*\))?\s*(?:mutable\s*)?$", head):
                break
        if not (polls(loop) and pause is not None and pause <= 100):
            self.found.append((line, self.function(heads), "sleeps"))

    @staticmethod
    def function(heads):
        for head in heads:
            match = TEST.search(head)
            if match:
                return ".".join(match.groups())
        for head in heads:
            if re.search(r"^\s*(?:template\b.*?>)?\s*(?:namespace|class|struct|enum|extern)\b[^()]*$", head, re.DOTALL):
                continue
            match = re.search(r"([\w~]+)\s*\(", head)
            if match:
                return match.group(1)
        return "?"


def places_in_python(text):
    function, found = "?", []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*def (\w+)", line)
        function = match.group(1) if match else function
        if re.search(r"\btime\.sleep\(", line.split("#")[0]):
            found.append((number, function, "sleeps"))
    return found


def places(path, text):
    return places_in_python(text) if path.endswith(".py") else Places(text).found


def read_list(text, columns):
    rows = [line.split(None, columns) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for row in rows:
        if len(row) <= columns:
            sys.exit(f"check_deadlines: '{' '.join(row)}' has no reason")
    return rows


def check(files, pauses, clock_cases):
    """{path: text}, {(path, function)} and {Suite.Case} -> complaints."""
    complaints, used = [], set()
    for path, text in sorted(files.items()):
        for line, function, what in places(path, text):
            if (path, function) in pauses:
                used.add((path, function))
            elif function not in clock_cases:
                complaints.append(
                    f"{path}:{line}: {function} {what}. Wait for an event, with test::patience(), or say in "
                    f"tests/pauses.txt why it decides nothing")
    complaints += [f"tests/pauses.txt: '{path} {function}' is of no use: remove it" for path, function in
                   sorted(pauses - used)]
    return complaints


def files_here():
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted((ROOT / "tests").rglob("*"))
            if path.suffix in SUFFIXES and path.relative_to(ROOT).parts[1] not in ("soak", "faults")}


GOOD = """
TEST(Good, Case) {
  while (!done && Clock::now() < until) std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 3; ++i) {
    run([&] { while (true) { poll(); } });
    while (there()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  for (const auto until = soon(); !ended();) usleep(50'000);
  EXPECT_GE(seconds_since(begin), 0.5);
  EXPECT_LT(seconds_since(begin), test::patience_s());
  EXPECT_LT(row.seconds, 3);  // sleep_for(9s) EXPECT_LT(elapsed, 1)
  EXPECT_EQ(say("sleep(9)"), R"(EXPECT_LT(elapsed, 1))");
}
"""
BAD = ["std::this_thread::sleep_for(1ms);", "while (Clock::now() < until) usleep(10);", "if (slow) { sleep(4); }",
       "while (!done) std::this_thread::sleep_for(3s);", "for (auto& x : all) std::this_thread::sleep_for(1ms);",
       "while (!done) { run([&] { std::this_thread::sleep_for(1ms); }); }",
       "for (int i = 0; Clock::now() < end; ++i) std::this_thread::sleep_for(1ms);",
       "std::this_thread::sleep_until(then);", "EXPECT_LT(seconds_since(begin), 2);", "ASSERT_GE(3, elapsed_s);",
       "EXPECT_NEAR(took, 3, 1);", "EXPECT_TRUE(Clock::now() - begin < 3s);", "EXPECT_FALSE(elapsed > 3);",
       "EXPECT_LE(\n      std::chrono::steady_clock::now() - start, kLimit);"]


def self_test():
    assert check({"tests/a.cc": GOOD}, set(), set()) == [], check({"tests/a.cc": GOOD}, set(), set())
    for line in BAD:
        text = f"namespace convoy {{\nTEST_F(Bad, Case) {{\n  {line}\n}}\n}}  // namespace convoy\n"
        found = check({"tests/a.cc": text}, set(), set())
        assert len(found) == 1 and found[0].startswith("tests/a.cc:3: Bad.Case "), (line, found)
        assert check({"tests/a.cc": text}, {("tests/a.cc", "Bad.Case")}, set()) == []
        assert check({"tests/a.cc": text}, set(), {"Bad.Case"}) == []
        helper = check({"tests/a.h": f"struct A {{\n  void helper(int x) {{\n {line}\n  }}\n}};\n"}, set(), set())
        assert len(helper) == 1 and helper[0].startswith("tests/a.h:3: helper "), (line, helper)
    assert len(check({"tests/a.cc": GOOD}, {("tests/a.cc", "Good.Case")}, set())) == 1  # of no use
    assert len(check({"tests/a.py": "def f():\n    time.sleep(1)\n"}, set(), set())) == 1
    print("check_deadlines: self-test passed")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments not in ([], ["--list"]):
        print(__doc__, file=sys.stderr)
        return 2
    files = files_here()
    if arguments:
        for path, text in files.items():
            for line, function, what in places(path, text):
                print(f"{path}:{line}: {function} {what}")
        return 0
    pauses = {tuple(row[:2]) for row in read_list((ROOT / "tests/pauses.txt").read_text(), 2)}
    clock_cases = {row[1] for row in read_list((ROOT / "tests/clock_cases.txt").read_text(), 2)}
    complaints = check(files, pauses, clock_cases)
    for line in complaints:
        print(line)
    print(f"check_deadlines: {len(files)} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
