"""Runs of convoy train around a parameter server, their processes, and what is done to them: for downpour.py and
sandblaster.py."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

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
    """A small disk for each of some roles, in one folder."""

    def __init__(self, folder, names, mib):
        self.folders = {name: folder / name for name in names}
        for path in self.folders.values():
            path.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", path], check=True)

    def fill(self, name):
        path = self.folders[name] / "filler"
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

    def empty(self, name):
        (self.folders[name] / "filler").unlink(missing_ok=True)  # the end may have come first

    def close(self):
        for path in self.folders.values():
            subprocess.run(["umount", "-l", path], check=False)


@dataclasses.dataclass
class Fault:
    kind: str
    role: str

    def __str__(self):
        return f"{self.kind:9} {self.role}"


class Training:
    """One run of convoy train, of a recipe with strategy `self.strategy`. `variables` are for all of its processes."""

    strategy = ""
    nothing = 0  # of what done() says
    coordinator_has_disk = False  # a small one of its own, as servers have

    def __init__(self, options, folder, number, cluster, changes=(), variables=None):
        self.options, self.cluster = options, cluster
        self.mark = f"{os.getpid()}-{number}"
        self.folder = folder / f"training-{number}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.run = self.folder / "run"
        self.server_data = self.folder / "server"
        self.log = open(self.folder / "log", "w", encoding="utf-8")
        words = [str(options.convoy), "train", str(options.recipe),
                 "--set", f"output.folder={self.run}", "--set", f"{self.strategy}.restarts=100000",
                 "--server-data", str(self.server_data)]
        for change in (*options.set, *changes):
            words += ["--set", change]
        self.servers, self.replicas = self.sizes(words)
        # As JobData (src/cli/server/job_data.h) calls their folders.
        disks = [f"server-{n + 1}" for n in range(self.servers)]
        if self.coordinator_has_disk:
            disks.append("coordinator")
        self.disks = Disks(self.server_data, disks, options.disk_mib) if options.full_disks else None
        if cluster:
            certificates = self.folder / "certs"
            subprocess.run([options.convoy, "certs", certificates, "--hosts",
                            ",".join((*HOSTS, "switch"))], check=True, stdout=self.log)
            words = cluster.inside(words + ["--hosts", ",".join(HOSTS), "--certs", str(certificates)])
        self.process = subprocess.Popen(words, env=os.environ | {MARK: self.mark} | (variables or {}),
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        start_new_session=True)

    def sizes(self, words):
        """Servers and replicas, as the roles of the job say."""
        shown = subprocess.run(words + ["--dry-run"], capture_output=True, text=True, check=False)
        if shown.returncode != 0:
            print(shown.stderr, file=sys.stderr, end="")
            sys.exit(2)
        labels = re.findall(r"^# (\w+)(?:-\d+)? \(", shown.stdout, re.MULTILINE)
        if "server" not in labels or "replica" not in labels:
            print(f"no servers or replicas among the roles of --dry-run:\n{shown.stdout}", file=sys.stderr, end="")
            sys.exit(2)
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

    def done(self, status):
        """What grows while the job goes on."""
        return status["progress"]["samples"]

    def described(self, done):
        return f"{done} samples"

    def is_done(self, status):
        """Whether nothing is left that could go on."""
        return bool(status["progress"]["all_done"] or status["job"]["ended"])

    def what_is_wrong(self, before):
        """With the job, before it counts as going on; `before`: what was done()."""
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
        if self.is_done(status):
            return ""
        here = {role for role, _ in processes(self.mark).values()}
        missing = [role for role in self.roles() if role not in here]
        if missing:
            return f"{', '.join(missing)} did not come back"
        done = self.done(status)
        return "" if done > before else f"still {self.described(done)}"

    def done_now(self):
        status = self.status()
        return self.done(status) if status else self.nothing

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

    def strike(self, fault):
        """Returns False where the training was over."""
        if fault.kind == "kill":
            pid = self.process_of(fault.role)
            if pid is None:
                return False
            os.kill(pid, signal.SIGKILL)
        elif fault.kind == "pause":
            pid = self.process_of(fault.role)
            if pid is None:
                return False
            os.kill(pid, signal.SIGSTOP)
            self.sleep(self.options.pause_s)
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:  # the end came first
                pass
        elif fault.kind == "full disk":
            name = fault.role
            if name.startswith("server"):
                name = f"server-{int(name.split('-')[1]) + 1}"
            self.disks.fill(name)
            self.sleep(self.options.full_s)
            self.disks.empty(name)
        else:
            self.cluster.switch(fault.role, "down")
            self.sleep(self.options.cut_s)
            self.cluster.switch(fault.role, "up")
        return True

    def carry_out(self, fault):
        """Returns a text for people, or None where the training was over."""
        before = self.done_now()
        if not self.strike(fault):
            return None
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
        text, wrong = self.outcome(status)
        return text, problems + wrong

    def outcome(self, status):
        """(text, problems) of a job that has ended with this exit status."""
        raise NotImplementedError

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


def say_end(training, name, text, problems, seconds):
    """Says how a training ended; where there were problems its folder stays. Whether there were none."""
    print(f"{seconds:6.0f} s  {name} is over: {text}", flush=True)
    for what in problems:
        print(f"PROBLEM  {what}", flush=True)
    if problems:
        print(f"         kept: {training.folder}", flush=True)
    else:
        shutil.rmtree(training.folder, ignore_errors=True)
    return not problems


def add_options(parser, recipe):
    parser.add_argument("convoy", type=pathlib.Path)
    parser.add_argument("--recipe", type=pathlib.Path, default=SOURCE / "recipes" / recipe)
    parser.add_argument("--set", action="append", default=[], help="as for convoy train")
    parser.add_argument("--pause-s", type=float, default=30)
    parser.add_argument("--full-s", type=float, default=10)
    parser.add_argument("--cut-s", type=float, default=10)
    parser.add_argument("--patience-s", type=float, default=1800, help="for a whole training")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path)


def parsed(parser):
    options = parser.parse_args()
    options.convoy = options.convoy.resolve()
    if (options.full_disks or options.cuts) and os.geteuid() != 0:
        print("full disks and cuts need root", file=sys.stderr)
        sys.exit(77)
    return options


def main(options, trial):
    """Carries out `trial(options, folder, cluster)`, which returns problems and the number of faults. The exit
    status."""
    folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="convoy-faults-"))
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
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
