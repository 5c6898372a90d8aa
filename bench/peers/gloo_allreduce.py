"""gloo's allreduce through torch.distributed, timed as `convoy bench allreduce` times its own.

    python3 gloo_allreduce.py --ranks 2 4 65536 16777216

Needs torch and numpy. One line of JSON for each size in bytes, as allreduce.c prints it.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing


def slowest(seconds):
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def calls_of(data, calls):
    dist.barrier()
    began = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(data)
    return slowest((time.perf_counter() - began) / calls)


def measure(size, rank, ranks):
    count = size // 4
    data = torch.arange(count, dtype=torch.float32) % 7 + rank
    dist.all_reduce(data)
    expected = torch.arange(count, dtype=torch.float32) % 7 * ranks + ranks * (ranks - 1) // 2
    if not torch.equal(data, expected):
        raise SystemExit("a sum is wrong")
    data.zero_()
    once = calls_of(data, 3)
    calls = max(1, int(0.02 / once) + 1)
    seconds = [calls_of(data, calls) for _ in range(7)]
    if rank == 0:
        print(
            json.dumps(
                {
                    "bytes": size,
                    "ranks": ranks,
                    "median_s": float(f"{statistics.median(seconds):.4g}"),
                    "spread_s": float(f"{max(seconds) - min(seconds):.3g}"),
                }
            ),
            flush=True,
        )


def run(rank, ranks, port, sizes):
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in sizes:
        measure(size, rank, ranks)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--port", type=int, default=29531)
    parser.add_argument("sizes", type=int, nargs="+")
    options = parser.parse_args()
    torch.multiprocessing.spawn(
        run, (options.ranks, options.port, options.sizes), nprocs=options.ranks
    )


if __name__ == "__main__":
    main()
