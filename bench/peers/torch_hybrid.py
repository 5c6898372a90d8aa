"""The peer of `convoy bench step --strategy hybrid`: AlexNet in one tower on several processes, in PyTorch.

    mpirun -n 8 python3 torch_hybrid.py --strategy ddp     --batch-per-rank 16
    mpirun -n 8 python3 torch_hybrid.py --strategy dtensor --batch-per-rank 16

ddp: DistributedDataParallel on gloo, all layers on every rank. dtensor: the convolutions in
DistributedDataParallel, the fully connected layers as DTensors whose output units are shared out among the
ranks (tensor parallelism): every rank computes its units for the samples of all. Rank 0 prints one line of
JSON: the median seconds of a step over all ranks' slowest. MASTER_ADDR (default: 127.0.0.1) is where rank 0 is.
Needs torch; ranks and their number are those of Open MPI, Slurm or torchrun.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTHS = (64, 192, 384, 384, 256)


def from_environment(*names):
    for name in names:
        if name in os.environ:
            return int(os.environ[name])
    raise SystemExit("start it with mpirun, srun or torchrun")


def features():
    a, b, c, d, e = WIDTHS
    return nn.Sequential(
        nn.Conv2d(3, a, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(a, b, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(b, c, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(c, d, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(d, e, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Flatten())


def classifier():
    return nn.Sequential(
        nn.Dropout(), nn.Linear(WIDTHS[-1] * 36, 4096), nn.ReLU(),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


def shared_out(layers, world):
    """The layers with output units on several ranks: input [n, in] of each rank's samples, output [n, out]."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (world,))
    plan = {}
    linear = [name for name, module in layers.named_children() if isinstance(module, nn.Linear)]
    for name in linear:
        first, last = name == linear[0], name == linear[-1]
        plan[name] = ColwiseParallel(
            # Of the samples of all ranks, each has its own.
            input_layouts=Shard(0) if first else Replicate(),
            # Scores go to the rank whose samples they are of.
            output_layouts=Shard(0) if last else Replicate())
    return parallelize_module(layers, mesh, plan)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=("ddp", "dtensor"), default="ddp")
    parser.add_argument("--batch-per-rank", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()

    rank = from_environment("OMPI_COMM_WORLD_RANK", "RANK", "SLURM_PROCID")
    world = from_environment("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS")
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = os.environ.get("MASTER_PORT", "29555")
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=rank, world_size=world)
    torch.manual_seed(1)
    if options.strategy == "ddp":
        model = nn.Sequential(features(), classifier())
        parameters = list(model.parameters())
        run = DistributedDataParallel(model) if world > 1 else model
    else:
        trunk = features()
        head = shared_out(classifier(), world)
        parameters = list(trunk.parameters()) + list(head.parameters())
        trunk = DistributedDataParallel(trunk) if world > 1 else trunk

        def run(images):
            return head(trunk(images))

    # DTensors and others can't be in one fused update.
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=5e-4, foreach=False)
    # The generator of all goes on alike: what is dropped of activations that all have is the same.
    own = torch.Generator().manual_seed(2 + rank)
    images = torch.randn(options.batch_per_rank, 3, 224, 224, generator=own)
    labels = torch.randint(1000, (options.batch_per_rank,), generator=own)
    loss_function = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss = loss_function(run(images), labels)
        loss.backward()
        optimizer.step()

    step()  # allocates
    seconds = []
    for _ in range(options.steps):
        dist.barrier()
        start = time.monotonic()
        step()
        slowest = torch.tensor(time.monotonic() - start)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        seconds.append(slowest.item())
    if rank == 0:
        print(json.dumps({"strategy": options.strategy, "ranks": world, "steps": options.steps,
                          "batch_per_rank": options.batch_per_rank,
                          "parameters": sum(p.numel() for p in parameters),
                          "seconds": statistics.median(seconds)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
