"""Writes schedules.json: learning rates of PyTorch's schedules, one for each update.

    python3 tests/golden/make_schedules.py      (needs torch; made with 2.11)
"""

import json
import pathlib

import torch
from torch.optim import lr_scheduler

ONE_CYCLE = dict(pct_start=0.3, div_factor=25.0, final_div_factor=1e4)
CASES = [
    ("polynomial", 90, 0.5, dict(power=1.0)),
    ("polynomial", 90, 0.5, dict(power=2.0)),
    ("polynomial", 7, 3.0, dict(power=0.5)),
    ("one_cycle", 90, 0.5, ONE_CYCLE),
    ("one_cycle", 100, 0.1, dict(pct_start=0.25, div_factor=10.0, final_div_factor=100.0)),
    ("one_cycle", 37, 0.1, ONE_CYCLE),
]


def rates(name, steps, lr, options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    if name == "polynomial":
        schedule = lr_scheduler.PolynomialLR(optimizer, total_iters=steps, **options)
    else:
        schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps,
                                           anneal_strategy="cos", cycle_momentum=False, **options)
    result = []
    for step in range(steps):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < steps:
            schedule.step()
    return result


cases = [{"name": name, "steps": steps, "lr": lr, "options": options,
          "rates": rates(name, steps, lr, options)} for name, steps, lr, options in CASES]
path = pathlib.Path(__file__).parent / "schedules.json"
text = json.dumps({"made_with": torch.__version__.split("+")[0], "cases": cases}, indent=0)
path.write_text(text + "\n")
