#!/usr/bin/env python3
"""Trains softmax with strategy "sandblaster" again and again while processes are killed, paused, get garbage and lose
their disk, and compares the bits of the weights with those of a training that nobody disturbed.

  tests/faults/sandblaster.py CONVOY [--kills 40] [--pauses 2] [--full-disks 2] [--garbage 2] [--cuts 0] [--seed N]
                                     [--jobs R/S/G[/backups],...] [--steps 60] [--recipe FILE] [--set KEY=VALUE]...
                                     [--folder DIR]

CONVOY is the program to try, as build/bin/convoy. Each of --jobs is a training with R replicas, S shards and groups of
at most G portions, with backups or without; faults are divided among them:
  kills       SIGKILL to the coordinator, the evaluator, a replica and, with backups, the primary or the backup of a
              shard, in each phase of the method: while an evaluation is under way, before it is sealed, before a
              direction or the weights of a line search are made, before scalar products, before what they are is
              stored, and before an iteration that is done is. The coordinator waits there (CONVOY_TEST_HOLD,
              src/base/hold.h), and goes on when the process is dead; or, every second time, it goes on, and the process
              is killed some milliseconds later
  pauses      SIGSTOP to a replica that has groups of an evaluation, and SIGCONT 30 s (--pause-s) later: others have
              done its groups by then, and more. Now and then to a server, the evaluator or the coordinator instead
  full disks  the disk of a server or of the coordinator, a small tmpfs of its own, is filled for 10 s (--full-s); needs
              root
  garbage     bytes that mean nothing are sent to where the coordinator and all servers listen
  cuts        a host of an emulated cluster (tools/cluster) is without a network for 10 s (--cut-s); needs root, and
              everything runs on the three hosts of that cluster then, with certificates
After each the job has to go on within 60 s: every shard has a primary and a backup that has caught up, all processes
are there, and another evaluation has begun. When a training ends and faults are left, another one begins. At the end
of each convoy train exits with 0, all --steps iterations are done, no process of the job is left, and the weights have
the bits of the training that was not disturbed.

One line for each fault. The exit status is 1 if any of this was not so: what was found is said at once and again at
the end, and the folder of that training is kept. 77: it can't run here.
"""

import argparse
import collections
import itertools
import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

import jobs

PHASES = ("evaluation", "seal", "direction", "search", "products", "answer", "iteration")
LONGEST_PHASE_S = 120  # without that the method comes to any point
MOST_AHEAD = 4  # times that the method comes to a phase before a fault
SLOW_S = 0.15  # between two points while a job recovers, so that it is not at its end before
JOBS = "1/1/1/backups,2/2/4/backups,4/5/16/backups,8/2/1/backups,2/1/16/backups,1/5/4,4/2/16,2/5/1"


class Gate(threading.Thread):
    """Lets the method of a job go on from point to point, and holds it where somebody waits for it."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.changed = threading.Condition()
        self.wanted = None  # a phase
        self.ahead = 0
        self.held = False
        self.pace_s = 0.0
        self.last = time.monotonic()
        self.closed = False

    def run(self):
        while not self.closed:
            try:
                point = self.path.read_text().split()[1].split(".")[1]
            except (OSError, IndexError):
                time.sleep(0.003)
                continue
            self.last = time.monotonic()
            with self.changed:
                if point == self.wanted:
                    self.ahead -= 1
                    if self.ahead < 0:
                        self.wanted, self.held = None, True
                        self.changed.notify_all()
                self.changed.wait_for(lambda: not self.held or self.closed)
            if self.pace_s:
                time.sleep(self.pace_s)
            self.path.unlink(missing_ok=True)

    def wait_for(self, phase, ahead, over):
        """Returns False where the training is over before."""
        with self.changed:
            self.wanted, self.ahead, self.last = phase, ahead, time.monotonic()
            while not self.changed.wait_for(lambda: self.held, timeout=0.2):
                if over():
                    self.wanted = None
                    return False
                if time.monotonic() - self.last > LONGEST_PHASE_S:
                    raise jobs.Problem(f"the method has come to no point for {LONGEST_PHASE_S} s")
        return True

    def release(self):
        with self.changed:
            self.held = False
            self.changed.notify_all()

    def close(self):
        self.closed = True
        self.release()
        self.join()
        self.path.unlink(missing_ok=True)


class Job:
    """How many of what, as R/S/G[/backups]."""

    def __init__(self, text):
        parts = text.split("/")
        if len(parts) not in (3, 4) or parts[3:] not in ([], ["backups"]):
            raise argparse.ArgumentTypeError(f"'{text}' is not R/S/G or R/S/G/backups")
        self.text = text
        self.replicas, self.shards, self.group = (int(part) for part in parts[:3])
        self.backups = len(parts) == 4

    def changes(self):
        return [f"sandblaster.replicas={self.replicas}", f"sandblaster.shards={self.shards}",
                f"sandblaster.largest_group={self.group}",
                f"sandblaster.backups={'true' if self.backups else 'false'}"]

    def victims(self):
        return ["coordinator", "evaluator", "replica"] + (["primary", "backup"] if self.backups else [])

    def __str__(self):
        return self.text


def small(options):
    """Softmax on 10,000 of MNIST's images, in 80 portions. Checkpoints are made often, for the evaluator's sake."""
    mnist = jobs.SOURCE / "data/mnist"
    return [f"data.train.images={mnist}/t10k-images-idx3-ubyte.gz",
            f"data.train.labels={mnist}/t10k-labels-idx1-ubyte.gz", f"training.steps={options.steps}",
            "training.batch=125", "evaluation.fraction=0.02", "evaluation.every_steps=0", "threads=1",
            "output.tensorboard=false", "precision=float64", "checkpoint.every_steps=3",
            "sandblaster.gradient_norm=0"]


def read_safetensors(path):
    """{name: (type, shape, bytes)}"""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    tensors = json.loads(data[8:8 + size])
    tensors.pop("__metadata__", None)
    body = data[8 + size:]
    return {name: (what["dtype"], tuple(what["shape"]), body[slice(*what["data_offsets"])])
            for name, what in tensors.items()}


class Training(jobs.Training):
    strategy = "sandblaster"
    nothing = (-1, -1)
    coordinator_has_disk = True

    def __init__(self, options, folder, number, cluster, job, expected):
        self.job, self.expected, self.weights = job, expected, None
        hold = folder / f"hold-{number}"
        hold.unlink(missing_ok=True)
        self.gate = Gate(hold)
        super().__init__(options, folder, number, cluster, small(options) + job.changes(),
                         {"CONVOY_TEST_HOLD": f"batch.:1+={hold}"})
        self.gate.start()

    def done(self, status):
        evaluation = (status.get("batch") or {}).get("evaluation")
        return tuple(int(part) for part in evaluation.split(".")) if evaluation else self.nothing

    def described(self, done):
        return f"evaluation {done[0]}.{done[1]}"

    def is_done(self, status):
        return bool(status["job"]["ended"] or (status.get("batch") or {}).get("over"))

    def role_of(self, victim, dice):
        """A role of roles(), or "" where the coordinator does not say who it is."""
        if victim == "replica":
            return f"replica-{dice.randrange(self.replicas)}"
        if victim not in ("primary", "backup"):
            return victim
        status = self.status()
        shard = dice.randrange(self.job.shards)
        number = status["shards"][shard][victim] if status else 0
        return f"server-{number - 1}" if number else ""

    def send_garbage(self, dice):
        status = self.status()
        addresses = [json.loads((self.server_data / "job.json").read_text())["address"]]
        addresses += [server["address"] for server in status["servers"]] if status else []
        beginnings = (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01")
        for address in addresses:
            host, _, port = address.rpartition(":")
            for beginning in beginnings:
                try:
                    with socket.create_connection((host, int(port)), timeout=5) as connection:
                        connection.sendall(beginning + dice.randbytes(dice.randrange(1, 5000)))
                except OSError:
                    pass
        return len(addresses)

    def disturb(self, fault, dice):
        """Returns a text for people, or None where the training was over."""
        phase = fault.phase or "evaluation"
        if not self.gate.wait_for(phase, dice.randrange(MOST_AHEAD), self.over):
            return None
        before = self.done_now()
        self.gate.pace_s = SLOW_S
        try:
            what = fault.role
            if fault.kind == "kill":
                what = self.role_of(fault.role, dice)
                for _ in range(100):  # until there is a backup again
                    if what or self.over():
                        break
                    time.sleep(0.1)
                    what = self.role_of(fault.role, dice)
                if not what:
                    raise jobs.Problem(f"nobody is the {fault.role} of a shard")
                pid = self.process_of(what)
                if pid is None:
                    return None
                if not fault.at_the_point:
                    self.gate.release()
                    time.sleep(dice.uniform(0, 0.05))
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    raise jobs.Problem(f"{what} has ended by itself") from None
            elif fault.kind == "garbage":
                what = f"{self.send_garbage(dice)} addresses"
            else:
                self.gate.release()  # meanwhile it goes on, slowly
                self.gate.pace_s = max(SLOW_S, self.options.pause_s / 200)
                if not self.strike(fault):
                    return None
            self.gate.release()
            self.gate.pace_s = SLOW_S
            took = self.wait_until_it_goes_on(before)
        finally:
            self.gate.release()
            self.gate.pace_s = 0
        where = "" if not fault.phase else f" at evaluation {before[0]}.{before[1]}"
        return f"{what}{where}: " + ("the training is over" if self.over() else f"goes on after {took:.1f} s")

    def outcome(self, status):
        if status != 0:
            return "", []
        problems = []
        file = self.folder / "weights.safetensors"
        words = [self.options.convoy, "export", self.run, file, "--json", "-"]
        exported = subprocess.run(words, capture_output=True, text=True, check=False)
        if exported.returncode != 0:
            return "", [f"convoy export: {exported.stderr}"]
        source = re.search(r'"source": *"([^"]*)"', exported.stdout).group(1)
        if int(re.findall(r"\d+", source)[-1]) != self.options.steps:
            problems.append(f"not all {self.options.steps} iterations are done: the last checkpoint is {source}")
        self.weights = read_safetensors(file)
        if self.expected is None or self.weights == self.expected:
            return "the same bits" if self.expected else f"{len(self.weights)} tensors", problems
        names = [name for name in self.expected if self.weights.get(name) != self.expected[name]]
        return "", problems + [f"other bits than undisturbed: {', '.join(names) or 'other tensors'}"]

    def end(self):
        super().end()
        self.gate.close()


class Fault(jobs.Fault):
    def __init__(self, kind, role, phase="", at_the_point=True):
        super().__init__(kind, role)
        self.phase, self.at_the_point = phase, at_the_point

    def __str__(self):
        return f"{self.kind:9} {self.role:11} {'before' if self.at_the_point else 'in':6} {self.phase:10}" \
            if self.phase else f"{self.kind:9} {self.role:11}"


def plan(options, dice):
    """[(job, faults)]: each kind is divided among the jobs, and each job's are in a random order."""
    lists = [(job, []) for job in options.jobs]
    # Each role in each phase before any comes again.
    left = {}
    for number in range(options.kills):
        job, faults = lists[number % len(lists)]
        kind = job.backups
        if not left.get(kind):
            left[kind] = [Fault("kill", *both) for both in itertools.product(job.victims(), PHASES)]
            dice.shuffle(left[kind])
        fault = left[kind].pop()
        fault.at_the_point = number % 2 == 0
        faults.append(fault)
    # A replica that stands still alone would be waited for.
    several = [pair for pair in lists if pair[0].replicas > 1] or lists
    for number in range(options.pauses):
        job, faults = several[number % len(several)]
        roles = {2: "server-0", 5: "evaluator", 8: "coordinator"}
        faults.append(Fault("pause", roles.get(number % 9, f"replica-{dice.randrange(job.replicas)}")))
    for number in range(options.full_disks):
        job, faults = lists[number % len(lists)]
        role = "coordinator" if number % 2 else f"server-{dice.randrange(2 if job.backups else 1)}"
        faults.append(Fault("full disk", role))
    for number in range(options.garbage):
        lists[number % len(lists)][1].append(Fault("garbage", "", PHASES[number % len(PHASES)]))
    for number in range(options.cuts):
        with_backups = [pair for pair in lists if pair[0].backups] or lists
        with_backups[number % len(with_backups)][1].append(Fault("cut", jobs.HOSTS[number % len(jobs.HOSTS)]))
    for _, faults in lists:
        dice.shuffle(faults)
    return lists


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs.add_options(parser, "mnist-softmax-sandblaster.toml")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--pauses", type=int, default=2)
    parser.add_argument("--full-disks", type=int, default=0)
    parser.add_argument("--garbage", type=int, default=2)
    parser.add_argument("--cuts", type=int, default=0)
    parser.add_argument("--jobs", type=lambda text: [Job(part) for part in text.split(",")], default=JOBS)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--disk-mib", type=int, default=256)
    return jobs.parsed(parser)


def undisturbed(options, folder, cluster):
    """Weights, problems."""
    training = Training(options, folder, 0, cluster, Job("1/1/1"), None)
    try:
        text, problems = training.finish()
    finally:
        training.end()
    print(f"undisturbed: {text}", flush=True)
    if not problems:
        shutil.rmtree(training.folder, ignore_errors=True)
    return training.weights, [f"undisturbed: {what}" for what in problems]


def trial(options, folder, cluster):
    """Problems, and how many faults there were."""
    dice = random.Random(options.seed)
    begin = time.monotonic()
    expected, problems = undisturbed(options, folder, cluster)
    if problems:
        return problems, 0
    done = collections.Counter()
    number = 0
    for job, faults in plan(options, dice):
        first = True
        while first or faults:
            first = False
            number += 1
            training = Training(options, folder, number, cluster, job, expected)
            before, text = len(problems), ""
            fault = None
            try:
                while faults:
                    fault = faults[-1]
                    said = training.disturb(fault, dice)
                    if said is None:
                        break
                    faults.pop()
                    done[fault.kind] += 1
                    print(f"{time.monotonic() - begin:6.0f} s  {sum(done.values()):3}  {job}  {fault}: {said}",
                          flush=True)
                text, wrong = training.finish()
                problems += [f"training {number}, {job}: {what}" for what in wrong]
            except jobs.Problem as problem:
                problems.append(f"training {number}, {job}, after {fault}: {problem}")
            finally:
                training.end()
            print(f"{time.monotonic() - begin:6.0f} s  training {number}, {job}, is over: {text}", flush=True)
            for what in problems[before:]:
                print(f"PROBLEM  {what}", flush=True)
            if len(problems) > before:
                print(f"         kept: {training.folder}", flush=True)
                break
            shutil.rmtree(training.folder, ignore_errors=True)
    print(", ".join(f"{count} x {kind}" for kind, count in done.items()), flush=True)
    return problems, sum(done.values())


def main():
    options = parse()
    if isinstance(options.jobs, str):
        options.jobs = [Job(part) for part in options.jobs.split(",")]
    print(f"seed {options.seed}: {options.kills} kills, {options.pauses} pauses, {options.full_disks} full disks, "
          f"{options.garbage} times garbage, {options.cuts} cuts", flush=True)
    return jobs.main(options, trial)


if __name__ == "__main__":
    sys.exit(main())
