"""Writes torchvision_shapes.json, and NAME.json of each network below.

    python3 tests/golden/make_models.py [NAME...]

Needs torch and torchvision (made with 2.11 and 0.26). With names those files alone.

One training step of each network on inputs and weights from fill.py: logits, cross-entropy loss,
for each parameter the sum and norm of its gradient and three of its entries, and the sum of each buffer
afterwards; then the logits in evaluation mode. In float64; a float32 run has to agree within
rounding. LeNet (Caffe's) and GoogLeNet-BN (googlenet_bn.py) are written in plain PyTorch; the others
come from torchvision. Without dropout, which is random. The losses of auxiliary classifiers count
0.3 each.
"""

import collections
import json
import pathlib
import sys

import torch
import torchvision

from fill import fill, scale_and_offset
from googlenet_bn import GoogLeNetBN

HERE = pathlib.Path(__file__).parent
VERSIONS = {"torch": torch.__version__.split("+")[0],
            "torchvision": torchvision.__version__.split("+")[0]}


def lenet():
    return torch.nn.Sequential(collections.OrderedDict(
        conv1=torch.nn.Conv2d(1, 20, 5), pool1=torch.nn.MaxPool2d(2),
        conv2=torch.nn.Conv2d(20, 50, 5), pool2=torch.nn.MaxPool2d(2),
        flatten=torch.nn.Flatten(), fc1=torch.nn.Linear(800, 500), relu=torch.nn.ReLU(),
        fc2=torch.nn.Linear(500, 10)))


def vgg(name):
    """With few hidden units, which keeps the test short; every other layer is unchanged."""
    model = getattr(torchvision.models, name)(num_classes=10, dropout=0, init_weights=False)
    model.classifier[0] = torch.nn.Linear(512 * 7 * 7, 16)
    model.classifier[3] = torch.nn.Linear(16, 16)
    model.classifier[6] = torch.nn.Linear(16, 10)
    return model


def googlenet():
    return torchvision.models.googlenet(num_classes=10, aux_logits=True, init_weights=False,
                                        dropout=0, dropout_aux=0)


def fill_network(model):
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("num_batches_tracked"):
                continue
            values = fill(name, tensor.numel(), *scale_and_offset(name, tensor.shape))
            tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))


def scores_of(outputs):
    """The scores, and those of auxiliary classifiers from the first on."""
    if isinstance(outputs, torchvision.models.GoogLeNetOutputs):
        return outputs.logits, [outputs.aux_logits1, outputs.aux_logits2]
    return (outputs[0], [outputs[1]]) if isinstance(outputs, tuple) else (outputs, [])


def golden(name, model, shape):
    model = model.double()
    fill_network(model)
    images = torch.from_numpy(fill("images", torch.Size(shape).numel())).reshape(shape)
    labels = torch.tensor([(7 * i + 3) % 10 for i in range(shape[0])])
    logits, auxiliary = scores_of(model(images))
    loss = torch.nn.functional.cross_entropy(logits, labels)
    for scores in auxiliary:
        loss = loss + 0.3 * torch.nn.functional.cross_entropy(scores, labels)
    loss.backward()
    gradients = {}
    for parameter_name, parameter in model.named_parameters():
        g = parameter.grad.flatten()
        places = [0, g.numel() // 2, g.numel() - 1]
        gradients[parameter_name] = {"sum": g.sum().item(), "norm": g.norm().item(),
                                     "entries": [g[i].item() for i in places]}
    buffers = {k: v.sum().item() for k, v in model.named_buffers()}
    model.eval()
    with torch.no_grad():
        evaluated = model(images)
    result = {"made_with": VERSIONS, "images": list(shape), "classes": 10,
              "logits": logits.flatten().tolist(), "loss": loss.item(), "gradients": gradients,
              "buffers": buffers, "evaluated_logits": evaluated.flatten().tolist()}
    if auxiliary:
        result["auxiliary_logits"] = [scores.flatten().tolist() for scores in auxiliary]
    (HERE / f"{name}.json").write_text(json.dumps(result, indent=0) + "\n")


def shapes(make):
    model = make()
    tensors = {k: list(v.shape) for k, v in model.state_dict().items()}
    return {"parameters": sum(p.numel() for p in model.parameters()),
            "order": [k for k, _ in model.named_parameters()], "shapes": tensors}


def write_shapes():
    names = ("alexnet", "resnet18", "resnet34", "resnet50", "resnet101", "vgg11", "vgg11_bn", "vgg16",
             "vgg16_bn", "mobilenet_v2", "googlenet", "vit_b_16")
    table = {name: shapes(getattr(torchvision.models, name)) for name in names}
    text = json.dumps({"made_with": VERSIONS, "models": table})
    (HERE / "torchvision_shapes.json").write_text(text + "\n")


# 10 classes and small images keep the files and the tests small; every layer but the last is
# unchanged. With AlexNet's and VGG's sizes the average pooling has something to average;
# GoogLeNet-BN is made for one size.
GOLDENS = {
    "lenet": (lenet, (4, 1, 28, 28)),
    "alexnet": (lambda: torchvision.models.alexnet(num_classes=10, dropout=0), (2, 3, 288, 288)),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=10), (3, 3, 64, 64)),
    "resnet50": (lambda: torchvision.models.resnet50(num_classes=10), (8, 3, 64, 64)),
    "vgg11": (lambda: vgg("vgg11"), (2, 3, 64, 64)),
    "vgg11_bn": (lambda: vgg("vgg11_bn"), (3, 3, 64, 64)),
    "vgg16": (lambda: vgg("vgg16"), (2, 3, 64, 64)),
    "vgg16_bn": (lambda: vgg("vgg16_bn"), (3, 3, 64, 64)),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(num_classes=10, dropout=0),
                     (4, 3, 64, 64)),
    "googlenet": (googlenet, (3, 3, 64, 64)),
    # Two layers of three heads.
    "vit": (lambda: torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=3, hidden_dim=24, mlp_dim=40,
        num_classes=10), (2, 3, 32, 32)),
    "googlenet-bn": (lambda: GoogLeNetBN(10), (2, 3, 224, 224)),
}

torch.set_num_threads(2)
wanted = sys.argv[1:] or [*GOLDENS, "torchvision_shapes"]
for wanted_name in wanted:
    if wanted_name == "torchvision_shapes":
        write_shapes()
    else:
        make, of_shape = GOLDENS[wanted_name]
        golden(wanted_name, make(), of_shape)
