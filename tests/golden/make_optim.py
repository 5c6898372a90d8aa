"""Writes optim.json: what torch.optim does to 37 weights in 5 steps, for several settings.

    python3 tests/golden/make_optim.py      (needs torch; made with 2.11)

Weights are fill("weights"), the gradient of step t is fill("gradient t"); see fill.py.
"""

import json
import pathlib

import torch

from fill import fill

COUNT = 37  # odd: a vector loop's remainder is covered, too
STEPS = 5
CASES = [
    ("sgd", torch.optim.SGD, dict(lr=0.1)),
    ("sgd", torch.optim.SGD, dict(lr=0.1, weight_decay=0.01)),
    ("sgd", torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
    ("sgd", torch.optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)),
    ("sgd", torch.optim.SGD, dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    ("adam", torch.optim.Adam, dict(lr=0.02)),
    ("adam", torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.05)),
    ("adam", torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), amsgrad=True)),
    ("adamw", torch.optim.AdamW, dict(lr=0.02)),
    ("adamw", torch.optim.AdamW, dict(lr=0.02, weight_decay=0.2, amsgrad=True)),
    ("adagrad", torch.optim.Adagrad, dict(lr=0.1)),
    ("adagrad", torch.optim.Adagrad,
     dict(lr=0.1, lr_decay=0.2, weight_decay=0.05, initial_accumulator_value=0.1, eps=1e-4)),
]


def run(optimizer_type, options, dtype):
    weights = torch.tensor(fill("weights", COUNT), dtype=dtype).requires_grad_()
    optimizer = optimizer_type([weights], foreach=False, **options)
    for step in range(1, STEPS + 1):
        weights.grad = torch.tensor(fill(f"gradient {step}", COUNT), dtype=dtype)
        optimizer.step()
    state = {k: v.tolist() for k, v in optimizer.state[weights].items()
             if torch.is_tensor(v) and v.numel() == COUNT}
    return {"weights": weights.tolist(), "state": state}


cases = []
for name, optimizer_type, options in CASES:
    if "betas" in options:
        options = options | {"beta1": options["betas"][0], "beta2": options["betas"][1]}
    arguments = {k: v for k, v in options.items() if k not in ("beta1", "beta2")}
    options.pop("betas", None)
    cases.append({"rule": name, "options": options, "steps": STEPS, "count": COUNT,
                  **run(optimizer_type, arguments, torch.float64)})
path = pathlib.Path(__file__).parent / "optim.json"
text = json.dumps({"made_with": torch.__version__.split("+")[0], "cases": cases}, indent=0)
path.write_text(text + "\n")
