"""What the scripts beside this file share: emulated clusters, recipes of the arms, rows that are kept."""

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLUSTER = os.path.join(ROOT, "tools", "cluster")
NETWORKS = ("googlenet-bn", "resnet50")
TITLES = {"googlenet-bn": "GoogLeNet-BN", "resnet50": "ResNet-50"}
IMAGENET, IMAGENETTE = 1_281_167, 9_469  # training images
GRADIENT_BYTES = {"googlenet-bn": 76_591_552, "resnet50": 102_228_128}  # float32, 1000 classes

# Each arm has what the one before it has, and one thing more: in the order of the paper's sections 5.1 to 5.3.
ARMS = {
    "base": {"title": "files, Open MPI's allreduce, baseline table",
             "reader": "files", "allreduce": "mpi", "table": "baseline", "bucket": "1GiB"},
    "multicolor": {"title": "+ multi-color allreduce",
                   "reader": "files", "allreduce": "multicolor", "table": "baseline", "bucket": "1GiB"},
    "dimd": {"title": "+ DIMD",
             "reader": "memory", "allreduce": "multicolor", "table": "baseline", "bucket": "1GiB"},
    "table": {"title": "+ optimized table",
              "reader": "memory", "allreduce": "multicolor", "table": "optimized", "bucket": "1GiB"},
    "overlap": {"title": "+ sums during the backward pass",
                "reader": "memory", "allreduce": "multicolor", "table": "optimized", "bucket": "8MiB"},
    # Figure 6 has the paper's ring, too.
    "ring": {"title": "multi-color replaced by the ring",
             "reader": "files", "allreduce": "ring", "table": "baseline", "bucket": "1GiB"},
}
STEPS = ("base", "multicolor", "dimd", "table", "overlap")


def say(text):
    print(text, file=sys.stderr, flush=True)


def data_folder(given):
    folder = given or os.path.join(os.environ.get("CONVOY_DATA", ""), "imagenette_224_small")
    if not os.path.isdir(os.path.join(folder, "train")):
        sys.exit(f"{sys.argv[0]}: {folder}/train is not there; set CONVOY_DATA, or name the folder with --data "
                 "(docs/data-sets.md says where it comes from)")
    return os.path.abspath(folder)


def numbers(text):
    return [int(word) for word in text.split(",")]


def names(known):
    def read(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                sys.exit(f"{sys.argv[0]}: there is no {word}; there are {', '.join(known)}")
        return words
    return read


def even_share(hosts):
    """Percent of a CPU for each host, so that a tenth of the machine is left to mpirun and the kernel's packets."""
    return f"{int(90 * len(os.sched_getaffinity(0)) / hosts)}%"


# --- rows that are kept ---

def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n") and line.strip()]


def add_row(path, row):
    with open(path, "a+b") as file:
        if file.tell() > 0:  # a line that was cut ends here
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                whole = [json.dumps(each) + "\n" for each in read_rows(path)]
                file.truncate(0)
                file.write("".join(whole).encode())
        file.write((json.dumps(row) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def is_there(rows, key):
    return any(all(row.get(name) == value for name, value in key.items()) for row in rows)


def metrics(folder, kind):
    path = os.path.join(folder, "metrics.jsonl")
    return [row for row in read_rows(path) if row.get("kind") == kind]


# --- statistics and tables ---

def interval(values):
    """(median, lowest, highest)"""
    return statistics.median(values), min(values), max(values)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


# --- clusters ---

class Failed(Exception):
    pass


def call(words, log, environment=None):
    """Runs it, keeps what it says, and gives its standard output."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          env=dict(os.environ, **(environment or {})))
    with open(log, "a", encoding="utf-8") as file:
        file.write("$ " + " ".join(words) + "\n" + done.stdout + done.stderr)
    if done.returncode == 77:
        sys.exit(f"{sys.argv[0]}: {done.stderr.strip()}")
    if done.returncode != 0:
        raise Failed(f"{' '.join(words[:6])} ... ended with {done.returncode} (see {log}):\n" +
                     "\n".join((done.stderr or done.stdout).strip().split("\n")[-8:]))
    return done.stdout


@contextlib.contextmanager
def cluster(hosts, rate, cpu, log):
    """Gives a function that runs words on all hosts of an emulated cluster."""
    # One that is left behind has its share of the processors, which the next one then does not get.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    identity = call([CLUSTER, "up", "--hosts", str(hosts), "--rate", rate, "--cpu", cpu], log).split()[-1]
    try:
        yield lambda words, environment=None: call([CLUSTER, "run", identity, "--", *words], log, environment)
    finally:
        subprocess.run([CLUSTER, "down", identity], check=False)


# --- data and recipes ---

def packed(convoy, source, folder, log):
    """The images as one tar, byte for byte, for DIMD."""
    path = os.path.join(folder, "train.tar")
    if not os.path.exists(path + ".index"):
        call([convoy, "pack", os.path.join(source, "train"), path, "--keep"], log)
    return path


def recipe(network, arm, size, batch, devices, source, pack, more=""):
    own = ARMS[arm]
    if own["reader"] == "files":
        reader, store, train = "image_folder", "files", f'path = "{source}/train"'
    else:
        reader, store, train = "packed", "memory", f'files = ["{pack}"]'
    return f'''name = "{network}-{arm}"
threads = {devices}

[model]
name = "{network}"
classes = 1000

[data]
reader = "{reader}"
store = "{store}"
size = {size}
threads = 1
mean = [0.485, 0.456, 0.406]
deviation = [0.229, 0.224, 0.225]

[data.train]
{train}

[data.augment]
crop = "random_resized"
flip = true

[sync]
devices = {devices}
table = "{own["table"]}"
allreduce = "..64KiB recursive-doubling; {own["allreduce"]}"
bucket = "{own["bucket"]}"
first_bucket = "{"1MiB" if own["bucket"] == "8MiB" else own["bucket"]}"

[output]
tensorboard = false
rank_times_every_steps = 0
{more}
[training]
batch = {batch}
'''


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
