"""Sandblaster jobs for the measurements beside this file: starts them, reads what they say, watches their processes."""

import argparse
import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MNIST = os.path.join(ROOT, "data", "mnist")
SOFTMAX = os.path.join(ROOT, "recipes", "mnist-softmax-sandblaster.toml")
# What a measurement of a job has no use for.
QUIET = ["evaluation.every_steps=0", "evaluation.every_epochs=0", "evaluation.fraction=0.02",
         "checkpoint.every_steps=0", "checkpoint.every_epochs=0", "output.tensorboard=false", "threads=1",
         "sandblaster.gradient_norm=0"]


def parser_of(doc, minutes, done="measured"):
    """What all scripts take; `minutes` of a run at most, `done` is what becomes of it."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convoy", default="build/bin/convoy")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--minutes", type=float, default=minutes, help=f"of each run, at most ({minutes})")
    parser.add_argument("--set", action="append", default=[], help="another key of the recipe")
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--table", action="store_true", help=f"what there is; nothing is {done}")
    return parser


def say(text):
    print(text, file=sys.stderr, flush=True)


def data_keys(images, labels):
    return [f"data.train.images={images}", f"data.train.labels={labels}"]


def test_images():
    """The 10,000 test images, to train with."""
    return data_keys(os.path.join(MNIST, "t10k-images-idx3-ubyte.gz"),
                     os.path.join(MNIST, "t10k-labels-idx1-ubyte.gz"))


def first_images(folder, count):
    """Keys of a training set of the first `count` test images, whose files are in `folder`."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for name, header in (("images-idx3", 16), ("labels-idx1", 8)):
        with gzip.open(os.path.join(MNIST, f"t10k-{name}-ubyte.gz")) as file:
            data = file.read()
        each = (len(data) - header) // struct.unpack(">I", data[4:8])[0]
        path = os.path.join(folder, f"first-{count}-{name}-ubyte")
        with open(path, "wb") as file:
            file.write(data[:4] + struct.pack(">I", count) + data[8:header + count * each])
        paths.append(path)
    return data_keys(*paths)


def processes():
    """{pid: (parent, words of its command line)}"""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{entry}/cmdline") as file:
                words = file.read().split("\0")[:-1]
        except (OSError, IndexError):
            continue
        found[int(entry)] = (parent, words)
    return found


def processor_s(pid):
    """Seconds of processor time that a process has had."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Iteration:
    """A line of the coordinator: which iteration, how many evaluations, and when it was read."""

    def __init__(self, number, evaluations, at):
        self.number, self.evaluations, self.at = number, evaluations, at


class Job:
    """`convoy train` of a recipe, whose lines are read as they come."""

    LINE = re.compile(r"iteration (\d+): loss .*?, (\d+) evaluations?[;,]")

    def __init__(self, convoy, folder, keys, recipe=SOFTMAX, more=()):
        words = [convoy, "train", recipe, "--overwrite", *more]
        for key in [*keys, f"output.folder={folder}"]:
            words += ["--set", key]
        self.folder = folder
        self.iterations = []
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            now = time.monotonic()
            found = self.LINE.search(line)
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                if found:
                    self.iterations.append(Iteration(int(found[1]), int(found[2]), now))
                self.changed.notify_all()

    def wait_for(self, number, limit_s):
        """That the line of an iteration comes; False if the job ends, or so much time passes, before."""
        until = time.monotonic() + limit_s
        with self.changed:
            while not any(each.number >= number for each in self.iterations):
                if self.process.poll() is not None or time.monotonic() > until:
                    return False
                self.changed.wait(0.2)
        return True

    def roles(self, role):
        """Ids of the job's processes `convoy ROLE`, by what its last word is: replica-3, say."""
        all_of_them = processes()

        def is_mine(pid):
            while pid in all_of_them:
                if pid == self.process.pid:
                    return True
                pid = all_of_them[pid][0]
            return False

        found = {}
        for pid, (_, words) in all_of_them.items():
            if len(words) > 2 and words[0].endswith("convoy") and words[1] == role and is_mine(pid):
                found[words[-1]] = pid
        return found

    def stop(self, patience_s=60):
        """Tells it to end, as SIGTERM does, and kills it if it doesn't."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join(5)

    def finish(self, limit_s):
        """Waits for its end and returns whether it came, in order, in time."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            say(f"{self.folder}: {limit_s:.0f} s are over: the job is told to end")
        self.stop()
        if self.process.returncode not in (0, 75):
            say("\n".join(self.lines[-12:]))
            sys.exit(f"{self.folder}: the job ended with status {self.process.returncode}")
        return self.process.returncode == 0

    def rows(self, kind):
        return rows_of(self.folder, kind)


def rows_of(folder, kind):
    """Rows of RUN/metrics.jsonl (docs/formats/metrics.md)."""
    rows = []
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:  # the last line of one that was killed
                continue
            if row.get("kind") == kind:
                rows.append(row)
    return rows


def groups_of(folder):
    """Groups of portions, in the order in which they ended: dicts with seconds since the run began."""
    groups = []
    for row in rows_of(folder, "groups"):
        names = dict(zip(row["replicas"], row["replica_names"]))
        columns = ("iteration", "evaluation", "first", "portions", "replica", "copy", "end", "began_s", "ended_s")
        for values in zip(*(row[column] for column in columns)):
            group = dict(zip(columns, values))
            group["replica"] = names.get(group["replica"], str(group["replica"]))
            group["began_s"] += row["elapsed_s"]
            group["ended_s"] += row["elapsed_s"]
            groups.append(group)
    return groups


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def table(head, rows):
    """Lines of a table as the pages in docs/ have them."""
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def read_json_lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def add_json_line(path, row):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
