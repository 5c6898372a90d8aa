"""Writes local_layers.json: the layers of local networks, forward and backward.

    python3 tests/golden/make_local_layers.py      (needs numpy, for fill.py)

Outputs are plain loops over numbers, as convoy/model/layers.h states the formulas. Each number knows
what it was made of, so that gradients follow from the chain rule alone: those of the sum of outputs,
each times an element of fill("NAME.factors"), with respect to the input and the parameters. Inputs
and parameters are fill("NAME.input") and so on, of scale 1. In double.
"""

import json
import math
import pathlib

from fill import fill


class Number:
    """A value, and the numbers it was made of with its derivatives by them."""

    def __init__(self, value, parents=()):
        self.value, self.parents, self.gradient = value, parents, 0.0

    def __add__(self, other):
        return Number(self.value + value_of(other), [(self, 1.0), (other, 1.0)])

    def __sub__(self, other):
        return Number(self.value - value_of(other), [(self, 1.0), (other, -1.0)])

    def __mul__(self, other):
        return Number(self.value * value_of(other), [(self, value_of(other)), (other, self.value)])

    def __truediv__(self, other):
        a, b = self.value, value_of(other)
        return Number(a / b, [(self, 1 / b), (other, -a / (b * b))])

    def sqrt(self):
        root = math.sqrt(self.value)
        return Number(root, [(self, 0.5 / root)]) if root > 0 else Number(0.0)

    def sigmoid(self):
        s = 1 / (1 + math.exp(-self.value))
        return Number(s, [(self, s * (1 - s))])


def value_of(x):
    return x.value if isinstance(x, Number) else x


def larger(a, b):
    return a if value_of(a) > value_of(b) else b


def backward(outputs, factors):
    order, seen = [], set()

    def visit(root):
        stack = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
                continue
            if id(node) in seen or not isinstance(node, Number):
                continue
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent, _ in node.parents)

    for output, factor in zip(outputs, factors):
        visit(output)
        output.gradient += factor
    for node in reversed(order):
        for parent, derivative in node.parents:
            if isinstance(parent, Number):
                parent.gradient += derivative * node.gradient


class Array:
    """Numbers at indices, in C order."""

    def __init__(self, name, shape):
        self.shape = shape
        self.items = [Number(v) for v in fill(name, math.prod(shape)).tolist()]

    def __getitem__(self, index):
        place = 0
        for i, extent in zip(index, self.shape, strict=True):
            place = place * extent + i
        return self.items[place]


def on_image(shape, row, column):
    return 0 <= row < shape[2] and 0 <= column < shape[3]


def locally_connected(x, c):
    w, b = c["weight"], c.get("bias")
    rows, columns, maps, channels, kh, kw = w.shape
    out = []
    for n in range(x.shape[0]):
        for m in range(maps):
            for i in range(rows):
                for j in range(columns):
                    total = b[i, j, m] if b else Number(0.0)
                    for ch in range(channels):
                        for p in range(kh):
                            for q in range(kw):
                                row = i * c["stride"][0] - c["padding"][0] + p
                                column = j * c["stride"][1] - c["padding"][1] + q
                                if on_image(x.shape, row, column):
                                    total = total + w[i, j, m, ch, p, q] * x[n, ch, row, column]
                    out.append(total)
    return out, [x.shape[0], maps, rows, columns]


def l2_pool(x, c):
    samples, channels, height, width = x.shape
    rows = (height + 2 * c["padding"][0] - c["kernel"][0]) // c["stride"][0] + 1
    columns = (width + 2 * c["padding"][1] - c["kernel"][1]) // c["stride"][1] + 1
    out = []
    for n in range(samples):
        for ch in range(channels):
            for i in range(rows):
                for j in range(columns):
                    total = Number(c["epsilon"])
                    for p in range(c["kernel"][0]):
                        for q in range(c["kernel"][1]):
                            row = i * c["stride"][0] - c["padding"][0] + p
                            column = j * c["stride"][1] - c["padding"][1] + q
                            if on_image(x.shape, row, column):
                                total = total + x[n, ch, row, column] * x[n, ch, row, column]
                    out.append(total.sqrt())
    return out, [samples, channels, rows, columns]


def local_contrast_norm(x, c):
    samples, channels, height, width = x.shape
    reach = [c["window"][0] // 2, c["window"][1] // 2]

    def weight(p, q):
        if c["deviation"] == 0:
            return 1.0
        return math.exp(-(p * p + q * q) / (2 * c["deviation"]**2))

    def mean(u, n, j, k):
        total, weights = Number(0.0), 0.0
        for p in range(-reach[0], reach[0] + 1):
            for q in range(-reach[1], reach[1] + 1):
                if not on_image(x.shape, j + p, k + q):
                    continue
                weights += weight(p, q)
                for i in range(channels):
                    total = total + u(n, i, j + p, k + q) * weight(p, q)
        return total / (channels * weights)

    out = {}
    for n in range(samples):
        v, sigma = {}, {}
        for j in range(height):
            for k in range(width):
                m = mean(lambda *at: x[at], n, j, k)
                for i in range(channels):
                    v[i, j, k] = x[n, i, j, k] - m
        for j in range(height):
            for k in range(width):
                sigma[j, k] = mean(lambda _, i, r, s: v[i, r, s] * v[i, r, s], n, j, k).sqrt()
        least = Number(c["least"])
        if c["mean_as_least"]:
            total = Number(0.0)
            for s in sigma.values():
                total = total + s
            least = larger(total / len(sigma), least)
        for (i, j, k), value in v.items():
            out[n, i, j, k] = value / larger(sigma[j, k], least)
    return [out[at] for at in sorted(out)], list(x.shape)


def sigmoid(x, _):
    return [number.sigmoid() for number in x.items], list(x.shape)


def case(name, compute, shape, parameters=None, **numbers):
    x = Array(name + ".input", shape)
    arrays = {key: Array(f"{name}.{key}", extents) for key, extents in (parameters or {}).items()}
    outputs, output_shape = compute(x, {**numbers, **arrays})
    backward(outputs, fill(name + ".factors", len(outputs)).tolist())
    return {"name": name, "input": shape, "output": output_shape,
            "values": [o.value for o in outputs],
            "gradients": {key: [n.gradient for n in array.items]
                          for key, array in {"input": x, **arrays}.items()}}


norm = {"least": 0.01, "deviation": 0, "mean_as_least": False}
cases = [
    case("sigmoid", sigmoid, [2, 5]),
    case("local", locally_connected, [2, 2, 5, 6], {"weight": [3, 5, 3, 2, 3, 2], "bias": [3, 5, 3]},
         stride=[1, 1], padding=[0, 0]),
    case("local_strided", locally_connected, [3, 2, 6, 5], {"weight": [3, 3, 2, 2, 2, 3]},
         stride=[2, 2], padding=[0, 1]),
    case("l2_pool", l2_pool, [2, 2, 6, 7], kernel=[3, 2], stride=[2, 2], padding=[0, 0],
         epsilon=1e-8),
    case("l2_pool_overlapping", l2_pool, [1, 3, 5, 5], kernel=[3, 3], stride=[1, 1], padding=[1, 1],
         epsilon=0.25),
    case("norm_uniform", local_contrast_norm, [2, 2, 4, 5], **norm | {"window": [3, 3]}),
    case("norm_gaussian", local_contrast_norm, [2, 3, 4, 4], **norm | {"window": [5, 3],
                                                                       "deviation": 1.25}),
    # Most of sigma is below.
    case("norm_least", local_contrast_norm, [2, 2, 4, 4], **norm | {"window": [3, 3], "least": 0.55}),
    case("norm_mean", local_contrast_norm, [2, 2, 4, 4], **norm | {"window": [3, 3], "deviation": 1,
                                                                   "mean_as_least": True}),
]
path = pathlib.Path(__file__).parent / "local_layers.json"
path.write_text(json.dumps({"cases": cases}, indent=0) + "\n")
