#!/usr/bin/env python3
"""Tests of ledger.py: it finds a push that was lost, one that is in twice, and both at once."""

import json
import pathlib
import random
import tempfile
import unittest

import ledger

RANDOM = random.Random(5)


class Check(unittest.TestCase):
    def setUp(self):
        self.ids = [RANDOM.getrandbits(64) for _ in range(30)]
        self.done, self.unknown = self.ids[:20], self.ids[20:]

    def problems(self, *shards, done=None):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            done = self.done if done is None else done
            lines = [f"+ {i}" for i in self.ids] + [f"= {i}" for i in done] + ["+ 12"[:2]]
            (folder / "7-1.log").write_text("\n".join(lines[:25]) + "\n")
            (folder / "8-2.log").write_text("\n".join(lines[25:]))
            keys = ("count", "sum", "squares")
            (folder / "status.json").write_text(json.dumps({"shards": [
                {"shard": n, "ledger": dict(zip(keys, ledger.of_ids(ids)))}
                for n, ids in enumerate(shards)]}))
            return ledger.check(folder)[1]

    def test_all_that_is_acknowledged_and_any_of_the_others(self):
        self.assertEqual(self.problems(self.done, self.ids, self.done + self.unknown[3:7]), [])

    def test_one_is_lost(self):
        self.assertIn("shard 1 lacks 1 of 20", self.problems(self.done, self.done[1:])[0])

    def test_one_is_lost_and_an_unknown_one_in(self):
        self.assertIn("sums", self.problems(self.done[1:] + self.unknown[:1])[0])

    def test_one_is_in_twice(self):
        self.assertIn("sums", self.problems(self.done + self.done[:1])[0])
        self.assertIn("twice", self.problems(self.ids + self.done[:1])[0])
        self.assertIn("twice", self.problems(self.ids + self.unknown[:1])[0])

    def test_one_is_lost_and_another_in_twice(self):
        self.assertIn("sums", self.problems(self.done[1:] + self.done[1:2])[0])

    def test_nothing_was_written_down(self):
        self.assertIn("no push", self.problems(self.done, done=[])[0])


if __name__ == "__main__":
    unittest.main()
