#!/usr/bin/env python3
"""Both versions of cgroups as tools/cluster uses them, on folders that stand for the kernel's.

cluster_test.py holds against the kernel what the machine has of the two.
"""

import errno
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
sys.dont_write_bytecode = True
from cluster_errors import NotPossible, UsageError  # noqa: E402
from cpu_shares import CpuShares, Hierarchy, check_sum, find_hierarchy, shares_text  # noqa: E402


class CpuSharesTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.top = pathlib.Path(holder.name)

    def found(self, groups, mounts):
        """(version, folder) of the hierarchy that these lines of /proc lead to."""
        (self.top / "cgroup").write_text("\n".join(groups) + "\n")
        (self.top / "mountinfo").write_text("\n".join(mounts) + "\n")
        hierarchy = find_hierarchy(self.top)
        return hierarchy and (hierarchy.version, str(hierarchy.folder))

    def unified(self, controllers):
        (self.top / "cgroup.controllers").write_text(controllers + "\n")
        return f"35 24 0:30 / {self.top} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"

    def test_the_hierarchy_is_found(self):
        root = "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"
        version1 = "36 24 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
        # Version 1 nests in the own group; in a container that group is what is mounted.
        self.assertEqual(self.found(["4:cpu,cpuacct:/user/me", "0::/"], [root, version1]),
                         (1, "/sys/fs/cgroup/cpu,cpuacct/user/me"))
        in_container = version1.replace("0:31 /", "0:31 /docker/ab")
        self.assertEqual(self.found(["4:cpu,cpuacct:/docker/ab/in"], [root, in_container]),
                         (1, "/sys/fs/cgroup/cpu,cpuacct/in"))
        self.assertEqual(self.found(["4:cpu,cpuacct:/elsewhere"], [root, in_container]),
                         (1, "/sys/fs/cgroup/cpu,cpuacct"))
        with_space = "36 24 0:31 / /my\\040groups rw - cgroup cgroup rw,cpu"
        self.assertEqual(self.found(["4:cpu:/"], [with_space]), (1, "/my groups"))
        # Version 2 alone has the controller; or both are there, and one of them has it.
        self.assertEqual(self.found(["0::/user/me"], [root, self.unified("cpuset cpu memory")]),
                         (2, str(self.top)))
        self.assertEqual(self.found(["4:cpu,cpuacct:/", "0::/"], [self.unified("memory"), version1]),
                         (1, "/sys/fs/cgroup/cpu,cpuacct"))
        # cpuset is another controller.
        cpuset = "36 24 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset"
        self.assertIsNone(self.found(["3:cpuset:/", "0::/"], [cpuset, self.unified("cpuset")]))
        self.assertIsNone(self.found(["0::/"], [root]))

    def test_shares_are_quotas(self):
        for share, version1, version2 in [(0.2, ("10000", "2000"), "2000 10000"),
                                          (1.5, ("10000", "15000"), "15000 10000"),
                                          (0.1, ("10000", "1000"), "1000 10000"),
                                          (0.01, ("100000", "1000"), "1000 100000")]:
            self.assertEqual(tuple(Hierarchy(1, self.top).settings(share).values()), version1)
            self.assertEqual(Hierarchy(2, self.top).settings(share), {"cpu.max": version2})

    def make(self, version):
        """Groups of two hosts, in folders that hold what the kernel puts there."""
        def mkdir(path):
            os.mkdir(path)
            (path / "cgroup.subtree_control").write_text("")
            (path / "cgroup.procs").write_text("7\n8\n")

        def rmdir(path):
            if any(entry.is_dir() for entry in path.iterdir()):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            shutil.rmtree(path)

        shares = CpuShares("one", Hierarchy(version, self.top))
        with mock.patch("pathlib.Path.mkdir", mkdir), mock.patch("pathlib.Path.rmdir", rmdir):
            shares.make(["h0", "h1"], [0.5, 0.25])
            self.assertEqual(shares.processes(), [7, 8, 7, 8])
            files = {str(path.relative_to(self.top)): path.read_text()
                     for path in self.top.rglob("c*") if path.is_file()}
            shares.remove()
            shares.remove()
        self.assertFalse((self.top / "convoy-one").exists())
        return files

    def test_version_2_passes_the_controller_on(self):
        (self.top / "cgroup.subtree_control").write_text("memory pids\n")
        files = self.make(2)
        self.assertEqual(files["cgroup.subtree_control"], "+cpu")
        self.assertEqual(files["convoy-one/cgroup.subtree_control"], "+cpu")
        for host in ("h0", "h1"):
            quota = {"h0": 5000, "h1": 2500}[host]
            self.assertEqual(files[f"convoy-one/{host}/cpu.max"], f"{quota} 10000")
            self.assertEqual(files[f"convoy-one/{host}/cgroup.subtree_control"], "")
        # Where it is on already nothing is written: a container may not.
        (self.top / "cgroup.subtree_control").write_text("cpu memory pids\n")
        self.assertEqual(self.make(2)["cgroup.subtree_control"], "cpu memory pids\n")

    def test_version_1_has_quotas_of_its_own(self):
        files = self.make(1)
        self.assertEqual(files["convoy-one/h0/cpu.cfs_quota_us"], "5000")
        self.assertEqual(files["convoy-one/h1/cpu.cfs_quota_us"], "2500")
        self.assertEqual(files["convoy-one/h1/cpu.cfs_period_us"], "10000")
        self.assertEqual(files["convoy-one/cgroup.subtree_control"], "")

    def test_reasons(self):
        (self.top / "cgroup.subtree_control").mkdir()  # opens for nobody, root included
        with self.assertRaisesRegex(NotPossible, "can be written: .*/cgroup.subtree_control: "):
            CpuShares("one", Hierarchy(2, self.top)).make(["h0"], [0.25])
        self.assertEqual([path.name for path in self.top.iterdir()], ["cgroup.subtree_control"])
        with mock.patch("cpu_shares.find_hierarchy", lambda: None):
            shares = CpuShares("one")
        shares.remove()
        self.assertEqual(shares.processes(), [])
        with self.assertRaisesRegex(NotPossible, "there are none here"):
            shares.make(["h0"], [0.25])

    def test_they_are_told_as_given(self):
        self.assertEqual(shares_text([0.2, 0.2]), "20% of a CPU each")
        self.assertEqual(shares_text([0.4, 0.2]), "40%,20% of a CPU")

    def test_the_sum_is_what_the_machine_has(self):
        with mock.patch("os.sched_getaffinity", lambda pid: {0, 1, 2, 3}):
            check_sum([1.0] * 4, 0)
            check_sum([0.1] * 40, 0)
            check_sum([0.7] * 3, 1.9)
            check_sum([2.5, 1.0, 0.5], 0)
            for shares, taken, expected in [
                    ([0.81] * 5, 0, "--cpu 81% for 5 hosts is 4.05 CPUs; this machine has 4: at most "
                                    "80% each"),
                    ([0.7], 3.5, "--cpu 70% for 1 host is 0.7 CPUs, and other clusters have 3.5; "
                                 "this machine has 4: at most 50% each"),
                    ([0.7], 4, "--cpu 70% for 1 host is 0.7 CPUs, and other clusters have 4; this "
                               "machine has 4"),
                    ([2.5, 1.6], 0, "--cpu 250%,160% for 2 hosts is 4.1 CPUs; this machine has 4")]:
                with self.assertRaises(UsageError) as raised:
                    check_sum(shares, taken)
                self.assertEqual(str(raised.exception), expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
