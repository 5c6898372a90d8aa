"""Hosts of an emulated cluster with a processor share of their own: a cgroup for each host."""

import os
import pathlib
import re
import time

from cluster_errors import NotPossible, UsageError

# The kernel lets a group run for its quota in each period. A short period makes a share look like a
# slow processor rather than one that comes and goes; a quota can't be shorter than a millisecond.
PERIOD_US = 10_000
LEAST_QUOTA_US = 1_000
LEAST_SHARE = 0.01
CGROUPS = "/sys/fs/cgroup"  # under which every hierarchy is mounted
REMOVAL_S = 5  # how long a group may stay busy after its last process was killed


def percentages(shares):
    return ",".join(f"{share * 100:g}%" for share in shares)


def alike(shares):
    return len(set(shares)) == 1


def shares_text(shares):
    """Of the hosts, in their order."""
    return f"{percentages(shares[:1])} of a CPU each" if alike(shares) else \
        f"{percentages(shares)} of a CPU"


def check_sum(shares, taken):
    """That hosts find these shares of CPUs on this machine, where others have `taken` some."""
    cpus = len(os.sched_getaffinity(0))
    hosts, wanted = len(shares), sum(shares)
    if wanted + taken <= cpus * (1 + 1e-9):
        return
    text = f"--cpu {percentages(shares[:1] if alike(shares) else shares)}"
    text += f" for {hosts} host{'s' if hosts > 1 else ''} is {wanted:g} CPUs"
    if taken:
        text += f", and other clusters have {taken:g}"
    text += f"; this machine has {cpus}"
    most = int((cpus - taken) / hosts * 100 + 1e-6)
    if alike(shares) and most >= LEAST_SHARE * 100:
        text += f": at most {most}% each"
    raise UsageError(text)


class Hierarchy:
    """Where cgroups with the cpu controller are made: version 1 or 2, and the folder."""

    def __init__(self, version, folder):
        self.version = version
        self.folder = folder

    def settings(self, share):
        """{file: text} that give a group this share."""
        period = max(PERIOD_US, round(LEAST_QUOTA_US / share))
        quota = round(share * period)
        if self.version == 2:
            return {"cpu.max": f"{quota} {period}"}
        return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota)}


def find_hierarchy(proc=pathlib.Path("/proc/self")):
    """That of this process, or None. Version 1 nests in the group that the process has; version 2
    lets groups with processes have no others, so there it is the top."""
    own = {}  # controllers, comma-separated, "" for version 2: path of the group
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path
    unified = None
    for line in (proc / "mountinfo").read_text().splitlines():
        before, after = line.split(" - ", 1)
        root, mount = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), word)
                       for word in before.split()[3:5])
        kind, options = after.split()[0], after.split()[-1].split(",")
        if kind == "cgroup2":
            unified = Hierarchy(2, pathlib.Path(mount))
        elif kind == "cgroup" and "cpu" in options:
            path = next((path for names, path in own.items() if "cpu" in names.split(",")), "/")
            inside = os.path.relpath(path, root)
            folder = pathlib.Path(mount) / inside
            return Hierarchy(1, pathlib.Path(mount) if inside.startswith("..") else folder)
    if unified and "cpu" in (unified.folder / "cgroup.controllers").read_text().split():
        return unified
    return None


class CpuShares:
    """The groups of one cluster: convoy-NAME, and in it one for each host."""

    def __init__(self, name, hierarchy=None):
        self.hierarchy = hierarchy or find_hierarchy()
        self.folder = self.hierarchy.folder / f"convoy-{name}" if self.hierarchy else None

    def make(self, hosts, shares):
        """Gives each host its share of one CPU; raises NotPossible if groups can't be made here."""
        if not self.hierarchy:
            raise NotPossible("--cpu needs cgroups with the cpu controller; there are none here")
        try:
            self.enable(self.hierarchy.folder)
            self.folder.mkdir()
            self.enable(self.folder)
            for host, share in zip(hosts, shares):
                (self.folder / host).mkdir()
                for file, text in self.hierarchy.settings(share).items():
                    (self.folder / host / file).write_text(text)
        except OSError as error:
            raise NotPossible(f"--cpu needs cgroups that can be written: {error.filename}: "
                              f"{error.strerror}") from None

    def enable(self, folder):
        """The cpu controller in the groups inside this one, which only version 2 has to be told."""
        control = folder / "cgroup.subtree_control"
        if self.hierarchy.version == 2 and "cpu" not in control.read_text().split():
            try:
                control.write_text("+cpu")
            except OSError as error:  # a write's error has no file name
                raise OSError(error.errno, error.strerror, str(control)) from None

    def agent_lines(self, host, folder):
        """For the script that takes a command into a host, and does so from the switch as well: what
        comes before `ip netns exec`, and before the command after it. That one mounts another /sys,
        without cgroups, so they are carried through `folder`, in a mount namespace of their own.
        The switch, where mpirun runs, has no group."""
        folder.mkdir()
        entrance = self.folder / host / "cgroup.procs"
        return (f"test {host} = switch || echo $$ > {entrance} || exit\n"
                f"exec unshare --mount sh -c 'mount --rbind {CGROUPS} {folder} && exec \"$0\" \"$@\"' ",
                f"mount --rbind {folder} {CGROUPS} && ")

    def groups(self):
        there = self.folder is not None and self.folder.is_dir()
        return sorted(path for path in self.folder.iterdir() if path.is_dir()) if there else []

    def processes(self):
        """Ids of the processes in the groups."""
        found = []
        for group in self.groups():
            try:
                found += map(int, (group / "cgroup.procs").read_text().split())
            except OSError:  # others have just removed it
                pass
        return found

    def remove(self):
        """The groups there are, when their processes are gone; others may do the same."""
        for folder in self.groups() + ([self.folder] if self.folder else []):
            deadline = time.monotonic() + REMOVAL_S
            while folder.exists():
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    pass
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
