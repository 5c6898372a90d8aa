"""The peer of `convoy train recipes/resnet20-cifar10.toml`: the same training in Python PyTorch.

    export CONVOY_DATA=...
    python3 bench/peers/torch_train.py recipes/resnet20-cifar10.toml --epochs 3              # one process, all cores
    python3 bench/peers/torch_train.py recipes/resnet20-cifar10.toml --epochs 3 --ranks 2    # gloo, a core each

Data, augmentation, optimizer, length and schedule are those of the recipe; --epochs stops earlier, with the rates of
the whole length. The network has the recipe's parameters under Convoy's names, and the same first weights (up to the
last bit of a float32), so that both start from the same loss; the order of samples, crops and flips is PyTorch's own.
With --ranks it is DistributedDataParallel, with batch normalization of each rank's share, and of their mean statistics
in evaluations, as in Convoy. Each process keeps to its share of the cores, its --workers as well.

Pictures are decoded when they are needed (ImageFolder); --in-memory decodes all of them before training, for which
the time is printed apart. --workers processes of each rank prepare batches; 0: the training process does.

Rank 0 prints JSON lines with the keys of metrics.jsonl: `run`, then `epoch` (loss: mean over the epoch; images_per_s
and time_s: of its updates alone) and `evaluation` (top1, loss, time_s) for each epoch. Needs torch, torchvision,
numpy, and Python 3.11 or newer.
"""

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
import time
import tomllib

import numpy as np
import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset
from torchvision import transforms

# What the recipe has to say, since nothing else is written here.
EXPECTED = {"model.name": "resnet20", "data.reader": "image_folder", "data.augment.crop": "random_padded",
            "optimizer.name": "sgd", "schedule.name": "one_cycle"}
KNOWN = {"name", "seed", "model", "data", "optimizer", "schedule", "training", "evaluation", "checkpoint", "output"}


def read(path):
    with open(path, "rb") as file:
        recipe = tomllib.load(file)
    for key, wanted in EXPECTED.items():
        value = recipe
        for part in key.split("."):
            value = value.get(part, {})
        if value != wanted:
            sys.exit(f"torch_train.py: {path}: {key} has to be {wanted}")
    if not set(recipe) <= KNOWN or "options" in recipe["model"]:
        sys.exit(f"torch_train.py: {path}: knows the tables {', '.join(sorted(KNOWN))}, and no model.options")
    if set(recipe["training"]) != {"batch", "epochs"}:
        sys.exit(f"torch_train.py: {path}: training has to have batch and epochs alone")
    groups = recipe["optimizer"].get("groups", [])
    if len(groups) != 1 or set(groups[0]) != {"max_dims", "weight_decay"}:
        sys.exit(f"torch_train.py: {path}: there has to be one of optimizer.groups, of max_dims and weight_decay")
    for part in ("train", "validation"):
        folder = os.path.expandvars(recipe["data"][part]["path"])
        if "$" in folder:
            sys.exit(f"torch_train.py: {path}: a variable of {folder} is not set")
        recipe["data"][part]["path"] = os.path.join(os.path.dirname(path), folder)
    return recipe


# First weights, as convoy/model/randomness.h has them.

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def centered(seed, name, count):
    """Numbers in (-1/2, 1/2), one for each element of a parameter."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) % 2**64
    state = np.zeros(1, np.uint64)
    for number in (seed, key, 0):
        state = mixed(state + np.uint64(number) + GOLDEN)
    bits = mixed(state + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)
    return torch.from_numpy(((bits >> np.uint64(12)).astype(np.int64) - 2**51 + 0.5) * 2.0**-52)


def fill(model, seed):
    """Convolutions normal by fan-out; biases, and the layer of the scores, uniform by fan-in."""
    for prefix, layer in model.named_modules():
        if not isinstance(layer, (nn.Conv2d, nn.Linear)):
            continue
        bound = 1 / math.sqrt(layer.weight[0].numel())
        for name, tensor in layer.named_parameters():
            u = centered(seed, f"{prefix}.{name}", tensor.numel())
            if name == "weight" and isinstance(layer, nn.Conv2d):
                outputs = layer.out_channels * layer.weight[0, 0].numel()
                values = torch.special.ndtri(u + 0.5) * math.sqrt(2 / outputs)
            else:
                values = u * (2 * bound)
            with torch.no_grad():
                tensor.copy_(values.reshape(tensor.shape))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        if self.stride > 1:  # every second position, and zeros for further channels
            x = functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.more))
        return functional.relu(y + x, inplace=True)


class ResNet20(nn.Module):
    """He et al. 2015, section 4.2, with biases in convolutions and shortcuts without parameters."""

    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1), Block(16, 16, 1), Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Decoded(Dataset):
    """The pictures of a folder as bytes in memory."""

    def __init__(self, folder, transform):
        self.samples = [(transforms.functional.pil_to_tensor(image), label) for image, label in folder]
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        image, label = self.samples[i]
        return self.transform(image), label


def open_data(recipe, part, options):
    data = recipe["data"]
    steps = []
    if part == "train":
        steps.append(transforms.RandomCrop(data["size"], padding=data["augment"].get("padding", 4)))
        if data["augment"].get("flip", False):
            steps.append(transforms.RandomHorizontalFlip())
    # Of a picture of PIL and of bytes in memory the same numbers, 0 to 1.
    steps.append(transforms.ConvertImageDtype(torch.float32) if options.in_memory else transforms.ToTensor())
    steps.append(transforms.Normalize(data["mean"], data["deviation"]))
    transform = transforms.Compose(steps)
    folder = data[part]["path"]
    if options.in_memory:
        return Decoded(torchvision.datasets.ImageFolder(folder), transform)
    return torchvision.datasets.ImageFolder(folder, transform)


def rate(recipe, epochs, updates):
    """Of the update that follows so many epochs; `updates` are those of an epoch. src/train/recipe/schedule.cc,
    src/train/schedule/one_cycle.cc."""
    schedule, length = recipe["schedule"], recipe["training"]["epochs"]
    peak = recipe["optimizer"]["lr"]
    first = peak / schedule.get("div_factor", 25)
    last = first / schedule.get("final_div_factor", 1e4)
    update = 1 / (length * updates)
    top, end, part = schedule.get("pct_start", 0.3) - update, 1 - update, epochs / length

    def between(start, stop, way):
        return stop + (start - stop) * (1 + math.cos(math.pi * min(max(way, 0), 1))) / 2

    if part < top:
        return between(first, peak, part / top)
    return between(peak, last, (part - top) / (end - top)) if end > top else peak


def optimizer_of(recipe, model):
    own = recipe["optimizer"]
    group = own["groups"][0]
    small = [p for p in model.parameters() if p.dim() <= group["max_dims"]]
    large = [p for p in model.parameters() if p.dim() > group["max_dims"]]
    return torch.optim.SGD([{"params": small, "weight_decay": group["weight_decay"]}, {"params": large}],
                           lr=own["lr"], momentum=own.get("momentum", 0), nesterov=own.get("nesterov", False),
                           weight_decay=own.get("weight_decay", 0))


def summed(values, ranks):
    total = torch.tensor(values, dtype=torch.float64)
    if ranks > 1:
        dist.all_reduce(total)
    return total.tolist()


@contextlib.contextmanager
def united(model, ranks):
    """Statistics of batch normalization are the mean of all ranks' here, as in Convoy's evaluations."""
    if ranks == 1:
        yield
        return
    statistics = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    own = [buffer.clone() for buffer in statistics]
    for buffer in statistics:
        dist.all_reduce(buffer)
        buffer /= ranks
    yield
    for buffer, before in zip(statistics, own):
        buffer.copy_(before)


def evaluate(model, loader, options):
    model.eval()
    loss, right, count = 0.0, 0, 0
    with torch.no_grad(), united(model, options.ranks):
        for images, labels in loader:
            images = images.to(options.device, memory_format=options.layout)
            labels = labels.to(options.device)
            scores = model(images)
            loss += functional.cross_entropy(scores, labels, reduction="sum").item()
            right += (scores.argmax(1) == labels).sum().item()
            count += len(labels)
    model.train()
    return summed([loss, right, count], options.ranks)


def train(rank, options, recipe, meeting):
    ranks, batch, seed = options.ranks, recipe["training"]["batch"], recipe.get("seed", 1)
    if ranks > 1:
        cores = sorted(os.sched_getaffinity(0))
        share = len(cores) // ranks
        if share > 0:
            os.sched_setaffinity(0, cores[rank * share:(rank + 1) * share])
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    threads = options.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    torch.manual_seed(seed + rank)

    def say(row):
        if rank == 0:
            print(json.dumps(row), flush=True)

    begin = time.monotonic()
    training, test = (open_data(recipe, part, options) for part in ("train", "validation"))
    decode_s = time.monotonic() - begin
    samples = len(training)
    sampler = DistributedSampler(training, ranks, rank, shuffle=True, seed=seed)
    workers = {}
    if options.workers > 0:
        workers = {"num_workers": options.workers, "persistent_workers": True, "multiprocessing_context": "fork"}
    loader = DataLoader(training, batch // ranks, sampler=sampler, **workers)
    mine = Subset(test, range(rank, len(test), ranks))
    test_loader = DataLoader(mine, batch // ranks, **workers)

    classes = 1 + max(label for _, label in training.samples)
    options.layout = torch.contiguous_format if options.contiguous else torch.channels_last
    plain = ResNet20(classes)
    fill(plain, seed)
    parameters = sum(p.numel() for p in plain.parameters())
    if parameters != 270410 + 65 * (classes - 10):
        sys.exit(f"torch_train.py: the network has {parameters} parameters, other than Convoy's")
    plain.to(options.device, memory_format=options.layout)
    # Statistics stay each rank's own while it trains, as in Convoy.
    model = DistributedDataParallel(plain, broadcast_buffers=False) if ranks > 1 else plain
    optimizer = optimizer_of(recipe, plain)
    say({"kind": "run", "step": 0, "name": "PyTorch " + torch.__version__, "ranks": ranks, "threads_per_rank": threads,
         "workers": options.workers, "in_memory": options.in_memory, "parameters": parameters, "batch": batch,
         "training_samples": samples, "validation_samples": len(test), "decode_s": decode_s})

    step, elapsed = 0, 0.0
    for epoch in range(min(options.epochs or recipe["training"]["epochs"], recipe["training"]["epochs"])):
        sampler.set_epoch(epoch)
        if ranks > 1:
            dist.barrier()
        begin = time.monotonic()
        loss_sum, seen = 0.0, 0
        for i, (images, labels) in enumerate(loader):
            for group in optimizer.param_groups:
                group["lr"] = rate(recipe, epoch + i * batch / samples, len(loader))
            images = images.to(options.device, memory_format=options.layout)
            labels = labels.to(options.device)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
            seen += len(labels)
            step += 1
        if ranks > 1:
            dist.barrier()
        seconds = time.monotonic() - begin
        loss_sum, seen = summed([loss_sum, seen], ranks)
        elapsed += seconds
        say({"kind": "epoch", "step": step, "epoch": epoch + 1, "elapsed_s": elapsed, "loss": loss_sum / seen,
             "samples": int(seen), "time_s": seconds, "images_per_s": seen / seconds})
        begin = time.monotonic()
        test_loss, right, count = evaluate(plain, test_loader, options)
        seconds = time.monotonic() - begin
        elapsed += seconds
        say({"kind": "evaluation", "step": step, "epoch": epoch + 1, "elapsed_s": elapsed, "samples": int(count),
             "top1": right / count, "loss": test_loss / count, "time_s": seconds})
    if ranks > 1:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--epochs", type=int, default=0, help="to stop after; 0: the recipe's")
    parser.add_argument("--ranks", type=int, default=1, help="processes (1)")
    parser.add_argument("--threads", type=int, default=0, help="that each computes with; 0: its cores")
    parser.add_argument("--workers", type=int, default=1, help="processes of each rank that prepare batches (1)")
    parser.add_argument("--in-memory", action="store_true", help="decode all pictures before training")
    parser.add_argument("--contiguous", action="store_true", help="not channels-last")
    parser.add_argument("--device", default="cpu", help="with one process (cpu)")
    options = parser.parse_args()
    recipe = read(options.recipe)
    if options.ranks < 1 or recipe["training"]["batch"] % options.ranks != 0:
        parser.error("--ranks: has to divide the batch")
    if options.ranks > 1 and options.device != "cpu":
        parser.error("--device: with one process alone")
    if options.ranks == 1:
        train(0, options, recipe, None)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (options, recipe, os.path.join(folder, "meeting")), options.ranks)


if __name__ == "__main__":
    main()
