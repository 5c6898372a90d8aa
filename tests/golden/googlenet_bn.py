"""GoogLeNet-BN in plain PyTorch, as the Torch package imagenet-multiGPU had it ("googlenetbn").

Written after that network's description alone, module by module, so that nothing is shared with
Convoy's. Modules are called as Convoy's layers are.
"""

import torch
from torch import nn


class Conv(nn.Module):
    """A convolution, batch normalization and ReLU; `twice`: also a ReLU between the first two."""

    def __init__(self, inputs, outputs, size, stride=1, padding=0, twice=False):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, padding)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)
        self.twice = twice

    def forward(self, x):
        x = self.conv(x)
        return torch.relu(self.bn(torch.relu(x) if self.twice else x))


class Inception(nn.Module):
    def __init__(self, inputs, one, three, twice, pool):
        super().__init__()

        def conv(inputs, outputs, size=1):
            return Conv(inputs, outputs, size, padding=size // 2, twice=True)

        if one > 0:
            self.branch1 = conv(inputs, one)
        self.branch2 = nn.Sequential(conv(inputs, three[0]), conv(three[0], three[1], 3))
        self.branch3 = nn.Sequential(conv(inputs, twice[0]), conv(twice[0], twice[1], 3),
                                     conv(twice[1], twice[1], 3))
        kind, pooled = pool
        self.branch4 = nn.Sequential((nn.MaxPool2d if kind == "max" else nn.AvgPool2d)(3, 1, 1))
        if pooled > 0:
            self.branch4.append(conv(inputs, pooled))

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.children()], 1)


class Classifier(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.conv = Conv(inputs, 128, 1)
        self.fc1 = nn.Linear(128 * 4 * 4, 768)
        self.fc2 = nn.Linear(768, classes)

    def forward(self, x):
        x = self.conv(nn.functional.avg_pool2d(x, 5, 3, ceil_mode=True))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class GoogLeNetBN(nn.Module):
    """Gives the scores; in training also those of the auxiliary classifier."""

    def __init__(self, classes=1000):
        super().__init__()
        self.conv1 = Conv(3, 64, 7, 2, 3)
        self.conv2 = Conv(64, 64, 1)
        self.conv3 = Conv(64, 192, 3, 1, 1)
        self.inception3a = Inception(192, 64, (64, 64), (64, 96), ("avg", 32))
        self.inception3b = Inception(256, 64, (64, 96), (64, 96), ("avg", 64))
        self.inception3c = Inception(320, 0, (128, 160), (64, 96), ("max", 0))
        self.reduction3 = Conv(576, 576, 2, 2)
        self.inception4a = Inception(576, 224, (64, 96), (96, 128), ("avg", 128))
        self.inception4b = Inception(576, 192, (96, 128), (96, 128), ("avg", 128))
        self.inception4c = Inception(576, 160, (128, 160), (128, 160), ("avg", 96))
        self.inception4d = Inception(576, 96, (128, 192), (160, 192), ("avg", 96))
        self.aux = Classifier(576, classes)
        self.inception4e = Inception(576, 0, (128, 192), (192, 256), ("max", 0))
        self.reduction4 = Conv(1024, 1024, 2, 2)
        self.inception5a = Inception(1024, 352, (192, 320), (160, 224), ("avg", 128))
        self.inception5b = Inception(1024, 352, (192, 320), (192, 224), ("max", 128))
        self.fc = nn.Linear(1024, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x), 3, 2, ceil_mode=True)
        x = nn.functional.max_pool2d(self.conv3(self.conv2(x)), 3, 2, ceil_mode=True)
        x = self.reduction3(self.inception3c(self.inception3b(self.inception3a(x))))
        x = self.inception4d(self.inception4c(self.inception4b(self.inception4a(x))))
        auxiliary = self.aux(x) if self.training else None
        x = self.inception5b(self.inception5a(self.reduction4(self.inception4e(x))))
        scores = self.fc(nn.functional.avg_pool2d(x, 7, 1).flatten(1))
        return (scores, auxiliary) if self.training else scores
