"""The peer of `convoy bench ddp`: one rank of the same training in PyTorch, with DistributedDataParallel on gloo.

    convoy bench ddp --python python3 --compile

starts one of these for each rank. It needs torch, and torchvision for all networks but lenet. It reads numbers of steps
from standard input, one a line; does them and answers each with one line {"seconds": s, "losses": [...], "torch":
version}, or {"error": "..."} before it ends. Weights, images, labels and optimizer are those of Convoy's ranks, which
have written them into --folder; the losses are of this rank's samples. Batches are made before the time is taken.

One rank alone trains without DistributedDataParallel, which would have nothing to add up.
"""

import argparse
import json
import math
import os
import signal
import sys
import time
import traceback

# Batches that are made at a time.
CHUNK = 64
TYPES = {"F32": "float32", "I64": "int64"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="of this rank")
    parser.add_argument("--threads", type=int, required=True)
    for side in ("--channels", "--height", "--width"):
        parser.add_argument(side, type=int, required=True)
    for number in ("--mean", "--deviation", "--lr", "--momentum", "--weight-decay"):
        parser.add_argument(number, type=float, required=True)
    parser.add_argument("--fused", action="store_true", help="PyTorch's fused SGD")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    return parser.parse_args()


def bytes_of(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return bytearray(file.read())


class Samples:
    """Those of one rank, step by step: its part of the next batch of all ranks, in the order of an epoch."""

    def __init__(self, options):
        import torch

        self.torch = torch
        self.options = options
        self.pixels = torch.frombuffer(bytes_of(options.folder, "pixels"), dtype=torch.uint8)
        self.begins = torch.frombuffer(bytes_of(options.folder, "begins"), dtype=torch.int32).tolist()
        self.labels = torch.frombuffer(bytes_of(options.folder, "labels"), dtype=torch.int32).long()
        self.steps_of_epoch = len(self.begins) // (options.batch * options.ranks)
        self.step = 0

    def next(self):
        o, torch = self.options, self.torch
        first = (self.step % self.steps_of_epoch) * o.batch * o.ranks + o.rank * o.batch
        self.step += 1
        elements = o.channels * o.height * o.width
        images = torch.stack([self.pixels[begin:begin + elements] for begin in self.begins[first:first + o.batch]])
        images = images.view(o.batch, o.channels, o.height, o.width).float()
        images = images.mul_(1 / (255 * o.deviation)).add_(-o.mean / o.deviation)
        return images.contiguous(memory_format=torch.channels_last), self.labels[first:first + o.batch].clone()


def read_safetensors(path):
    """{name: tensor}"""
    import torch

    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        kind = getattr(torch, TYPES[entry["dtype"]])
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=kind)
            continue
        tensors[name] = torch.frombuffer(data[begin:end], dtype=kind).view(entry["shape"])
    return tensors


def lenet(classes=10):
    """Convoy's, by its names (include/convoy/model/lenet.h)."""
    from collections import OrderedDict

    from torch import nn

    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(1, 20, 5), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(20, 50, 5), pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(), fc1=nn.Linear(50 * 4 * 4, 500), relu=nn.ReLU(), fc2=nn.Linear(500, classes)))


def make_model(name):
    if name == "lenet":
        return lenet()
    import torchvision

    if name == "googlenet":
        return torchvision.models.googlenet(weights=None, aux_logits=True, transform_input=False, init_weights=False)
    return torchvision.models.get_model(name, weights=None)


def load(model, weights):
    """Convoy's first weights; what counts batches need not be there."""
    found = model.load_state_dict(weights, strict=False)
    missing = [name for name in found.missing_keys if not name.endswith("num_batches_tracked")]
    if missing or found.unexpected_keys:
        raise RuntimeError(f"networks differ: Convoy has no {missing[:3]}, PyTorch no {found.unexpected_keys[:3]}")


def loss_of(criterion, outputs, labels):
    """With auxiliary classifiers, whose losses count 0.3 each (Szegedy et al. 2014)."""
    import torch

    if torch.is_tensor(outputs):
        return criterion(outputs, labels)
    loss = criterion(outputs.logits, labels)
    for scores in (outputs.aux_logits1, outputs.aux_logits2):
        loss = loss + 0.3 * criterion(scores, labels)
    return loss


def train(options, answers):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(options.threads)
    if options.ranks > 1:
        store = os.path.join(options.folder, "store-compile" if options.compile else "store")
        dist.init_process_group("gloo", init_method="file://" + store, rank=options.rank, world_size=options.ranks)
    # Of dropout alone.
    torch.manual_seed(1 + options.rank)
    model = make_model(options.model)
    load(model, read_safetensors(os.path.join(options.folder, "weights.safetensors")))
    model = model.to(memory_format=torch.channels_last).train()
    # Where it is not asked for, PyTorch takes its usual one.
    fused = {"fused": True} if options.fused else {}
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum,
                                weight_decay=options.weight_decay, **fused)
    # What torch.compile makes of a DistributedDataParallel is run as it is, without compiling the network in it.
    run = torch.compile(model) if options.compile else model
    if options.ranks > 1:
        run = DistributedDataParallel(run, gradient_as_bucket_view=True)
    criterion = torch.nn.CrossEntropyLoss()
    samples = Samples(options)

    def step(images, labels):
        optimizer.zero_grad()
        loss = loss_of(criterion, run(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    for line in sys.stdin:
        left, seconds, losses = int(line), 0.0, []
        while left > 0:
            batches = [samples.next() for _ in range(min(left, CHUNK))]
            left -= len(batches)
            if options.ranks > 1:
                dist.barrier()
            start = time.monotonic()
            losses += [step(images, labels) for images, labels in batches]
            seconds += time.monotonic() - start
        if options.compile and not torch._dynamo.utils.counters["stats"]["unique_graphs"]:
            raise RuntimeError("torch.compile has compiled nothing")
        if not all(map(math.isfinite, losses)):  # of which JSON has none
            raise RuntimeError("a loss is not a finite number")
        print(json.dumps({"seconds": seconds, "losses": losses, "torch": torch.__version__}), file=answers, flush=True)
    if options.ranks > 1:
        dist.destroy_process_group()


def main():
    options = parse()
    # At Ctrl-C the benchmark says what there is to say.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What others print is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        train(options, answers)
    except Exception as error:
        traceback.print_exc()
        text = str(error).strip().splitlines()
        print(json.dumps({"error": f"{type(error).__name__}: {text[0] if text else ''}"}), file=answers, flush=True)
        # Threads of a backend may wait for other ranks for ever.
        os._exit(1)


if __name__ == "__main__":
    main()
