#!/usr/bin/env python3
"""Trains a recipe with strategy "downpour" while its processes are killed, paused, cut off and left without a disk.

  tests/faults/downpour.py CONVOY [--kills 50] [--pauses 10] [--full-disks 5] [--cuts 10] [--seed N]
                                  [--recipe FILE] [--set KEY=VALUE]... [--accuracy 0.985] [--folder DIR]

CONVOY is the program to try, as build/bin/convoy. Faults come one after the other at random moments:
  kills       SIGKILL to a process: the coordinator, each server, the evaluator and each replica in turn
  pauses      SIGSTOP to one of these, and SIGCONT 30 s (--pause-s) later
  full disks  the disk of a server, a small tmpfs of its own, is filled for 10 s (--full-s); needs root
  cuts        a host of an emulated cluster (tools/cluster) is without a network for 10 s (--cut-s); needs
              root, and everything runs on the three hosts of that cluster then
After each fault, and after the end of a pause, a full disk or a cut, the job has to go on within 60 s: every
shard has a primary and a backup that has caught up, and samples are done. When a training ends and faults
are left, another one begins. At the end of each
  - convoy train exits with 0, and the last evaluation found at least --accuracy;
  - the ledger of each shard holds every push that was acknowledged to a replica exactly once, and no
    other but of those whose replica died before the answer came (tests/faults/ledger.py);
  - no process of the job is left.

One line for each fault. The exit status is 1 if any of this was not so: what was found is said at once
and again at the end, and the folder of that training is kept. 77: it can't run here.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import ledger

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MARK = "CONVOY_FAULTS"  # in the environment of every process of a job
RECOVERS_S = 60
HOSTS = ("h0", "h1", "h2")
COMMANDS = {"coordinator": "coordinator", "serve": "server", "evaluator": "evaluator",
            "replica": "replica"}
CAUGHT_UP = 1000  # commands that a backup may lack while replicas push


class Problem(Exception):
    pass


def processes(mark):
    """{process id: (role as convoy train calls it, state)} of the living processes with this mark;
    role "" for what belongs to the job otherwise."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit():
                continue
            variables = (entry / "environ").read_bytes().split(b"\0")
            if wanted not in variables:
                continue
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if state == "Z":
                continue
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            role = ""
            if os.path.basename(words[0]) == "convoy" and words[1] in COMMANDS:
                values = dict(v.split(b"=", 1) for v in variables if b"=" in v)
                role = COMMANDS[words[1]]
                if role in ("server", "replica"):
                    role += "-" + values.get(b"CONVOY_ROLE_INDEX", b"0").decode()
            found[int(entry.name)] = (role, state)
        except (OSError, IndexError):  # it has just ended
            pass
    return found


class Cluster:
    """Three emulated hosts, while it lives."""

    def __init__(self):
        tool = [sys.executable, str(SOURCE / "tools/cluster")]
        up = subprocess.run(tool + ["up", "--hosts", str(len(HOSTS)), "--rate", "1gbit"],
                            capture_output=True, text=True, check=False)
        if up.returncode != 0:
            print(up.stdout + up.stderr, file=sys.stderr)
            sys.exit(up.returncode)
        self.tool, self.name = tool, up.stdout.strip()

    def inside(self, words):
        return self.tool + ["exec", self.name, "switch", "--", *words]

    def switch(self, host, state):
        subprocess.run(self.inside(["ip", "link", "set", f"{host}.0", state]), check=True)

    def close(self):
        subprocess.run(self.tool + ["down", self.name], check=False)


class Disks:
    """A small disk for each server, in one folder."""

    def __init__(self, folder, servers, mib):
        self.folders = [folder / f"server-{n + 1}" for n in range(servers)]
        for path in self.folders:
            path.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", path], check=True)

    def fill(self, server):
        path = self.folders[server] / "filler"
        with open(path, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * (1 << 20))
            except OSError:
                pass
            try:  # the last bytes
                while True:
                    file.write(b"\0" * 512)
            except OSError:
                pass

    def empty(self, server):
        (self.folders[server] / "filler").unlink(missing_ok=True)  # the end may have come first

    def close(self):
        for path in self.folders:
            subprocess.run(["umount", "-l", path], check=False)


@dataclasses.dataclass
class Fault:
    kind: str
    role: str

    def __str__(self):
        return f"{self.kind:9} {self.role}"


class Training:
    """One run of convoy train."""

    def __init__(self, options, folder, number, cluster):
        self.options, self.cluster = options, cluster
        self.mark = f"{os.getpid()}-{number}"
        self.folder = folder / f"training-{number}"
        self.records = self.folder / "records"
        self.records.mkdir(parents=True)
        self.run = self.folder / "run"
        self.server_data = self.folder / "server"
        self.log = open(self.folder / "log", "w", encoding="utf-8")
        words = [str(options.convoy), "train", str(options.recipe),
                 "--set", f"output.folder={self.run}", "--set", "downpour.restarts=100000",
                 "--server-data", str(self.server_data)]
        for change in options.set:
            words += ["--set", change]
        self.servers, self.replicas = self.sizes(words)
        self.disks = Disks(self.server_data, self.servers, options.disk_mib) if options.full_disks else None
        if cluster:
            certificates = self.folder / "certs"
            subprocess.run([options.convoy, "certs", certificates, "--hosts",
                            ",".join((*HOSTS, "switch"))], check=True, stdout=self.log)
            words = cluster.inside(words + ["--hosts", ",".join(HOSTS), "--certs", str(certificates)])
        variables = os.environ | {MARK: self.mark, "CONVOY_PUSH_RECORDS": str(self.records)}
        self.process = subprocess.Popen(words, env=variables, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, start_new_session=True)

    def sizes(self, words):
        """Servers and replicas, as the roles of the job say."""
        shown = subprocess.run(words + ["--dry-run"], capture_output=True, text=True, check=False)
        if shown.returncode != 0:
            print(shown.stderr, file=sys.stderr, end="")
            sys.exit(2)
        labels = [line.split(" ")[0].split("-")[0] for line in shown.stdout.splitlines()[1:]]
        return labels.count("server"), labels.count("replica")

    def roles(self):
        return (["coordinator"] + [f"server-{n}" for n in range(self.servers)] + ["evaluator"] +
                [f"replica-{n}" for n in range(self.replicas)])

    def over(self):
        return self.process.poll() is not None

    def status(self):
        """What the coordinator says, or None where it doesn't."""
        try:
            address = json.loads((self.server_data / "job.json").read_text())["address"]
        except (OSError, ValueError, KeyError):
            return None
        words = [str(self.options.convoy), "status", address, "--json", "-"]
        if self.cluster:
            words = self.cluster.inside(words + ["--certs", str(self.folder / "certs")])
        try:
            said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
            return json.loads(said.stdout) if said.returncode == 0 else None
        except (subprocess.TimeoutExpired, ValueError):
            return None

    def what_is_wrong(self, before):
        """With the job, before it counts as going on; `before`: samples that were done."""
        status = self.status()
        if status is None:
            return "the coordinator does not answer"
        for shard in status["shards"]:
            name = f"shard {shard['shard']}"
            if not shard["primary"] or (status["job"]["backups"] and not shard["backup"]):
                return f"{name} has primary {shard['primary']} and backup {shard['backup']}"
            if shard.get("report_age_s", 1e9) > 5:
                return f"{name} does not answer"
            if shard["backup_lag"] > CAUGHT_UP:
                return f"the backup of {name} lacks {shard['backup_lag']} commands"
        if status["progress"]["all_done"] or status["job"]["ended"]:
            return ""
        here = {role for role, _ in processes(self.mark).values()}
        missing = [role for role in self.roles() if role not in here]
        if missing:
            return f"{', '.join(missing)} did not come back"
        done = status["progress"]["samples"]
        return "" if done > before else f"still {done} samples"

    def samples(self):
        status = self.status()
        return status["progress"]["samples"] if status else 0

    def wait_until_it_goes_on(self, before, limit_s=RECOVERS_S):
        """Seconds; raises Problem."""
        begin = time.monotonic()
        wrong = ""
        while time.monotonic() - begin < limit_s:
            if self.over():
                return time.monotonic() - begin
            wrong = self.what_is_wrong(before)
            if not wrong:
                return time.monotonic() - begin
            time.sleep(0.2)
        if self.over():
            return time.monotonic() - begin
        raise Problem(f"after {limit_s} s it does not go on: {wrong}")

    def process_of(self, role):
        """None where the training is over before it is there."""
        end = time.monotonic() + RECOVERS_S
        while time.monotonic() < end and not self.over():
            for pid, (name, _) in processes(self.mark).items():
                if name == role:
                    return pid
            time.sleep(0.2)
        if self.over():
            return None
        raise Problem(f"there was no {role} for {RECOVERS_S} s")

    def sleep(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.over():
            time.sleep(0.1)

    def carry_out(self, fault):
        """Returns a text for people, or None where the training was over."""
        before = self.samples()
        if fault.kind == "kill":
            pid = self.process_of(fault.role)
            if pid is None:
                return None
            os.kill(pid, signal.SIGKILL)
        elif fault.kind == "pause":
            pid = self.process_of(fault.role)
            if pid is None:
                return None
            os.kill(pid, signal.SIGSTOP)
            self.sleep(self.options.pause_s)
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:  # the end came first
                pass
        elif fault.kind == "full disk":
            server = int(fault.role.split("-")[1])
            self.disks.fill(server)
            self.sleep(self.options.full_s)
            self.disks.empty(server)
        else:
            self.cluster.switch(fault.role, "down")
            self.sleep(self.options.cut_s)
            self.cluster.switch(fault.role, "up")
        took = self.wait_until_it_goes_on(before)
        return "the training is over" if self.over() else f"goes on after {took:.1f} s"

    def finish(self):
        """(text, problems)"""
        problems = []
        try:
            status = self.process.wait(timeout=self.options.patience_s)
        except subprocess.TimeoutExpired:
            self.end()
            return "", [f"it did not end within {self.options.patience_s} s"]
        if status != 0:
            tail = (self.folder / "log").read_text(errors="replace").splitlines()[-12:]
            problems.append(f"convoy train exited with {status}:\n    " + "\n    ".join(tail))
        left = {}
        for _ in range(100):
            left = processes(self.mark)
            if not left:
                break
            time.sleep(0.1)
        if left:
            problems.append(f"processes are left: {left}")
        accuracy = self.accuracy()
        if accuracy < self.options.accuracy:
            problems.append(f"the accuracy is {accuracy:.4f}, less than {self.options.accuracy}")
        text, wrong = ledger.check(self.records) if status == 0 else ("", [])
        return f"accuracy {accuracy:.4f}; {text}", problems + wrong

    def accuracy(self):
        last = 0.0
        try:
            for line in (self.run / "metrics.jsonl").read_text().splitlines():
                row = json.loads(line)
                if row.get("kind") == "evaluation":
                    last = row["top1"]
        except (OSError, ValueError):
            pass
        return last

    def end(self):
        """Whatever it is doing."""
        if not self.over():
            for pid, (_, state) in processes(self.mark).items():
                if state == "T":
                    os.kill(pid, signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.disks:
            self.disks.close()
        self.log.close()


class Faults:
    """What is left to do, in a random order; each kind goes over the roles in turn."""

    def __init__(self, options, training, dice):
        roles = training.roles()
        kinds = {"kill": (options.kills, roles), "pause": (options.pauses, roles),
                 "full disk": (options.full_disks, [r for r in roles if r.startswith("server")]),
                 "cut": (options.cuts, list(HOSTS))}
        self.left = []
        for kind, (count, places) in kinds.items():
            self.left += [Fault(kind, places[i % len(places)]) for i in range(count)]
        dice.shuffle(self.left)

    def next(self):
        return self.left[-1] if self.left else None

    def done(self):
        self.left.pop()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("convoy", type=pathlib.Path)
    parser.add_argument("--recipe", type=pathlib.Path, default=SOURCE / "recipes/mnist-downpour.toml")
    parser.add_argument("--set", action="append", default=[], help="as for convoy train")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pauses", type=int, default=10)
    parser.add_argument("--full-disks", type=int, default=0)
    parser.add_argument("--cuts", type=int, default=0)
    parser.add_argument("--pause-s", type=float, default=30)
    parser.add_argument("--full-s", type=float, default=10)
    parser.add_argument("--cut-s", type=float, default=10)
    parser.add_argument("--between-s", type=float, default=5, help="most time between two faults")
    parser.add_argument("--disk-mib", type=int, default=1024)
    parser.add_argument("--accuracy", type=float, default=0.985)
    parser.add_argument("--patience-s", type=float, default=1800, help="for a whole training")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    options.convoy = options.convoy.resolve()
    if (options.full_disks or options.cuts) and os.geteuid() != 0:
        print("full disks and cuts need root", file=sys.stderr)
        sys.exit(77)
    return options


def trial(options, folder, cluster):
    """Problems."""
    dice = random.Random(options.seed)
    faults, problems, number, done = None, [], 0, 0
    begin = time.monotonic()
    while faults is None or faults.next():
        number += 1
        training = Training(options, folder, number, cluster)
        faults = faults or Faults(options, training, dice)
        before = len(problems)
        try:
            training.wait_until_it_goes_on(0, options.patience_s)
            while faults.next() and not training.over():
                training.sleep(dice.uniform(0, options.between_s))
                said = training.carry_out(faults.next())
                if training.over() or said is None:
                    break
                done += 1
                print(f"{time.monotonic() - begin:6.0f} s  {done:3}  {faults.next()}: {said}", flush=True)
                faults.done()
            text, wrong = training.finish()
            problems += [f"training {number}: {what}" for what in wrong]
        except Problem as problem:
            text = ""
            problems.append(f"training {number}, after {faults.next()}: {problem}")
        finally:
            training.end()
        print(f"{time.monotonic() - begin:6.0f} s  training {number} is over: {text}", flush=True)
        for what in problems[before:]:
            print(f"PROBLEM  {what}", flush=True)
        if len(problems) > before:
            print(f"         kept: {training.folder}", flush=True)
            break
        shutil.rmtree(training.folder, ignore_errors=True)
    return problems, done


def main():
    options = parse()
    folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="convoy-faults-"))
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}: {options.kills} kills, {options.pauses} pauses, {options.full_disks} full "
          f"disks, {options.cuts} cuts", flush=True)
    cluster = Cluster() if options.cuts else None
    try:
        problems, done = trial(options, folder, cluster)
    finally:
        if cluster:
            cluster.close()
    for what in problems:
        print(f"PROBLEM  {what}")
    if not problems:
        print(f"{done} faults, and nothing was lost")
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
