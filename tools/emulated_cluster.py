"""The parts of tools/cluster: what an emulated cluster is, making, using and removing it."""

import dataclasses
import fcntl
import json
import os
import pathlib
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import time

from cluster_errors import Interrupted, NotPossible, UsageError
from cpu_shares import CpuShares, shares_text

NETNS = pathlib.Path("/run/netns")  # where `ip netns` keeps its names
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def call(command, lines=()):
    """What a command that is to succeed prints, with these lines as its input."""
    done = subprocess.run(command, input="\n".join(lines), text=True, capture_output=True)
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(f"{shlex.join(command)}: {words[0]}")
    return done.stdout


def mbit(rate):
    return f"{rate / 1e6:g} Mbit/s"


@dataclasses.dataclass
class Shape:
    hosts: int
    rate: int  # bits per second, of each interface
    interfaces: int = 1
    tree: int = 0  # hosts at a leaf switch; 0: there is one switch
    taper: float = 1
    cpu: list = ()  # shares of one CPU that the hosts have; empty: hosts are not limited

    def text(self):
        text = f"{self.hosts} host{'s' if self.hosts > 1 else ''}, "
        text += (f"{self.interfaces} interfaces of " if self.interfaces > 1 else "") + mbit(self.rate)
        if self.tree:
            text += f", {self.tree} at a leaf with {mbit(self.uplink_rate())} up"
        if self.cpu:
            text += f", {shares_text(self.cpu)}"
        return text

    def host_names(self):
        return [f"h{i}" for i in range(self.hosts)]

    def rails(self):
        return range(self.interfaces)

    def leaves(self):
        return range(-(-self.hosts // self.tree)) if self.tree else []

    def uplink_rate(self):
        return int(self.tree * self.rate / self.taper)


# Rail r is a network of its own, to which the interface eth<r> of every host belongs. All clusters
# use the same addresses: no namespace has a way out.
def subnet(rail):
    return f"10.77.{rail}.0/24"


def address(rail, host):
    return f"10.77.{rail}.{host + 1}"


SWITCH = 253  # mpirun runs at the switch, and reaches the hosts from this address


class Cluster:
    """Namespaces convoy-ID-h0, ... for the hosts and convoy-ID-switch for the bridges, cgroups where
    hosts have shares of a CPU, and a folder with what later commands need to know; the folder is
    there first and goes last. Whoever holds a shared lock on the folder is using the cluster."""

    def __init__(self, name):
        self.name = name
        self.folder = records() / name
        self.switch = self.namespace("switch")
        self.cpu_shares = CpuShares(name)

    def namespace(self, host):
        return f"convoy-{self.name}-{host}"

    def shape(self):
        try:
            return Shape(**json.loads((self.folder / "shape.json").read_text()))
        except FileNotFoundError:
            raise UsageError(f"cluster '{self.name}' was not made completely; remove it: "
                             f"tools/cluster down {self.name}") from None

    def lock(self, kind=fcntl.LOCK_SH):
        """Until this process and its forks end. False if others hold what excludes it."""
        self.locked = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self.locked, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    # --- making ---

    def make(self, shape):
        if shape.cpu:
            self.cpu_shares.make(shape.host_names(), shape.cpu)
        for host in ["switch"] + shape.host_names():
            call(["ip", "netns", "add", self.namespace(host)])
        # Both ends of every link: (namespace, interface, bits per second that it may send).
        ends = self.make_switch(shape)
        for i, host in enumerate(shape.host_names()):
            lines = ["link set lo up"]
            for rail in shape.rails():
                lines += [f"addr add {address(rail, i)}/24 dev eth{rail}", f"link set eth{rail} up"]
                ends.append((self.namespace(host), f"eth{rail}", shape.rate))
            call(["ip", "-n", self.namespace(host), "-batch", "-"], lines)
        limit(ends, shape.hosts)
        self.write_agent(shape)
        (self.folder / "shape.json").write_text(json.dumps(dataclasses.asdict(shape)))

    def make_switch(self, shape):
        """The bridges and their links; returns the ends that are here."""
        ends, lines = [], ["link set lo up"]
        for rail in shape.rails():
            top = f"top{rail}"
            lines += [f"link add {top} type bridge", f"link set {top} up",
                      f"addr add {address(rail, SWITCH)}/24 dev {top}"]
            for leaf in shape.leaves():
                bridge, up, down = (f"{word}{leaf}.{rail}" for word in ("leaf", "up", "down"))
                lines += [f"link add {bridge} type bridge", f"link set {bridge} up",
                          f"link add {up} type veth peer name {down}",
                          f"link set {up} master {bridge} up", f"link set {down} master {top} up"]
                ends += [(self.switch, end, shape.uplink_rate()) for end in (up, down)]
            for i, host in enumerate(shape.host_names()):
                port = f"{host}.{rail}"
                bridge = f"leaf{i // shape.tree}.{rail}" if shape.tree else top
                peer = f"eth{rail} netns {self.namespace(host)}"
                lines += [f"link add {port} type veth peer name {peer}",
                          f"link set {port} master {bridge} up"]
                ends.append((self.switch, port, shape.rate))
        call(["ip", "-n", self.switch, "-batch", "-"], lines)
        return ends

    def write_agent(self, shape):
        """The script that takes a command into a host, as ssh would: for mpirun, and for us."""
        names = ["127.0.0.1 localhost", f"{address(0, SWITCH)} switch"]
        names += [f"{address(0, i)} {host}" for i, host in enumerate(shape.host_names())]
        (self.folder / "hosts").write_text("\n".join(names) + "\n")
        start, inside = "exec ", ""
        if shape.cpu:
            start, inside = self.cpu_shares.agent_lines("$host", self.folder / "cgroup")
        # What is mounted after `ip netns exec` is seen by this command alone.
        (self.folder / "agent").write_text(
            f"host=$1; shift\n{start}ip netns exec convoy-{self.name}-$host unshare --uts sh -c \\\n"
            f"  '{inside}mount --bind {self.folder}/hosts /etc/hosts && hostname \"$0\" && "
            "eval \"$*\"' \"$host\" \"$@\"\n")
        (self.folder / "tmp").mkdir()

    # --- using ---

    def mpi_parameters(self, ranks_per_host):
        """What Open MPI has to know of the cluster: {MCA parameter: value}."""
        return {
            "plm_rsh_agent": f"sh {self.folder}/agent",
            "plm_rsh_no_tree_spawn": 1,
            "orte_tmpdir_base": f"{self.folder}/tmp",
            "oob_tcp_if_include": subnet(0),
            "pml": "ob1",  # others would find the memory that all hosts share
            "btl": "tcp,self" + (",vader" if ranks_per_host > 1 else ""),
            "btl_tcp_if_include": ",".join(map(subnet, self.shape().rails())),
            "btl_vader_backing_directory": f"{self.folder}/tmp",
            "mpi_yield_when_idle": 1,
        }

    def variables_of_jobs(self):
        """Environment with which a program at the switch starts MPI jobs on the hosts."""
        parameters = self.mpi_parameters(2)  # or more, where its jobs have so many on a host
        # Daemons that leave their session would become children of whoever has started mpirun.
        parameters["orte_leave_session_attached"] = 1
        return {f"OMPI_MCA_{name}": str(value) for name, value in parameters.items()} | AS_ROOT

    def run(self, host, command):
        """The exit status of a command on a host."""
        process = subprocess.Popen(["sh", self.folder / "agent", host,
                                    "exec " + shlex.join(command)])
        try:
            status = process.wait()
        except Interrupted:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        return status if status >= 0 else 128 - status

    def mpirun(self, command, ranks_per_host, variables, arguments):
        """The exit status of a command on all hosts."""
        shape = self.shape()
        full = [find_mpirun(), "-n", str(shape.hosts * ranks_per_host), "--bind-to", "none",
                "--host", ",".join(f"{host}:{ranks_per_host}" for host in shape.host_names())]
        for name, value in self.mpi_parameters(ranks_per_host).items():
            full += ["--mca", name, str(value)]
        for variable in variables:
            full += ["-x", variable]
        os.environ.update(AS_ROOT)
        return self.run("switch", full + arguments + command)

    # --- removing ---

    def namespaces(self):
        return sorted(path.name for path in NETNS.glob(self.namespace("*")))

    def end_processes(self):
        """mpirun gets time to end its ranks, then what is left gets some, then nothing is left."""
        def mpirun():
            return processes_in([self.switch])

        def all_processes():
            return {*processes_in(self.namespaces()), *self.cpu_shares.processes()}

        for number, processes, seconds in ((signal.SIGTERM, mpirun, 3),
                                           (signal.SIGTERM, all_processes, 2),
                                           (signal.SIGKILL, all_processes, 5)):
            for process in processes():
                try:
                    os.kill(process, number)
                except ProcessLookupError:
                    pass
            deadline = time.monotonic() + seconds
            while processes() and time.monotonic() < deadline:
                time.sleep(0.02)

    def remove(self):
        """What there is of it, while others may do the same."""
        self.end_processes()
        removing = os.open(records(), os.O_RDONLY)
        fcntl.flock(removing, fcntl.LOCK_EX)
        for name in self.namespaces():
            call(["ip", "netns", "delete", name])
        self.cpu_shares.remove()
        if self.folder.exists():
            shutil.rmtree(self.folder)
        os.close(removing)


class Guard:
    """A process that removes the cluster when this one leaves the `with`, or ends without leaving
    it: SIGKILL included."""

    def __init__(self, cluster):
        read, self.write = os.pipe()
        self.process = os.fork()
        if self.process:
            os.close(read)
            return
        os.close(self.write)
        os.setsid()  # Ctrl-C does not reach it
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        os.read(read, 1)  # until there is nobody left to write
        status = 1
        try:
            cluster.remove()
            status = 0
        finally:
            os._exit(status)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        os.close(self.write)
        if os.waitpid(self.process, 0)[1] != 0:
            raise RuntimeError("the cluster could not be removed; see: tools/cluster list")


def processes_in(namespaces):
    """Ids of the processes in these namespaces."""
    inodes = {(NETNS / name).stat().st_ino for name in namespaces if (NETNS / name).exists()}
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "ns/net").stat().st_ino in inodes:
                found.append(int(entry.name))
        except OSError:  # it has just ended
            pass
    return found


def limit(ends, hosts):
    """A token bucket at each of these (namespace, interface, bits per second)."""
    # A queue holds what all hosts have under way to one port: nothing is lost. Far longer ones
    # would hurt, since connections that started early keep their part of them (docs/cluster.md).
    queue = max(hosts, 4) << 20
    lines = {}
    for namespace, interface, rate in ends:
        # A packet has up to 64 KiB before the kernel cuts it for the wire.
        burst = max(68 << 10, rate // 8 // 1000)
        lines.setdefault(namespace, []).append(
            f"qdisc add dev {interface} root tbf rate {rate}bit burst {burst} limit {queue}")
    for namespace, of_one in lines.items():
        call(["tc", "-n", namespace, "-batch", "-"], of_one)


def find_mpirun():
    for name in ("mpirun.openmpi", "mpirun"):
        path = shutil.which(name)
        if path and re.search(r"\(Open MPI\) 4\.", call([path, "--version"])):
            return path
    raise NotPossible("there is no mpirun of Open MPI 4 in PATH")


def check_machine():
    """Raises NotPossible unless clusters can be made here."""
    if os.geteuid() != 0:
        raise NotPossible("network namespaces need root (try sudo)")
    for tool in ("ip", "tc", "unshare"):
        if not shutil.which(tool):
            raise NotPossible(f"there is no '{tool}' in PATH; it is of iproute2 or util-linux")
    name = f"convoy-trial-{os.getpid()}"
    trials = ["ip netns add NAME",
              "ip netns exec NAME unshare --uts hostname trial",
              "ip -n NAME link add bridge0 type bridge",
              "ip -n NAME link add eth0 type veth peer name port0",
              "tc -n NAME qdisc add dev eth0 root tbf rate 1mbit burst 10000 limit 10000"]
    try:
        for trial in trials:
            call(trial.replace("NAME", name).split())
    except RuntimeError as error:
        raise NotPossible(str(error)) from None
    finally:
        subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def records():
    return pathlib.Path(os.environ.get("CONVOY_CLUSTERS", "/run/convoy-cluster"))


def all_clusters():
    folder = records()
    return [Cluster(path.name) for path in sorted(folder.iterdir())] if folder.is_dir() else []


def cpus_taken():
    """Those that the hosts of all clusters have been given."""
    taken = 0
    for cluster in all_clusters():
        try:
            taken += sum(cluster.shape().cpu)
        except (UsageError, OSError):  # it is being made, or removed
            pass
    return taken


def existing_cluster(name):
    cluster = Cluster(name)
    if not cluster.folder.is_dir():
        there = ", ".join(other.name for other in all_clusters()) or "none"
        raise UsageError(f"there is no cluster '{name}'; there are: {there}")
    return cluster


def new_cluster():
    """A name and a folder for it, locked; nothing else yet."""
    if not re.fullmatch(r"/[\w./-]+", str(records())):
        raise UsageError(f"CONVOY_CLUSTERS is '{records()}'; it must be an absolute path of letters, "
                         "digits and ./_-")
    check_machine()
    cluster = Cluster(secrets.token_hex(3))
    try:
        records().mkdir(mode=0o700, parents=True, exist_ok=True)
        cluster.folder.mkdir()
    except OSError as error:
        raise NotPossible(f"{records()}: {error.strerror}") from None
    cluster.lock()
    return cluster
