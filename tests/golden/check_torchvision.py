"""Compares Convoy's ResNet-18 with torchvision's, through files, both ways.

    python3 tests/golden/check_torchvision.py build/bin/convoy RUN PICTURE...

RUN is the folder of a finished run of recipes/resnet18-imagenette.toml. Needs torch, torchvision,
safetensors and Pillow (made with 2.11, 0.26, 0.8 and 12).

1. What `convoy export` makes of the run is opened by safetensors and loaded into torchvision's ResNet-18,
   strictly: no key may be missing or left over.
2. Its class probabilities for the pictures have to be those of `convoy predict`.
3. Weights that torchvision has initialized (and statistics that are not trivial) are saved by
   safetensors, given to Convoy as model.weights, and compared in the same way.

Probabilities may differ by 1e-4: Convoy rounds resized pixels like Pillow, up to 1 of 255, and both
add up float32 in orders of their own.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file, save_file

TOLERANCE = 1e-4
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def pixels(path, size):
    """The middle of a picture whose short side is at least `size`, without resizing."""
    image = Image.open(path).convert("RGB")
    left, top = (image.width - size) // 2, (image.height - size) // 2
    image = image.crop((left, top, left + size, top + size))
    array = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float() / 255
    return (array - MEAN) / DEVIATION


def torchvision_probabilities(weights, pictures, size):
    classes = weights["fc.weight"].shape[0]
    model = torchvision.models.resnet18(num_classes=classes)
    model.load_state_dict(weights, strict=True)
    model.eval()
    with torch.no_grad():
        return model(torch.stack([pixels(p, size) for p in pictures])).softmax(1)


def convoy_probabilities(convoy, source, pictures, size, more=()):
    command = [convoy, "predict", source, *pictures, "--top", "10", "--json", "-",
               "--set", f"data.size={size}", "--set", f"data.evaluate.resize={size}", *more]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = []
    for line in text.splitlines():
        scores = {c["index"]: c["probability"] for c in json.loads(line)["classes"]}
        rows.append([scores[i] for i in range(len(scores))])
    return torch.tensor(rows)


def compare(what, ours, theirs):
    difference = (ours - theirs).abs().max().item()
    print(f"{what}: {ours.shape[0]} pictures, largest difference {difference:.2e}")
    if difference > TOLERANCE:
        sys.exit(f"{what}: more than {TOLERANCE}")


def main(convoy, run, *pictures):
    pictures = list(pictures)
    size = min(min(Image.open(p).size) for p in pictures)
    with tempfile.TemporaryDirectory() as folder:
        exported = pathlib.Path(folder, "exported.safetensors")
        subprocess.run([convoy, "export", run, exported], check=True, stdout=subprocess.DEVNULL)
        trained = load_file(exported)
    compare("trained by Convoy", convoy_probabilities(convoy, run, pictures, size),
            torchvision_probabilities(trained, pictures, size))

    torch.manual_seed(5)
    model = torchvision.models.resnet18(num_classes=10)
    model.train()
    with torch.no_grad():  # statistics of real pictures
        for _ in range(3):
            model(torch.stack([pixels(p, size) for p in pictures]))
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder, "weights.safetensors")
        save_file(model.state_dict(), weights)
        recipe = pathlib.Path(run, "recipe.toml")
        ours = convoy_probabilities(convoy, str(recipe), pictures, size,
                                    ["--set", f"model.weights={weights}"])
        compare("initialized by torchvision", ours,
                torchvision_probabilities(load_file(weights), pictures, size))


main(*sys.argv[1:])
