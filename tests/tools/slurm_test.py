#!/usr/bin/env python3
"""Runs deploy/slurm/downpour.sbatch, and train.sbatch beside it, with stand-ins for Slurm and for convoy.

  slurm_test.py SCRIPT
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(sys.argv.pop(1)).resolve()
PATIENCE_S = 240  # is there for hangs alone, as that of tests/base/patience.h

SRUN = r"""#!/usr/bin/env bash
# Starts the tasks, one after the other on the nodes.
while [[ $1 == --* ]]; do shift; done
pids=()
trap 'kill -USR1 "${pids[@]}" 2>/dev/null' USR1
for ((i = 0; i < SLURM_NTASKS; ++i)); do
  SLURM_PROCID=$i SLURMD_NODENAME=node$((i % 2 + 1)) "$@" &
  pids+=($!)
done
while [[ -n $(jobs -rp) ]]; do wait || true; done
"""
# As Slurm does, to every process of the step: the tasks' shells get it from srun.
SCANCEL = r"""#!/usr/bin/env bash
kill -USR1 $(cat "$HERE/pids") 2>/dev/null
exit 1
"""
SCONTROL = r"""#!/usr/bin/env bash
if [[ $1 == show ]]; then printf 'node1\nnode2\n'; else echo "$@" >>"$HERE/scontrol"; fi
"""
# Notes each start; ends as $HERE/plan-COMMAND says, a status for each start, when all six are there; then it waits.
CONVOY = r"""#!/usr/bin/env bash
command=$1
echo "$*" >>"$HERE/started"
case $command in
  certs) mkdir -p "$2"; exit 0 ;;
  train) printf 'name = "x"\nstrategy = "%s"\n' "${STRATEGY:-downpour}"; exit 0 ;;
esac
name=$command
for ((i = 2; i <= $#; ++i)); do
  if [[ ${!i} == --server ]]; then next=$((i + 1)); name=serve-${!next}; fi
  if [[ ${!i} == --name ]]; then next=$((i + 1)); name=${!next}; fi
done
end() { echo "$name" >>"$HERE/stopped"; if [[ $name == evaluator ]]; then exit 75; else exit 0; fi; }
trap end TERM
if [[ $name == evaluator ]]; then trap end USR1; fi
echo $$ >>"$HERE/pids"
count=$(grep -c . "$HERE/count-$name" 2>/dev/null || true)
echo x >>"$HERE/count-$name"
status=$(sed -n "$((${count:-0} + 1))p" "$HERE/plan-$name" 2>/dev/null)
if [[ -n $status ]]; then
  until (($(grep -c . "$HERE/pids") >= 6)); do sleep 0.05; done
  exit "$status"
fi
for ((i = 0; i < 6000; ++i)); do sleep 0.1; done
"""


# One task. Ends as the next line of $HERE/plan says.
SRUN_ONE = r"""#!/usr/bin/env bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
TRAIN = r"""#!/usr/bin/env bash
echo "$*" >>"$HERE/started"
status=$(sed -n "$(grep -c . "$HERE/started")p" "$HERE/plan" 2>/dev/null)
exit "${status:-0}"
"""


def put_programs(here, **programs):
    for name, text in programs.items():
        path = here / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


class Train(unittest.TestCase):
    def setUp(self):
        self.here = pathlib.Path(tempfile.mkdtemp(prefix="convoy-slurm-"))
        self.addCleanup(shutil.rmtree, self.here, True)
        put_programs(self.here, srun=SRUN_ONE, scontrol=SCONTROL, convoy=TRAIN, scancel=SCANCEL)

    def start(self, *arguments, **variables):
        """What convoy was started with, the job's status, and what it told scontrol."""
        environment = {
            "PATH": f"{self.here}/bin:{os.environ['PATH']}", "HERE": str(self.here),
            "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "node1"} | variables
        done = subprocess.run(["bash", SCRIPT.parent / "train.sbatch", *arguments], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE_S, check=False)
        noted = self.here / "scontrol"
        told = noted.read_text() if noted.exists() else ""
        noted.unlink(missing_ok=True)
        return (self.here / "started").read_text().splitlines()[-1], done.returncode, told

    def test_a_job_that_was_stopped_comes_back_and_goes_on(self):
        (self.here / "plan").write_text("75\n75\n0\n1\n75\n")
        words = ("mine.toml", "--set", "seed=2")
        self.assertEqual(self.start(*words), ("train mine.toml --set seed=2", 0, "requeue 7\n"))
        again = "train mine.toml --set seed=2 --resume=auto"
        self.assertEqual(self.start(*words, SLURM_RESTART_COUNT="1"), (again, 0, "requeue 7\n"))
        self.assertEqual(self.start(*words, SLURM_RESTART_COUNT="2"), (again, 0, ""))
        self.assertEqual(self.start(*words, SLURM_RESTART_COUNT="3"), (again, 1, ""))
        self.assertEqual(self.start(*words, SLURM_RESTART_COUNT="4", CONVOY_TRIES="5"), (again, 75, ""))

    def test_how_the_first_job_began_is_not_done_again(self):
        for words in (("mine.toml", "--overwrite", "-n", "1"), ("mine.toml", "--resume", "runs/a", "-n", "1"),
                      ("mine.toml", "--resume=best", "-n", "1"), ("mine.toml", "--resume", "-n", "1"),
                      ("--resume", "mine.toml", "-n", "1"), ("mine.toml", "-n", "1", "--resume")):
            self.assertEqual(self.start(*words)[0], "train " + " ".join(words))
            self.assertEqual(self.start(*words, SLURM_RESTART_COUNT="1")[0], "train mine.toml -n 1 --resume=auto")
        self.assertEqual(self.start("mine.toml", "--overwrite", SLURM_RESTART_COUNT="1", CONVOY_LAUNCH="convoy")[0],
                         "train mine.toml --resume=auto -n 1")


class Downpour(unittest.TestCase):
    def setUp(self):
        self.here = pathlib.Path(tempfile.mkdtemp(prefix="convoy-slurm-"))
        self.addCleanup(shutil.rmtree, self.here, True)
        put_programs(self.here, srun=SRUN, scontrol=SCONTROL, convoy=CONVOY, scancel=SCANCEL)
        self.variables = {
            "PATH": f"{self.here}/bin:{os.environ['PATH']}", "HERE": str(self.here),
            "SLURM_JOB_ID": "7", "SLURM_NTASKS": "6", "SLURM_JOB_NODELIST": "node[1-2]",
            "SLURM_SUBMIT_DIR": str(self.here), "SLURM_CPUS_PER_TASK": "3"}

    def plan(self, name, *statuses):
        (self.here / f"plan-{name}").write_text("".join(f"{s}\n" for s in statuses))

    def start(self, *arguments, **variables):
        return subprocess.Popen(["bash", SCRIPT, *(arguments or ("mine.toml",))],
                                env=self.variables | variables, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def finish(self, job):
        text, _ = job.communicate(timeout=PATIENCE_S)
        return job.returncode, text

    def lines(self, name):
        path = self.here / name
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, what):
        until = time.monotonic() + PATIENCE_S
        while not what():
            if time.monotonic() > until:
                self.fail("waited for too long")
            time.sleep(0.05)

    def wait_until_it_hears(self, job):
        """Until SIGUSR1 would not end the job's script."""
        def hears():
            status = pathlib.Path(f"/proc/{job.pid}/status").read_text()
            caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
            return int(caught.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1
        self.wait_for(hears)

    def test_roles_by_rank_until_the_evaluator_is_done(self):
        self.plan("evaluator", 0)
        status, text = self.finish(self.start("mine.toml", "--set", "seed=2"))
        self.assertEqual(status, 0, text)
        tls = [f"--tls-ca {self.here}/downpour-7/certs/ca.pem --tls-certificate "
               f"{self.here}/downpour-7/certs/node{n}.pem --tls-key {self.here}/downpour-7/certs/node{n}.key"
               for n in (1, 2)]
        folder = f"{self.here}/downpour-7"
        started = self.lines("started")
        self.assertEqual(started[0], f"certs {folder}/certs --hosts node1,node2")
        self.assertEqual(started[1:3], ["train mine.toml --set seed=2 --print-recipe",
                                        "train mine.toml --set seed=2 --set downpour.servers=2 "
                                        "--set downpour.replicas=2 --print-recipe"])
        self.assertEqual(sorted(started[3:]), sorted([
            f"coordinator {folder}/recipe.toml --listen node1:7401 --data {folder}/server/coordinator {tls[0]}",
            f"serve node1:7401 --server 1 --listen node2:0 --data {folder}/server/server-1 {tls[1]}",
            f"serve node1:7401 --server 2 --listen node1:0 --data {folder}/server/server-2 {tls[0]}",
            f"evaluator node1:7401 {tls[1]}",
            f"replica node1:7401 --name replica-0 {tls[0]}",
            f"replica node1:7401 --name replica-1 {tls[1]}"]))
        self.assertEqual(sorted(self.lines("stopped")),
                         ["coordinator", "replica-0", "replica-1", "serve-1", "serve-2"])
        self.assertEqual(self.lines("scontrol"), [])
        self.assertFalse((self.here / "downpour-7/server").exists())

    def test_servers_and_replicas_are_said_to_the_strategy_of_the_recipe(self):
        self.plan("evaluator", 0)
        status, text = self.finish(self.start(STRATEGY="sandblaster"))
        self.assertEqual(status, 0, text)
        self.assertIn("train mine.toml --set sandblaster.servers=2 --set sandblaster.replicas=2 --print-recipe",
                      self.lines("started"))
        status, text = self.finish(self.start(STRATEGY="sync", SLURM_JOB_ID="8"))
        self.assertEqual(status, 2, text)
        self.assertIn("the recipe's strategy is \"sync\", which has no servers: train.sbatch is for it", text)

    def test_what_dies_is_started_again(self):
        self.plan("serve-1", 137)
        self.plan("replica-1", 1, 0)
        self.plan("evaluator", 1)
        job = self.start()
        self.wait_for(lambda: [len(self.lines(f"count-{n}")) for n in ("serve-1", "replica-1", "evaluator")]
                      == [2, 2, 2])
        # The second start of the evaluator waits until it is told.
        self.wait_until_it_hears(job)
        job.send_signal(signal.SIGUSR1)
        status, text = self.finish(job)
        self.assertEqual(status, 0, text)
        self.assertEqual(self.lines("scontrol"), ["requeue 7"])
        self.assertIn("evaluator", self.lines("stopped"))
        self.assertTrue((self.here / "downpour-7/server").exists())
        self.assertIn("serve", text.replace("server-1", "serve"))

    def test_a_mistake_ends_the_job(self):
        self.plan("replica-0", 2)
        status, text = self.finish(self.start())
        self.assertEqual(status, 2, text)
        self.assertEqual(len(self.lines("count-replica-0")), 1)
        self.assertEqual(self.lines("scontrol"), [])

    def test_an_evaluator_that_fails_again_and_again_ends_the_job(self):
        self.plan("evaluator", 1, 1)
        status, text = self.finish(self.start(CONVOY_RESTARTS="1"))
        self.assertEqual(status, 1, text)

    def test_a_signal_to_all_leaves_what_serves_alive(self):
        job = self.start()
        self.wait_for(lambda: len(self.lines("pids")) == 6)
        self.wait_until_it_hears(job)
        job.send_signal(signal.SIGUSR1)
        status, text = self.finish(job)
        self.assertEqual(status, 0, text)
        self.assertEqual(self.lines("scontrol"), ["requeue 7"], text)
        for name in ("coordinator", "serve-1", "serve-2"):
            self.assertEqual(len(self.lines(f"count-{name}")), 1, text)
            self.assertIn(name, self.lines("stopped"))

    def test_how_the_job_begins(self):
        self.plan("evaluator", 0, 0, 0)
        for arguments, wanted in ((("--resume", "mine.toml"), "--resume latest"),
                                  (("mine.toml", "--resume", "step 7"), "--resume step 7"),
                                  (("--overwrite", "mine.toml"), "--overwrite")):
            for name in ("started", "pids"):
                (self.here / name).write_text("")
            status, text = self.finish(self.start(*arguments))
            self.assertEqual(status, 0, text)
            started = self.lines("started")
            self.assertIn("train mine.toml --set downpour.servers=2 --set downpour.replicas=2 "
                          "--print-recipe", started)
            told = [line.split()[0] for line in started if wanted in line]
            self.assertEqual(sorted(told), ["evaluator"] if wanted == "--overwrite" else
                             ["coordinator", "evaluator"], started)

    def test_a_job_that_is_there_goes_on_in_its_folder(self):
        self.plan("evaluator", 75, 0)
        folder = f"{self.here}/downpour-7"
        status, text = self.finish(self.start(CONVOY_TRIES="1"))
        self.assertEqual(status, 75, text)
        self.assertIn(f"submit it again with CONVOY_FOLDER={folder}", text)
        for argument in ("--overwrite", "--resume=step-7"):
            status, text = self.finish(self.start("mine.toml", argument, CONVOY_FOLDER=folder, SLURM_JOB_ID="8"))
            self.assertEqual(status, 2, text)
            self.assertIn("remove that folder", text)
        status, text = self.finish(self.start("mine.toml", "--resume", CONVOY_FOLDER=folder, SLURM_JOB_ID="8"))
        self.assertEqual(status, 0, text)

    def test_too_few_tasks(self):
        status, text = self.finish(self.start(SLURM_NTASKS="4"))
        self.assertEqual(status, 2)
        self.assertIn("no replica", text)


if __name__ == "__main__":
    unittest.main()
