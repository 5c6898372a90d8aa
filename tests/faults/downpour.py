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
import json
import random
import shutil
import sys
import time

import jobs
import ledger


class Training(jobs.Training):
    strategy = "downpour"

    def __init__(self, options, folder, number, cluster):
        self.records = folder / f"training-{number}/records"
        self.records.mkdir(parents=True)
        super().__init__(options, folder, number, cluster,
                         variables={"CONVOY_PUSH_RECORDS": str(self.records)})

    def outcome(self, status):
        problems = []
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


class Faults:
    """What is left to do, in a random order; each kind goes over the roles in turn."""

    def __init__(self, options, training, dice):
        roles = training.roles()
        kinds = {"kill": (options.kills, roles), "pause": (options.pauses, roles),
                 "full disk": (options.full_disks, [r for r in roles if r.startswith("server")]),
                 "cut": (options.cuts, list(jobs.HOSTS))}
        self.left = []
        for kind, (count, places) in kinds.items():
            self.left += [jobs.Fault(kind, places[i % len(places)]) for i in range(count)]
        dice.shuffle(self.left)

    def next(self):
        return self.left[-1] if self.left else None

    def done(self):
        self.left.pop()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs.add_options(parser, "mnist-downpour.toml")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pauses", type=int, default=10)
    parser.add_argument("--full-disks", type=int, default=0)
    parser.add_argument("--cuts", type=int, default=0)
    parser.add_argument("--between-s", type=float, default=5, help="most time between two faults")
    parser.add_argument("--disk-mib", type=int, default=1024)
    parser.add_argument("--accuracy", type=float, default=0.985)
    return jobs.parsed(parser)


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
        except jobs.Problem as problem:
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
    print(f"seed {options.seed}: {options.kills} kills, {options.pauses} pauses, {options.full_disks} full "
          f"disks, {options.cuts} cuts", flush=True)
    return jobs.main(options, trial)


if __name__ == "__main__":
    sys.exit(main())
