"""Writes layerwise.json: what LARS and LAMB do to 37 weights in 5 steps, by the papers' equations.

    python3 tests/golden/make_layerwise.py      (needs numpy)

LARS: You, Gitman and Ginsburg 2017, Large Batch Training of Convolutional Networks, algorithm 1
with the local rate of equation (6); LAMB: You et al. 2020, Large Batch Optimization for Deep
Learning: Training BERT in 76 minutes, algorithm 2. One number at a time, with exact sums in the
norms, so that nothing is shared with what is to be checked. Weights are fill("weights"), the
gradient of step t is fill("gradient t"); see fill.py.
"""

import json
import math
import pathlib

import packages

packages.add()

from fill import fill  # noqa: E402

COUNT = 37  # odd: a vector loop's remainder is covered, too
STEPS = 5
CASES = [
    ("lars", dict(lr=10.0)),
    ("lars", dict(lr=10.0, momentum=0.9, weight_decay=0.05)),
    ("lars", dict(lr=2.0, momentum=0.9, weight_decay=0.05, trust_coefficient=0.02, eps=0.5)),
    ("lamb", dict(lr=0.02)),
    ("lamb", dict(lr=0.02, weight_decay=0.1)),
    ("lamb", dict(lr=0.1, beta1=0.8, beta2=0.95, eps=1e-3, weight_decay=0.5)),
]


def norm(values):
    return math.sqrt(math.fsum(v * v for v in values))


def lars(lr, momentum=0.0, weight_decay=0.0, trust_coefficient=0.001, eps=0.0):
    w = [float(v) for v in fill("weights", COUNT)]
    v = [0.0] * COUNT
    ratios = []
    for t in range(1, STEPS + 1):
        g = [float(x) for x in fill(f"gradient {t}", COUNT)]
        local = trust_coefficient * norm(w) / (norm(g) + weight_decay * norm(w) + eps)
        v = [momentum * v[i] + lr * local * (g[i] + weight_decay * w[i]) for i in range(COUNT)]
        w = [w[i] - v[i] for i in range(COUNT)]
        ratios.append(local)
    # Convoy's velocity has the sign with which it is added to the weights.
    return w, {"velocity": [-x for x in v]}, ratios


def lamb(lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0):
    w = [float(v) for v in fill("weights", COUNT)]
    m, v = [0.0] * COUNT, [0.0] * COUNT
    ratios = []
    for t in range(1, STEPS + 1):
        g = [float(x) for x in fill(f"gradient {t}", COUNT)]
        m = [beta1 * m[i] + (1 - beta1) * g[i] for i in range(COUNT)]
        v = [beta2 * v[i] + (1 - beta2) * g[i] ** 2 for i in range(COUNT)]
        m_hat = [x / (1 - beta1**t) for x in m]
        v_hat = [x / (1 - beta2**t) for x in v]
        r = [m_hat[i] / (math.sqrt(v_hat[i]) + eps) for i in range(COUNT)]
        u = [r[i] + weight_decay * w[i] for i in range(COUNT)]
        ratio = norm(w) / norm(u)
        w = [w[i] - lr * ratio * u[i] for i in range(COUNT)]
        ratios.append(ratio)
    return w, {"exp_avg": m, "exp_avg_sq": v}, ratios


cases = []
for name, options in CASES:
    weights, state, ratios = {"lars": lars, "lamb": lamb}[name](**options)
    cases.append({"rule": name, "options": options, "steps": STEPS, "count": COUNT,
                  "weights": weights, "state": state, "ratios": ratios})
path = pathlib.Path(__file__).parent / "layerwise.json"
path.write_text(json.dumps({"made_with": "Python", "cases": cases}, indent=0) + "\n")
