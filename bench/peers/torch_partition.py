"""The peer of `convoy bench partition --model speech`: a fully connected network on several processes, in PyTorch.

    mpirun -n 4 python3 torch_partition.py --plan pairs --batch 128

The speech network of Dean et al. 2012 (440 inputs, four layers of 2560 sigmoid units, softmax over 8192
states) as DTensors on gloo (tensor parallelism): every rank has some units of every layer. Plans: `units`,
all layers by output units, whose activations are gathered; `pairs`, layers by output and by input units in
turns, whose sums are added up. The loss is computed on divided scores (loss_parallel). Every rank has all
samples. Rank 0 prints one line of JSON: the median seconds of a training step over all ranks' slowest, and
of a forward pass. MASTER_ADDR (default: 127.0.0.1) is where rank 0 is. Needs torch; ranks and their number
are those of Open MPI, Slurm or torchrun.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module


def from_environment(*names):
    for name in names:
        if name in os.environ:
            return int(os.environ[name])
    raise SystemExit("start it with mpirun, srun or torchrun")


def network(hidden, classes):
    sizes = [440, hidden, hidden, hidden, hidden]
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.Sigmoid()]
    return nn.Sequential(*layers, nn.Linear(hidden, classes))


def divided(model, world, how):
    mesh = init_device_mesh("cpu", (world,))
    linear = [name for name, module in model.named_children() if isinstance(module, nn.Linear)]
    plan = {}
    for i, name in enumerate(linear):
        if name == linear[-1]:
            plan[name] = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
        elif how == "units":
            plan[name] = ColwiseParallel(output_layouts=Replicate())
        else:
            plan[name] = ColwiseParallel() if i % 2 == 0 else RowwiseParallel()
    return parallelize_module(model, mesh, plan)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", choices=("units", "pairs"), default="pairs")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=2560)
    parser.add_argument("--classes", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()

    rank = from_environment("OMPI_COMM_WORLD_RANK", "RANK", "SLURM_PROCID")
    world = from_environment("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS")
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = os.environ.get("MASTER_PORT", "29556")
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=rank, world_size=world)
    torch.manual_seed(1)
    model = network(options.hidden, options.classes)
    if world > 1:
        model = divided(model, world, options.plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4)
    inputs = torch.randn(options.batch, 440)
    labels = torch.randint(options.classes, (options.batch,))

    def train():
        optimizer.zero_grad()
        if world == 1:
            nn.functional.cross_entropy(model(inputs), labels).backward()
        else:
            with loss_parallel():
                nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    def infer():
        with torch.no_grad():
            model(inputs)

    def measure(work):
        work()  # allocates
        seconds = []
        for _ in range(options.steps):
            dist.barrier()
            start = time.monotonic()
            work()
            slowest = torch.tensor(time.monotonic() - start)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            seconds.append(slowest.item())
        return statistics.median(seconds)

    trained, inferred = measure(train), measure(infer)
    if rank == 0:
        print(json.dumps({"plan": options.plan, "ranks": world, "batch": options.batch, "steps": options.steps,
                          "train_s": trained, "infer_s": inferred}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
