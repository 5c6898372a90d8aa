#!/usr/bin/env python3
"""tools/cluster makes what it says, runs commands in it, and leaves nothing behind.

  cluster_test.py [MPI_TEST [CONVOY]]   comm_mpi_test, whose collectives are to give the right sums on
                                        three hosts; and convoy, whose benchmark is to run there

Exit status 77, with the reason, where this machine can't make a cluster. Rates are read back from the
kernel and never judged by the clock.
"""

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
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "cluster"
sys.path.insert(0, str(TOOL.parent))
sys.dont_write_bytecode = True
import cpu_shares  # noqa: E402
PROGRAMS = {}
PATIENCE_S = 600  # of every wait: they are there for hangs alone
# Clusters of this test, so that `down --all` meets no others.
RECORDS = tempfile.mkdtemp(prefix="convoy-cluster-test-")
os.environ["CONVOY_CLUSTERS"] = RECORDS
SENDER = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7000))
s.sendall(bytes(int(sys.argv[2])))
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""
RECEIVER = """
import socket
listener = socket.create_server(("", 7000))
print("ready", flush=True)
s, _ = listener.accept()
while s.recv(1 << 20): pass
"""
# Two processes that compute for a second, and for as long as it takes until their group is made to
# wait: what they used by the kernel's count, and how often it was.
BUSY = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
import cpu_shares
hierarchy = cpu_shares.find_hierarchy()
group = hierarchy.folder  # in version 1 that of this process
if hierarchy.version == 2:
    group /= open("/proc/self/cgroup").read().split("0::/")[1].strip()
def throttled():
    counts = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(counts["nr_throttled"])
def compute(until):
    while time.monotonic() < until: pass
start = time.monotonic()
for _ in range(2):
    if os.fork() == 0:
        compute(start + 1)
        while throttled() == 0 and time.monotonic() < start + 240: compute(time.monotonic() + 0.1)
        os._exit(0)
for _ in range(2): os.wait()
wall, used = time.monotonic() - start, os.times()
print(json.dumps({"host": os.uname().nodename, "group": group.name,
                  "share": (used.children_user + used.children_system) / wall,
                  "throttled": throttled()}))
"""


def tool(*arguments, **options):
    return subprocess.run([TOOL, *arguments], text=True, capture_output=True, timeout=PATIENCE_S, **options)


def namespaces():
    """Those of this test's clusters."""
    there = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    return [name for name in there if name.split("-")[1:2] and name.split("-")[1] in seen]


def groups():
    """Folders of this test's clusters in the hierarchy of the cpu controller."""
    hierarchy = cpu_shares.find_hierarchy()
    there = hierarchy.folder.glob("convoy-*") if hierarchy else []
    return [path for path in there if path.name.split("-")[1] in seen]


seen = set()  # ids of clusters


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} in {PATIENCE_S} s")
        time.sleep(0.05)


def queues(cluster, host):
    """{interface: its token bucket} as the kernel has it, with its counters."""
    shown = tool("exec", cluster, host, "--", "tc", "-s", "-j", "qdisc", "show").stdout
    return {queue["dev"]: queue for queue in json.loads(shown) if queue["kind"] == "tbf"}


class ClusterTest(unittest.TestCase):
    cpu = []  # ["--cpu", "20%"] where hosts can have shares

    def tearDown(self):
        tool("down", "--all")
        self.assert_all_gone()

    def assert_all_gone(self):
        self.assertEqual(os.listdir(RECORDS), [])
        self.assertEqual(namespaces(), [])
        self.assertEqual(groups(), [])

    def once(self, *arguments):
        done = tool(*arguments)
        seen.update(re.findall(r"cluster: ([0-9a-f]{6}):", done.stderr))
        return done

    def up(self, *arguments):
        done = tool("up", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen.add(done.stdout.strip())
        return done.stdout.strip()

    def test_sums_are_right_on_three_hosts(self):
        if "mpi_test" not in PROGRAMS:
            self.skipTest("no comm_mpi_test was given")
        done = self.once("--hosts", "3", "--rate", "1gbit", "--interfaces", "2", "--",
                         PROGRAMS["mpi_test"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("[  PASSED  ]"), 3, done.stdout)
        self.assert_all_gone()

    def test_the_benchmark_runs(self):
        if "convoy" not in PROGRAMS:
            self.skipTest("no convoy program was given")
        done = self.once("--hosts", "2", "--rate", "1gbit", "--", PROGRAMS["convoy"], "bench",
                         "allreduce", "--sizes", "64KiB", "--algorithms", "ring-rsag,mpi",
                         "--repetitions", "5", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["hosts"] for row in rows], [2, 2])

    def test_programs_at_the_switch_start_jobs_on_hosts(self):
        if "convoy" not in PROGRAMS:
            self.skipTest("no convoy program was given")
        cluster = self.up("--hosts", "3", "--rate", "1gbit", *self.cpu)
        done = tool("exec", cluster, "switch", "--", PROGRAMS["convoy"], "run", "--hosts", "h2:2,h0", "--",
                    "hostname")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertEqual(sorted(done.stdout.splitlines()), ["h0", "h2", "h2"])

    def test_hybrid_parallelism_between_hosts_is_that_of_one_process(self):
        if "convoy" not in PROGRAMS:
            self.skipTest("no convoy program was given")
        recipe = TOOL.parents[1] / "recipes" / "lenet-mnist.toml"

        def losses(folder, *command):
            done = self.once(*command) if command[0] == "--hosts" else subprocess.run(
                command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(pathlib.Path(folder) / "metrics.jsonl", encoding="utf-8") as rows:
                rows = [json.loads(line) for line in rows]
            return [row["loss"] for row in rows if row["kind"] == "step"]

        with tempfile.TemporaryDirectory() as folder:
            def train(name, *overrides):
                words = [PROGRAMS["convoy"], "train", str(recipe)]
                for key in ("training.steps=12", "training.batch=61", "evaluation.every_epochs=0", "threads=1",
                            "output.tensorboard=false", f"output.folder={folder}/{name}", *overrides):
                    words += ["--set", key]
                return words

            one = losses(f"{folder}/one", *train("one"))
            self.assertEqual(len(one), 12)
            # Groups of two ranks on a host each, and of three on all hosts.
            for scheme, partitions, senders in (("a", 2, 0), ("bc", 3, 2)):
                name = f"{scheme}{partitions}"
                several = losses(f"{folder}/{name}", "--hosts", "3", "--rate", "1gbit", "--ranks-per-host", "2",
                                 "--", *train(name, "strategy=hybrid", f"grid.partitions={partitions}",
                                              f"hybrid.scheme={scheme}", f"hybrid.senders={senders}"))
                self.assertEqual(len(several), 12)
                for here, there in zip(one, several):
                    # float32: sums of 61 samples in another order, twelve updates in a row.
                    self.assertAlmostEqual(here, there, delta=2e-4 * abs(here))

    def test_every_host_has_its_ranks(self):
        done = self.once("--hosts", "3", "--rate", "1gbit", "--ranks-per-host", "2", "-x",
                         "CONVOY_TRIAL=here", "--", "sh", "-c", "echo $(hostname) $CONVOY_TRIAL")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"h{i} here" for i in (0, 0, 1, 1, 2, 2)])

    def test_nothing_is_left_when_the_command_fails(self):
        done = self.once("--hosts", "2", "--rate", "1gbit", "--", "sh", "-c", "exit 9")
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assert_all_gone()

    def end_with(self, number):
        """A run that the signal ends while its ranks are busy; the tool's exit status."""
        mark = os.path.join(RECORDS + "-ranks", f"{number}")
        os.makedirs(mark)
        process = subprocess.Popen([TOOL, "--hosts", "2", "--rate", "1gbit", *self.cpu, "--", "sh", "-c",
                                    f"echo $$ > {mark}/$(hostname); exec sleep 1000"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        # Each has written its number, and not only made the file.
        wait_for(lambda: sum(path.read_text().endswith("\n") for path in pathlib.Path(mark).iterdir()) == 2,
                 "ranks")
        seen.update(os.listdir(RECORDS))
        self.assertEqual(len(groups()), len(self.cpu) // 2)
        ranks = [int((pathlib.Path(mark) / host).read_text()) for host in ("h0", "h1")]
        process.send_signal(number)
        status = process.wait(PATIENCE_S)
        # After SIGKILL the cluster goes when the tool is gone already.
        wait_for(lambda: not os.listdir(RECORDS), "end of the cluster")
        self.assert_all_gone()
        for rank in ranks:
            self.assertFalse(os.path.exists(f"/proc/{rank}/ns/net"), f"rank {rank} lives")
        return status

    def test_nothing_is_left_after_signals(self):
        self.assertEqual(self.end_with(signal.SIGTERM), 128 + signal.SIGTERM)
        self.assertEqual(self.end_with(signal.SIGINT), 128 + signal.SIGINT)
        self.assertEqual(self.end_with(signal.SIGKILL), -signal.SIGKILL)

    def test_rates_are_applied_both_ways(self):
        cluster = self.up("--hosts", "2", "--rate", "40mbit", "--interfaces", "2")
        for host, interfaces in (("h0", ["eth0", "eth1"]), ("h1", ["eth0", "eth1"]),
                                 ("switch", ["h0.0", "h0.1", "h1.0", "h1.1"])):
            limits = queues(cluster, host)
            self.assertEqual(sorted(limits), interfaces)
            for queue in limits.values():
                self.assertEqual(queue["options"]["rate"], 40_000_000 // 8)
        size = 4_000_000
        receiver = subprocess.Popen([TOOL, "exec", cluster, "h1", "--", sys.executable, "-c",
                                     RECEIVER], stdout=subprocess.PIPE, text=True)
        self.assertEqual(receiver.stdout.readline(), "ready\n")
        sender = tool("exec", cluster, "h0", "--", sys.executable, "-c", SENDER, "h1", str(size))
        self.assertEqual(sender.returncode, 0, sender.stderr)
        self.assertEqual(receiver.wait(PATIENCE_S), 0)
        receiver.stdout.close()
        # It went through the limits on its way, had to wait there, and nothing was lost.
        for queue in (queues(cluster, "h0")["eth0"], queues(cluster, "switch")["h1.0"]):
            self.assertGreater(queue["bytes"], size)
            self.assertEqual(queue["drops"], 0)
        self.assertGreater(queues(cluster, "h0")["eth0"]["overlimits"], 0)
        self.assertLess(queues(cluster, "h0")["eth1"]["bytes"], size // 10)

    def test_a_tree_has_tapered_uplinks(self):
        cluster = self.up("--hosts", "5", "--rate", "30mbit", "--tree", "2", "--taper", "4")
        limits = queues(cluster, "switch")
        rates = {port: queue["options"]["rate"] * 8 for port, queue in limits.items()}
        expected = {f"h{i}.0": 30_000_000 for i in range(5)}
        expected |= {f"{end}{leaf}.0": 15_000_000 for end in ("up", "down") for leaf in range(3)}
        self.assertEqual(rates, expected)
        done = tool("run", cluster, "--", "sh", "-c", "ip -4 -o addr show eth0 | grep -c 10.77.0")
        self.assertEqual(done.stdout, "1\n" * 5, done.stderr)
        crossing = queues(cluster, "switch")["up2.0"]["bytes"]
        self.assertGreater(crossing, 0)  # h4 answered mpirun through it

    def test_leftovers_are_removed_and_clusters_in_use_are_not(self):
        left = self.up("--hosts", "2", "--rate", "1gbit")
        used = self.up("--hosts", "2", "--rate", "1gbit")
        self.assertNotEqual(left, used)
        busy = subprocess.Popen([TOOL, "exec", used, "h0", "--", "sh", "-c", "echo on; sleep 1000"],
                                stdout=subprocess.PIPE, text=True)
        self.assertEqual(busy.stdout.readline(), "on\n")
        shown = tool("list").stdout
        self.assertIn(f"{left}  2 hosts, 1000 Mbit/s, nothing runs", shown)
        self.assertIn(f"{used}  2 hosts, 1000 Mbit/s, in use", shown)
        done = tool("down", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(RECORDS), [used])
        self.assertEqual(tool("down", used).returncode, 0)
        self.assertNotEqual(busy.wait(PATIENCE_S), 0)
        busy.stdout.close()
        self.assert_all_gone()

    def test_hosts_have_their_share_of_a_cpu(self):
        if not self.cpu:
            self.skipTest("not run: " + PROGRAMS["no_cpu"])
        cluster = self.up("--hosts", "2", "--rate", "1gbit", "--cpu", "10%,20%")
        self.assertIn(f"{cluster}  2 hosts, 1000 Mbit/s, 10%,20% of a CPU", tool("list").stdout)
        busy = [sys.executable, "-c", BUSY, str(TOOL.parent)]
        everywhere = tool("run", cluster, "--", *busy)
        alone = tool("exec", cluster, "h1", "--", *busy)
        rows = [json.loads(line) for line in everywhere.stdout.splitlines() + [alone.stdout]]
        self.assertEqual(sorted(row["host"] for row in rows), ["h0", "h1", "h1"],
                         everywhere.stderr + alone.stderr)
        for row in rows:
            self.assertEqual(row["group"], row["host"])
            # Two processes on a busy machine may get less than their share, but not more; and it is
            # the share that held them back.
            self.assertLess(row["share"], 0.13 if row["host"] == "h0" else 0.25, rows)
            self.assertGreater(row["throttled"], 0, rows)
        # mpirun, at the switch, is not limited.
        own = tool("exec", cluster, "switch", "--", "cat", "/proc/self/cgroup").stdout
        self.assertNotIn("convoy", own)

    def test_shares_have_to_fit_the_machine(self):
        if not self.cpu:
            self.skipTest("not run: " + PROGRAMS["no_cpu"])
        cpus = len(os.sched_getaffinity(0))
        hosts = 2 * cpus
        self.up("--hosts", str(hosts), "--rate", "1gbit", "--cpu", "40%")
        for arguments, status, expected in [
                (["--hosts", "1", "--cpu", f"{cpus * 20}%"], 0, ""),
                (["--hosts", "2", "--cpu", f"{cpus * 10 + 1}%"], 2,
                 f"--cpu {cpus * 10 + 1}% for 2 hosts is {cpus * 0.2 + 0.02:g} CPUs, and other "
                 f"clusters have {hosts * 0.4:g}; this machine has {cpus}: at most {cpus * 10}% each\n")]:
            done = self.once(*arguments, "--rate", "1gbit", "--", "true")
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(expected, done.stderr)

    def test_it_says_why_there_are_no_shares(self):
        if not self.cpu:
            self.skipTest("not run: " + PROGRAMS["no_cpu"])
        hierarchy = cpu_shares.find_hierarchy()
        mount = next(path for path in [hierarchy.folder, *hierarchy.folder.parents]
                     if path.is_mount())
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", f'mount -o remount,ro,bind {mount} && exec "$0" "$@"',
             TOOL, "--hosts", "1", "--rate", "1gbit", "--cpu", "20%", "--", "true"],
            text=True, capture_output=True)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertRegex(done.stderr, "^cluster: not run: --cpu needs cgroups that can be written: "
                                      ".*/convoy-.*: Read-only file system\n$")

    def test_it_says_why_it_can_not_run(self):
        bare = ["setpriv", "--bounding-set", "-sys_admin,-net_admin"]
        shape = ["--hosts", "2", "--rate", "1gbit", "--", "true"]
        done = subprocess.run([*bare, TOOL, *shape], text=True, capture_output=True)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertRegex(done.stderr, "^cluster: not run: ip netns add .*: .*\n$")
        with tempfile.TemporaryDirectory() as folder:  # which a user without rights can read
            os.chmod(folder, 0o755)
            for file in ("cluster", "emulated_cluster.py", "cluster_errors.py", "cpu_shares.py"):
                shutil.copy(TOOL.parent / file, folder)
            done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups",
                                   "/usr/bin/python3", f"{folder}/cluster", *shape],
                                  text=True, capture_output=True)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertEqual(done.stderr, "cluster: not run: network namespaces need root (try sudo)\n")

    def test_mistakes_are_explained(self):
        for arguments, expected in [
                (["--hosts", "2", "--rate", "200", "--", "true"], "write 200mbit or 1gbit"),
                (["--hosts", "2", "--", "true"], "required: --rate"),
                (["--hosts", "0", "--rate", "1gbit", "--", "true"], "no number from 1 to 250"),
                (["--hosts", "2", "--rate", "1gbit"], "write it after --"),
                (["--hosts", "4", "--rate", "1gbit", "--tree", "4", "--", "true"], "less than --hosts"),
                (["--hosts", "4", "--rate", "1gbit", "--taper", "4", "--", "true"], "add --tree"),
                (["--hosts", "4", "--rate", "1gbit", "--cpu", "20", "--", "true"], "write 20% or 150%"),
                (["--hosts", "4", "--rate", "1gbit", "--cpu", "0.9%", "--", "true"], "at least 1%"),
                (["--hosts", "2", "--rate", "1gbit", "--cpu", "20%,", "--", "true"], "'' is no share"),
                (["--hosts", "2", "--rate", "1gbit", "--cpu", "20%,nan%", "--", "true"], "'nan%' is no share"),
                (["--hosts", "3", "--rate", "1gbit", "--cpu", "40%,20%", "--", "true"],
                 "--cpu has 2 shares for 3 hosts; give one for each, or one for all"),
                (["--hosts", "4", "--rate", "1gbit", "--cpu", "90000%", "--", "true"],
                 "for 4 hosts is 3600 CPUs; this machine has"),
                (["run", "nosuch", "--", "true"], "no cluster 'nosuch'; there are: none"),
                (["down"], "either ids or --all")]:
            done = tool(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


def main(arguments):
    PROGRAMS.update(zip(("mpi_test", "convoy"), arguments))
    trial = tool("--hosts", "1", "--rate", "1gbit", "--", "true")
    if trial.returncode == 77:
        print(trial.stderr, end="")
        return 77
    trial = tool("--hosts", "1", "--rate", "1gbit", "--cpu", "20%", "--", "true")
    if trial.returncode == 77:
        PROGRAMS["no_cpu"] = trial.stderr.strip()
    else:
        ClusterTest.cpu = ["--cpu", "20%"]
    try:
        return 0 if unittest.main(argv=[sys.argv[0]], exit=False, verbosity=2).result.wasSuccessful() \
            else 1
    finally:
        shutil.rmtree(RECORDS)
        shutil.rmtree(RECORDS + "-ranks", ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
