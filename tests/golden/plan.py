"""Writes plan.json: the planner's equations, worked out without their closed forms.

    python3 tests/golden/plan.py

Optima are found by trying batches (real or whole) and designs, sums of time by adding up steps, the
bound by iterating its recurrence. Plain Python.
"""

import json
import math
import pathlib


def gamma_of(machine, samples):
    return machine["gamma"] * (samples if samples > machine["knee"] else machine["knee"])


def delta_of(machine, workers):
    """Messages one after the other, each of some part of delta."""
    if workers == 1:
        return 0.0
    delta, latency = machine["delta"], machine["latency"]
    if machine["kind"] == "constant":
        return delta + latency
    if machine["kind"] == "server":
        return sum(delta + latency for _ in range(workers))
    if machine["kind"] == "ring":  # a P-th of the gradient goes around, P-1 times to sum, P-1 to spread
        return sum(delta / workers + latency for _ in range(2 * (workers - 1)))
    if machine["kind"] == "tree":
        return (delta + latency) * math.log(workers) / math.log(2)
    raise ValueError(machine["kind"])


def ideal_time(case, batch, workers):
    updates = case["n_inf"] + case["alpha"] / batch
    return updates * (gamma_of(case["machine"], batch / workers) + delta_of(case["machine"], workers))


def whole_time(case, batch, workers):
    shares = [len(range(worker, batch, workers)) for worker in range(workers)]
    slowest = max(gamma_of(case["machine"], share) for share in shares)
    return (case["n_inf"] + case["alpha"] / batch) * (slowest + delta_of(case["machine"], workers))


def minimum(function, low, high):
    """Where a function of a positive number is least: a coarse look, then ever finer ones."""
    for _ in range(40):
        ratio = (high / low) ** (1 / 60)
        points = [low * ratio ** i for i in range(61)]
        best = min(range(61), key=lambda i: function(points[i]))
        low, high = points[max(best - 1, 0)], points[min(best + 1, 60)]
    return math.sqrt(low * high)


def solved(case):
    answers = []
    for workers in case["workers"]:
        batch = minimum(lambda m: ideal_time(case, m, workers), workers, 1e9)
        whole = min(range(workers, case["largest"] + 1), key=lambda m: (whole_time(case, m, workers), m))
        answers.append({
            "workers": workers,
            "batch": batch,
            "seconds": ideal_time(case, batch, workers),
            "whole_batch": whole,
            "whole_seconds": whole_time(case, whole, workers),
            "delta": delta_of(case["machine"], workers),
            "times": [{"batch": m, "ideal": ideal_time(case, m, workers), "whole": whole_time(case, m, workers)}
                      for m in (workers, workers + 1, 2 * workers, 7 * workers + 3)],
        })
    alone = answers[0]["whole_batch"]
    for answer in answers:
        workers = answer["workers"]
        if alone >= workers:
            answer["strong"] = whole_time(case, alone, workers)
        if alone * workers <= case["largest"]:
            answer["weak"] = whole_time(case, alone * workers, workers)
    return dict(case, answers=answers)


def machine(gamma, knee, kind="constant", delta=0.0, latency=0.0):
    return {"gamma": gamma, "knee": knee, "kind": kind, "delta": delta, "latency": latency}


def case(name, n_inf, alpha, of, workers, largest=3000):
    return solved({"name": name, "n_inf": n_inf, "alpha": alpha, "machine": of, "workers": workers,
                   "largest": largest})


WORKERS = [1, 2, 3, 4, 8, 16, 64]
CASES = [
    # P < alpha delta / (gamma M_T^2 N_inf) = 500: the first branch for every P > 1
    case("first branch", 1000, 2e5, machine(1e-3, 2, delta=1e-2), WORKERS),
    # ... = 0.3125: the second branch
    case("second branch", 1000, 2e5, machine(1e-3, 16, delta=4e-4), WORKERS),
    # ... = 8: from one to the other, and P = 8 on the boundary
    case("boundary", 500, 1e5, machine(1e-3, 5, delta=1e-3), WORKERS),
    case("server", 300, 5e4, machine(2e-3, 3, "server", 5e-3, 1e-3), WORKERS),
    case("ring", 300, 5e4, machine(2e-3, 3, "ring", 5e-2, 1e-4), WORKERS),
    case("tree", 300, 5e4, machine(2e-3, 3, "tree", 2e-2, 1e-3), WORKERS),
    case("one worker per sample", 5000, 10, machine(1e-3, 1, delta=1e-3), [1, 2, 4]),
]

# Equation 6: updates and one validation, step by step.
VALIDATION = {"gamma": 1e-3, "knee": 8, "samples": 20, "every": 7, "gamma_cv": 4e-4, "cv_samples": 5}
VALIDATION["seconds"] = sum(1e-3 * max(20, 8) for _ in range(7)) + 4e-4 * max(5, 8)


def recurrence(descent):
    """Updates until Delta <- Delta - lambda Delta^2 + lambda sigma^2 reaches the target."""
    loss, updates = descent["initial"], 0
    while loss > descent["target"]:
        loss += descent["lambda"] * (descent["sigma"] ** 2 - loss ** 2)
        updates += 1
    return updates


DESCENTS = [{"initial": 2.0, "target": 0.1, "lambda": 1e-3, "sigma": s} for s in (1e-4, 0.01, 0.05, 0.09)]
for descent in DESCENTS:
    descent["iterated"] = recurrence(descent)

# Equations 11 and 12, with prices 40 P and 0.6 / delta, and a budget of 1000.
DESIGN = {"n_inf": 800, "alpha": 4e5, "machine": machine(1e-3, 2, delta=1e-2), "per_worker": 40.0,
          "bandwidth": 0.6, "budget": 1000.0}


def built(workers):
    """The time when what workers leave of the budget goes into the network."""
    left = DESIGN["budget"] - DESIGN["per_worker"] * workers
    delta = DESIGN["bandwidth"] / left
    def time(batch):
        samples = batch / workers
        return (DESIGN["n_inf"] + DESIGN["alpha"] / batch) * (gamma_of(DESIGN["machine"], samples) + delta)
    batch = minimum(time, workers, 1e9)
    return {"workers": workers, "delta": delta, "batch": batch, "seconds": time(batch)}


DESIGN["best"] = min((built(p) for p in range(2, 25)), key=lambda d: d["seconds"])
DESIGN["balanced"] = built(minimum(lambda p: built(p)["seconds"], 2, 24.9))

if __name__ == "__main__":
    golden = {"cases": CASES, "validation": VALIDATION, "descents": DESCENTS, "design": DESIGN}
    path = pathlib.Path(__file__).with_name("plan.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")
