#!/usr/bin/env python3
"""convoy-simulate gives right sums, times that its options alone decide, and clear errors.

  simulate_test.py PROGRAM          or, where it could not be built:
  simulate_test.py --missing WHY    says so; exit status 77
"""

import json
import subprocess
import sys
import tempfile
import unittest

PATIENCE_S = 600  # for hangs alone
ALGORITHMS = ["recursive-doubling", "ring", "ring-rsag", "multicolor k=2", "multicolor k=ranks", "naive"]


def simulate(*arguments):
    return subprocess.run([PROGRAM, *arguments], text=True, capture_output=True, timeout=PATIENCE_S)


def rows(*arguments):
    done = simulate("--json", "-", *arguments)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def times(*arguments):
    return [row["time_s"] for row in rows("--ranks", "8", "--sizes", "256KiB", *arguments)]


class SimulateTest(unittest.TestCase):
    def test_all_sums_are_right(self):
        # 260 KiB: more than one segment; 9 ranks: no power of two, and one leaf is not full.
        for topology in (["fat-tree", "--leaf", "4"], ["torus"]):
            found = rows("--ranks", "9", "--sizes", "4,50,260KiB", "--algorithms",
                         ",".join(["auto", *ALGORITHMS]), "--topology", *topology)
            self.assertEqual(len(found), 3 * (2 + len(ALGORITHMS)))
            self.assertTrue(all(row["sums_checked"] for row in found), found)

    def test_rows_say_what_was_simulated(self):
        found = rows("--ranks", "8", "--sizes", "1MiB", "--algorithms", "multicolor k=ranks,ring-rsag",
                     "--rate", "10gbit", "--seed", "3", "--placement", "in-order", "--leaf", "4")
        self.assertEqual([row["algorithm"] for row in found], ["mpi", "multicolor", "ring-rsag"])
        self.assertEqual([row["colors"] for row in found], [0, 8, 0])
        bound = 2 * 2**20 * 7 / 8 / 1.25e9
        for row in found:
            self.assertEqual((row["ranks"], row["topology"], row["shape"], row["seed"], row["bytes"],
                              row["placement"]),
                             (8, "fat-tree", "2 leaves of 4 hosts, 4 spines", 3, 2**20, "in-order"))
            self.assertAlmostEqual(row["bound_s"], bound)
            self.assertAlmostEqual(row["fraction_of_bound"], bound / row["time_s"])
            self.assertAlmostEqual(row["ratio_to_mpi"], found[0]["time_s"] / row["time_s"])
            self.assertTrue(0.3 < row["fraction_of_bound"] <= 1, row)

    def test_the_seed_decides(self):
        for topology in (["fat-tree", "--leaf", "4"], ["torus"]):
            shape = ["--topology", *topology, "--algorithms", "ring-rsag,multicolor"]
            first = times(*shape, "--seed", "1")
            self.assertEqual(times(*shape, "--seed", "1"), first)
            self.assertNotEqual(times(*shape, "--seed", "2"), first)
        # Without anything at random, seeds are all the same.
        still = ["--spread", "0", "--placement", "in-order", "--algorithms", "ring-rsag"]
        self.assertEqual(times(*still, "--seed", "1"), times(*still, "--seed", "2"))

    def test_rates_latencies_and_additions_count(self):
        usual = times("--algorithms", "ring-rsag")
        for slower in (["--rate", "50gbit"], ["--latency", "10"], ["--sum-rate", "1GB"]):
            for before, after in zip(usual, times("--algorithms", "ring-rsag", *slower)):
                self.assertGreater(after, before, slower)
        for before, after in zip(usual, times("--algorithms", "ring-rsag", "--sum-rate", "0")):
            self.assertLess(after, before)

    def test_large_buffers_only_take_time(self):
        found = rows("--ranks", "8", "--sizes", "40MiB", "--algorithms", "ring-rsag segment=4MiB")
        self.assertEqual([row["sums_checked"] for row in found], [False, False])
        self.assertTrue(all(row["fraction_of_bound"] < 1 for row in found), found)

    def test_the_table_goes_with_the_rows(self):
        with tempfile.NamedTemporaryFile("r") as file:
            done = simulate("--ranks", "4", "--sizes", "4KiB", "--algorithms", "auto,mpi", "--json",
                            file.name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "")
            self.assertEqual([json.loads(line)["algorithm"] for line in file], ["mpi", "auto"])
        self.assertIn("auto: recursive-doubling", done.stdout)

    def test_mistakes_are_explained(self):
        for arguments, expected in [
                (["--ranks", "1"], "--ranks"),
                (["--topology", "ring"], "--topology"),
                (["--sizes", "many"], "many"),
                (["--sizes", "2GiB"], "above the largest, 1 GiB"),
                (["--rate", "100"], "write 25gbit or 100gbit"),
                (["--algorithms", "rng"], "did you mean 'ring'?"),
                (["--algorithms", "ring,ring"], "there twice"),
                (["--algorithms", "shared"], "can't be simulated: it needs several ranks on a host"),
                (["--topology", "torus", "--torus", "4x"], "no shape such as"),
                (["--topology", "torus", "--torus", "2x2"], "must have from 64 hosts"),
                (["--torus", "8x8"], "not of the fat tree"),
                (["--topology", "torus", "--spines", "2"], "not of the torus"),
                (["--simgrid", "no/such:1"], "no/such"),
                (["--sum-rate", "fast"], "fast"),
                (["--sped", "1"], "did you mean --seed?")]:
            done = simulate(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_help_names_the_options(self):
        done = simulate("--help")
        self.assertEqual(done.returncode, 0)
        for option in ("--ranks", "--topology", "--seed", "--algorithms", "--json", "--simgrid"):
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    if sys.argv[1] == "--missing":
        print(f"simulate: not run: {sys.argv[2]}")
        sys.exit(77)
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
