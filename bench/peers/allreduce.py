"""Convoy's allreduce beside its peers on one host: Open MPI as it is and at its best, MPICH, gloo.

    python3 bench/peers/allreduce.py --convoy build/bin/convoy --ranks 2 --sizes 4 65536 16777216

Needs mpicc.openmpi and mpicc.mpich with their mpirun, and for gloo (--gloo PYTHON) a Python with torch
and numpy. Each peer is left out, with a line that says so, where it is missing. All of them are measured
in turn, --rounds times; the table shows medians and the ratio of a peer's median to Convoy's.

Open MPI at its best: every algorithm of coll_tuned (1 to 6) with segments of 0, 64 KiB and 1 MiB, the
fastest for each size.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ENVIRONMENT = dict(
    os.environ,
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMP_NUM_THREADS="1",
)
OPEN_MPI = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "vader,self"]
YIELD = ["--mca", "mpi_yield_when_idle", "1"]


def lines_of(command):
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"allreduce.py: status {done.returncode} from {' '.join(command)}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def compile_with(compiler, folder):
    if shutil.which(compiler) is None:
        print(f"allreduce.py: no {compiler} here: left out", file=sys.stderr)
        return None
    program = folder / compiler
    subprocess.run([compiler, "-O2", HERE / "allreduce.c", "-o", program], check=True)
    return str(program)


def tuned_settings(size):
    for algorithm in range(1, 7):
        for segment in (0, 65536, 1048576) if algorithm == 5 and size > 65536 else (0,):
            yield algorithm, segment


def best_tuned(program, ranks, size, crowded):
    """The fastest setting of coll_tuned for one size: (seconds, algorithm, segment)."""
    found = []
    for algorithm, segment in tuned_settings(size):
        command = OPEN_MPI + crowded + ["-n", str(ranks)]
        for name, value in (
            ("use_dynamic_rules", 1),
            ("allreduce_algorithm", algorithm),
            ("allreduce_algorithm_segmentsize", segment),
        ):
            command += ["--mca", f"coll_tuned_{name}", str(value)]
        found.append((lines_of(command + [program, str(size)])[0]["median_s"], algorithm, segment))
    return min(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--convoy", default="build/bin/convoy")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gloo", metavar="PYTHON", help="a Python that has torch and numpy")
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    options = parser.parse_args()
    ranks, sizes = str(options.ranks), [str(size) for size in options.sizes]
    crowded = YIELD if options.ranks > os.cpu_count() else []
    times = collections.defaultdict(list)  # (who, size): seconds, by round
    settings = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        openmpi = compile_with("mpicc.openmpi", folder)
        mpich = compile_with("mpicc.mpich", folder)
        for _ in range(options.rounds):
            rows = folder / "convoy.jsonl"
            convoy = [options.convoy, "bench", "allreduce", "-n", ranks, "--sizes", ",".join(sizes)]
            subprocess.run(
                convoy + ["--algorithms", "auto,mpi", "--json", rows],
                env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL,
            )
            for row in map(json.loads, rows.read_text().splitlines()):
                who = "Open MPI" if row["algorithm"] == "mpi" else "Convoy"
                times[who, row["bytes"]].append(row["median_s"])
            for size in options.sizes if openmpi else []:
                best = best_tuned(openmpi, options.ranks, size, crowded)
                times["Open MPI tuned", size].append(best[0])
                settings[size] = best[1:]
            peers = {}
            if mpich:
                peers["MPICH"] = ["mpirun.mpich", "-n", ranks, mpich]
            if options.gloo:
                peers["gloo"] = [options.gloo, str(HERE / "gloo_allreduce.py"), "--ranks", ranks]
            for who, command in peers.items():
                for row in lines_of(command + sizes):
                    times[who, row["bytes"]].append(row["median_s"])
    names = list(dict.fromkeys(who for who, _ in times))
    print("| bytes | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for size in options.sizes:
        ours = statistics.median(times["Convoy", size])
        cells = []
        for who in names:
            median = statistics.median(times[who, size])
            cell = f"{median * 1e6:.4g} us"
            if who != "Convoy":
                cell += f" ({median / ours:.2f}x)"
            if who == "Open MPI tuned":
                algorithm, segment = settings[size]
                cell += f", {algorithm}" + (f"/{segment >> 10} KiB" if segment else "")
            cells.append(cell)
        print(f"| {size} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
