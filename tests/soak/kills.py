#!/usr/bin/env python3
"""Kills a random process of a training job at a random moment, again and again, and looks at what is left.

  tests/soak/kills.py CONVOY [--kills 40] [--seed N] [--ranks 2-5] [--folder DIR]

CONVOY is the program to try, as build/bin/convoy. Each time it trains LeNet for a few steps, with a
checkpoint every other step, and a process of the job gets SIGKILL: the launcher, mpirun, a supervisor
or a rank, while the job starts, trains, writes a checkpoint or ends. Then
  - within 10 s no process of the job is left;
  - nothing that Convoy made is left in /dev/shm or among temporary files;
  - the newest checkpoint, if there is one, is whole;
  - the run goes on from its newest checkpoint, and ends with the same files in its folder and the same
    bits in its model as a run that nobody disturbed.
What Open MPI leaves when it is killed itself is its own and not counted.

One line for each kill. The exit status is 1 if any of this was not so; what was found is said at
once and again at the end, and the folder of that run is kept. As root the job gets a /dev/shm of its
own, so that other jobs on the machine don't matter.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MARK = "CONVOY_SOAK"  # in the environment of every process of a job
SHARED = pathlib.Path("/dev/shm")
STEPS = 14
PROMISE_S = 10
PATIENCE_S = 300  # for a whole run, on a busy machine
OF_OPEN_MPI = re.compile(r"(ompi\.|vader_segment\.|pmix|openmpi-)")


def marked(mark):
    """{process id: words of its command line} of the living processes with this mark."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    found[int(entry.name)] = words
        except OSError:  # it has just ended
            pass
    return found


def role(words):
    program = os.path.basename(words[0])
    if program == "convoy":
        return "launcher" if "run" in words[1:2] else "rank"
    return {"convoy-agent": "supervisor"}.get(program, program.split(".")[0])


def wait_for(condition, seconds):
    """What the condition came to be, or its last value after so long."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return value


class Job:
    """`convoy train` in a process group and with temporary files of its own."""

    def __init__(self, options, ranks, folder, more=()):
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.folder = folder
        self.temporary = pathlib.Path(tempfile.mkdtemp(prefix="tmp-", dir=folder.parent))
        images = SOURCE / "data/mnist/t10k-images-idx3-ubyte.gz"
        settings = {
            "data.train.images": images, "data.train.labels": str(images).replace(
                "images-idx3", "labels-idx1"),
            "data.validation.images": images, "data.validation.labels": str(images).replace(
                "images-idx3", "labels-idx1"),
            "training.batch": 60, "training.steps": STEPS, "evaluation.every_epochs": 0,
            "checkpoint.every_steps": 2, "output.folder": folder, "output.tensorboard": "false",
        }
        command = [options.convoy, "train", SOURCE / "recipes/lenet-mnist.toml", "-n", str(ranks), *more]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        environment = os.environ | {MARK: self.mark, "TMPDIR": str(self.temporary),
                                    "OMP_NUM_THREADS": "1"}
        self.log = open(folder.parent / f"{folder.name}.log", "a+")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, env=environment, start_new_session=True)

    def step(self):
        """The last step that is in the metrics."""
        try:
            rows = (self.folder / "metrics.jsonl").read_text().splitlines()
        except OSError:
            return 0
        steps = [row["step"] for row in map(parse, rows) if row.get("kind") == "step"]
        return steps[-1] if steps else 0

    def ended(self):
        return self.process.poll() is not None

    def wait(self):
        """Its exit status; None if it has none after a long time."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            return None

    def await_nobody(self):
        """The processes that are left after the promised time."""
        wait_for(lambda: self.ended() and not marked(self.mark), PROMISE_S)
        return marked(self.mark)

    def leftovers(self):
        """Names of shared memory and temporary files that Convoy has left."""
        names = [f"/dev/shm/{name}" for name in os.listdir(SHARED) if "convoy" in name]
        names += [f"TMPDIR/{name}" for name in os.listdir(self.temporary)]
        return [name for name in names if not OF_OPEN_MPI.match(os.path.basename(name))]

    def clear(self):
        for process in marked(self.mark):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.temporary, ignore_errors=True)
        if os.environ.get("CONVOY_SOAK_OWN_SHM"):
            for name in os.listdir(SHARED):
                (SHARED / name).unlink()


def parse(line):
    try:
        return json.loads(line)
    except ValueError:  # it is being written
        return {}


def files_of(folder):
    """All but the older checkpoints: ranks that lose their launcher are told to stop, and leave one at a step of
    their own, which then is among those that are kept."""
    newest = max((folder / "checkpoints").glob("step-*"), default=None)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")
                  if path.relative_to(folder).parts[0] != "checkpoints" or newest in (path, *path.parents))


def model_of(options, folder):
    """The bits of the newest checkpoint's model; what is damaged is none."""
    if not list((folder / "checkpoints").glob("step-*")):
        return None
    file = folder.parent / "exported.safetensors"
    file.unlink(missing_ok=True)
    done = subprocess.run([options.convoy, "export", folder, file], capture_output=True, text=True)
    return file.read_bytes() if done.returncode == 0 else done.stderr


def writing(folder):
    """Whether a checkpoint is being written."""
    return any((folder / "checkpoints").glob(".partial-step-*"))


@dataclasses.dataclass
class Undisturbed:
    """What a run is to come to, and how long it takes until its first step and after its last."""
    files: list
    model: bytes
    set_up_s: float
    shut_down_s: float


def run_undisturbed(options, ranks, top):
    job = Job(options, ranks, top / f"whole-{ranks}")
    start = time.monotonic()
    wait_for(lambda: job.ended() or job.step() > 0, PATIENCE_S)
    first = time.monotonic()
    wait_for(lambda: job.ended() or job.step() >= STEPS, PATIENCE_S)
    last = time.monotonic()
    status = job.wait()
    if status != 0:
        sys.exit(f"a run of {ranks} ranks that nobody disturbed ended with {status}; see {job.log.name}")
    end = time.monotonic()
    left = job.leftovers()
    job.clear()
    if left:
        sys.exit(f"a run of {ranks} ranks that nobody disturbed left {left}")
    return Undisturbed(files_of(job.folder), model_of(options, job.folder), first - start, end - last)


def strike(job, whole, draw):
    """Kills a process of the job at a random moment; (moment, victim) in words, or None if the job was
    faster."""
    kind = draw.choice(["set-up", "training", "writing", "shut-down"])
    if kind == "set-up":
        delay = draw.uniform(0, whole.set_up_s)
        wait_for(job.ended, delay)
        moment = f"{delay:.2f} s after the start"
    elif kind == "training":
        step = draw.randint(1, STEPS - 1)
        wait_for(lambda: job.ended() or job.step() >= step, PATIENCE_S)
        delay = draw.uniform(0, 0.2)
        wait_for(job.ended, delay)
        moment = f"{delay:.2f} s after step {step}"
    elif kind == "writing":
        step = draw.randint(1, STEPS - 1)
        wait_for(lambda: job.ended() or job.step() >= step and writing(job.folder), PATIENCE_S)
        delay = draw.uniform(0, 0.01)
        time.sleep(delay)
        moment = f"{delay:.3f} s after a checkpoint was begun, step {step} or later"
    else:
        wait_for(lambda: job.ended() or job.step() >= STEPS, PATIENCE_S)
        delay = draw.uniform(0, whole.shut_down_s)
        wait_for(job.ended, delay)
        moment = f"{delay:.2f} s after the last step"
    there = marked(job.mark)
    if not there:
        return None
    victim = draw.choice(sorted(there))
    words = there[victim]
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return f"{role(words)} {victim}, {moment}"


def go_on(options, ranks, job, whole):
    """What is wrong with the run when it has been resumed."""
    there = list((job.folder / "checkpoints").glob("step-*"))
    again = Job(options, ranks, job.folder, ["--resume"] if there else ["--overwrite"])
    status = again.wait()
    left = again.leftovers()
    again.clear()
    if status != 0:
        return [f"resumed, it ended with {status}"]
    wrong = [f"resumed, it left {left}"] if left else []
    if model_of(options, job.folder) != whole.model:
        wrong.append("resumed, it has another model")
    if files_of(job.folder) != whole.files:
        wrong.append(f"its folder differs by {sorted(set(files_of(job.folder)) ^ set(whole.files))}")
    return wrong


def one_kill(options, number, ranks, top, whole, draw):
    """(what was killed, or None; what is wrong)"""
    folder = top / f"run-{number}"
    job = Job(options, ranks, folder)
    struck = strike(job, whole, draw)
    wrong = []
    left = job.await_nobody()
    if left:
        wrong.append("left: " + ", ".join(f"{role(w)} {p}" for p, w in left.items()))
    if files := job.leftovers():
        wrong.append(f"left: {', '.join(files)}")
    complete = job.process.poll() == 0
    job.clear()
    if isinstance(model_of(options, folder), str):
        wrong.append(f"its newest checkpoint: {model_of(options, folder)}")
    if complete and model_of(options, folder) != whole.model:
        wrong.append("its status is 0, but it is not complete")
    wrong += go_on(options, ranks, job, whole)
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)
        pathlib.Path(job.log.name).unlink()
    return struck, wrong


def own_shared_memory():
    """Starts this script again where /dev/shm is its own."""
    os.environ["CONVOY_SOAK_OWN_SHM"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c",
                          f'mount -t tmpfs -o size=1g,mode=1777 tmpfs {SHARED} && exec "$0" "$@"',
                          sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("convoy", type=lambda path: os.path.abspath(path), metavar="CONVOY")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--ranks", default="2-5", help="the least and the most (default: 2-5)")
    parser.add_argument("--folder", help="for the runs (default: a temporary one)")
    options = parser.parse_args()
    if os.geteuid() == 0 and not os.environ.get("CONVOY_SOAK_OWN_SHM"):
        own_shared_memory()
    least, most = (int(number) for number in options.ranks.split("-"))
    top = pathlib.Path(tempfile.mkdtemp(prefix="convoy-soak-", dir=options.folder))
    draw = random.Random(options.seed)
    print(f"{options.kills} kills, seed {options.seed}, in {top}", flush=True)
    whole, violations, kills, number = {}, [], 0, 0
    while kills < options.kills:
        number += 1
        ranks = draw.randint(least, most)
        if ranks not in whole:
            whole[ranks] = run_undisturbed(options, ranks, top)
        struck, wrong = one_kill(options, number, ranks, top, whole[ranks], draw)
        kills += struck is not None
        line = f"{kills:4}  {ranks} ranks  {struck or 'ended before'}: {'; '.join(wrong) or 'fine'}"
        print(line, flush=True)
        if wrong:
            violations.append(line)
    print(f"{kills} kills, {len(violations)} violations" + (f"; kept in {top}" if violations else ""))
    for line in violations:
        print(line)
    if not violations:
        shutil.rmtree(top)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
