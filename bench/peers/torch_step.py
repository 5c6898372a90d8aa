"""The peer of `convoy bench ablation`: the same training step in Python PyTorch.

    python3 torch_step.py --model resnet50 --batch 16 --threads 2 [--channels-last]

Needs torch and torchvision; for torchvision's residual networks. Reads numbers of steps from
standard input, one a line; does them and answers each with one line {"seconds": s, "losses": [...]}. Seed,
weights, images, labels and optimizer are those of the C++ rows, so the losses can be compared.
"""

import argparse
import json
import sys
import time

import torch
import torchvision

LEARNING_RATE = 1e-3
SEED = 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--image-size", type=int, default=0, help="0: 224")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(SEED)
    model = torchvision.models.get_model(options.model, zero_init_residual=True)
    size = options.image_size or 224
    images = torch.randn(options.batch, 3, size, size)
    labels = torch.randint(1000, (options.batch,))
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9,
                                weight_decay=1e-4)
    loss_function = torch.nn.CrossEntropyLoss()

    for line in sys.stdin:
        losses = []
        start = time.monotonic()
        for _ in range(int(line)):
            optimizer.zero_grad()
            loss = loss_function(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        seconds = time.monotonic() - start
        print(json.dumps({"seconds": seconds, "losses": losses}), flush=True)


if __name__ == "__main__":
    main()
