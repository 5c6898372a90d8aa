"""Writes alexnet.json, lenet.json, resnet18.json, resnet50.json and torchvision_shapes.json.

    python3 tests/golden/make_models.py      (needs torch and torchvision; made with 2.11 and 0.26)

One training step of each network on inputs and weights from fill.py: logits, cross-entropy loss,
for each parameter the sum and norm of its gradient and three of its entries, and the sum of each buffer
afterwards; then the logits in evaluation mode. In float64; a float32 run has to agree within
rounding. AlexNet and the ResNets come from torchvision; LeNet is Caffe's, written here in plain
PyTorch.
"""

import collections
import json
import pathlib

import torch
import torchvision

from fill import fill, scale_and_offset

HERE = pathlib.Path(__file__).parent
VERSIONS = {"torch": torch.__version__.split("+")[0],
            "torchvision": torchvision.__version__.split("+")[0]}


def lenet():
    return torch.nn.Sequential(collections.OrderedDict(
        conv1=torch.nn.Conv2d(1, 20, 5), pool1=torch.nn.MaxPool2d(2),
        conv2=torch.nn.Conv2d(20, 50, 5), pool2=torch.nn.MaxPool2d(2),
        flatten=torch.nn.Flatten(), fc1=torch.nn.Linear(800, 500), relu=torch.nn.ReLU(),
        fc2=torch.nn.Linear(500, 10)))


def fill_network(model):
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("num_batches_tracked"):
                continue
            values = fill(name, tensor.numel(), *scale_and_offset(name, tensor.shape))
            tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))


def golden(name, model, shape):
    model = model.double()
    fill_network(model)
    images = torch.from_numpy(fill("images", torch.Size(shape).numel())).reshape(shape)
    labels = torch.tensor([(7 * i + 3) % 10 for i in range(shape[0])])
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
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
    (HERE / f"{name}.json").write_text(json.dumps(result, indent=0) + "\n")


def shapes(make):
    model = make()
    tensors = {k: list(v.shape) for k, v in model.state_dict().items()}
    return {"parameters": sum(p.numel() for p in model.parameters()),
            "order": [k for k, _ in model.named_parameters()], "shapes": tensors}


torch.set_num_threads(2)
golden("lenet", lenet(), (4, 1, 28, 28))
# Without dropout, which is random; of this size, the average pooling has something to average.
golden("alexnet", torchvision.models.alexnet(num_classes=10, dropout=0), (2, 3, 288, 288))
# 10 classes and small images keep the files and the tests small; every layer but fc is unchanged.
golden("resnet18", torchvision.models.resnet18(num_classes=10), (3, 3, 64, 64))
golden("resnet50", torchvision.models.resnet50(num_classes=10), (8, 3, 64, 64))
table = {name: shapes(getattr(torchvision.models, name))
         for name in ("alexnet", "resnet18", "resnet34", "resnet50", "resnet101")}
text = json.dumps({"made_with": VERSIONS, "models": table})
(HERE / "torchvision_shapes.json").write_text(text + "\n")
