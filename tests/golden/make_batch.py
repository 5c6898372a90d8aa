#!/usr/bin/env python3
"""Writes batch.json: what SciPy's L-BFGS-B makes of the test problems of Moré, Garbow and Hillstrom 1981.

  make_batch.py > batch.json        needs numpy and scipy

Each problem is the sum of squares of some functions (numbers in brackets are those of the paper). Gradients are by
complex steps, so that nothing of Convoy's is in here.
"""

import json

import numpy as np
import scipy
from scipy.optimize import minimize


def bard(x):
    y = np.array([.14, .18, .22, .25, .29, .32, .35, .39, .37, .58, .73, .96, 1.34, 2.10, 4.39])
    u = np.arange(1, 16)
    v = 16 - u
    return y - (x[0] + u / (v * x[1] + np.minimum(u, v) * x[2]))


def gaussian(x):
    y = np.array([.0009, .0044, .0175, .0540, .1295, .2420, .3521, .3989, .3521, .2420, .1295, .0540, .0175, .0044,
                  .0009])
    t = (8 - np.arange(1, 16)) / 2
    return x[0] * np.exp(-x[1] * (t - x[2]) ** 2 / 2) - y


def kowalik_osborne(x):
    y = np.array([.1957, .1947, .1735, .1600, .0844, .0627, .0456, .0342, .0323, .0235, .0246])
    u = np.array([4, 2, 1, .5, .25, .167, .125, .1, .0833, .0714, .0625])
    return y - x[0] * (u ** 2 + u * x[1]) / (u ** 2 + u * x[2] + x[3])


def helical_valley(x):
    theta = np.arctan(x[1] / x[0]) / (2 * np.pi) + (0.5 if x[0].real < 0 else 0)
    return [10 * (x[2] - 10 * theta), 10 * (np.sqrt(x[0] ** 2 + x[1] ** 2) - 1), x[2]]


def brown_dennis(x):
    t = np.arange(1, 21) / 5
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


def biggs_exp6(x):
    t = np.arange(1, 14) / 10
    y = np.exp(-t) - 5 * np.exp(-10 * t) + 3 * np.exp(-4 * t)
    return x[2] * np.exp(-t * x[0]) - x[3] * np.exp(-t * x[1]) + x[5] * np.exp(-t * x[4]) - y


def box(x):
    t = np.arange(1, 11) / 10
    return np.exp(-t * x[0]) - np.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10 * t))


def watson(x):
    t = np.arange(1, 30) / 29
    j = np.arange(len(x))
    first = sum(k * x[k] * t ** (k - 1) for k in j[1:])
    second = sum(x[k] * t ** k for k in j)
    return list(first - second ** 2 - 1) + [x[0], x[1] - x[0] ** 2 - 1]


def powell_singular(x):
    return np.concatenate([[x[i] + 10 * x[i + 1], np.sqrt(5) * (x[i + 2] - x[i + 3]), (x[i + 1] - 2 * x[i + 2]) ** 2,
                            np.sqrt(10) * (x[i] - x[i + 3]) ** 2] for i in range(0, len(x), 4)])


def rosenbrock(x):
    return np.concatenate([[10 * (x[i + 1] - x[i] ** 2), 1 - x[i]] for i in range(0, len(x), 2)])


def variably_dimensioned(x):
    weighted = np.sum(np.arange(1, len(x) + 1) * (x - 1))
    return list(x - 1) + [weighted, weighted ** 2]


def trigonometric(x):
    n = len(x)
    return n - np.sum(np.cos(x)) + np.arange(1, n + 1) * (1 - np.cos(x)) - np.sin(x)


def broyden_tridiagonal(x):
    around = np.concatenate([[0], x, [0]])
    return (3 - 2 * x) * x - around[:-2] - 2 * around[2:] + 1


PROBLEMS = {
    "rosenbrock": (rosenbrock, [-1.2, 1]),  # (1)
    "freudenstein_roth": (lambda x: [-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1],
                                     -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]], [0.5, -2]),  # (2)
    "powell_badly_scaled": (lambda x: [1e4 * x[0] * x[1] - 1, np.exp(-x[0]) + np.exp(-x[1]) - 1.0001], [0, 1]),  # (3)
    "brown_badly_scaled": (lambda x: [x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2], [1, 1]),  # (4)
    "beale": (lambda x: [y - x[0] * (1 - x[1] ** i) for i, y in ((1, 1.5), (2, 2.25), (3, 2.625))], [1, 1]),  # (5)
    "jennrich_sampson": (lambda x: [2 + 2 * i - (np.exp(i * x[0]) + np.exp(i * x[1])) for i in range(1, 11)],
                         [0.3, 0.4]),  # (6)
    "helical_valley": (helical_valley, [-1, 0, 0]),  # (7)
    "bard": (bard, [1, 1, 1]),  # (8)
    "gaussian": (gaussian, [0.4, 1, 0]),  # (9)
    "box": (box, [0, 10, 20]),  # (12)
    "powell_singular": (powell_singular, [3, -1, 0, 1]),  # (13)
    "wood": (lambda x: [10 * (x[1] - x[0] ** 2), 1 - x[0], np.sqrt(90) * (x[3] - x[2] ** 2), 1 - x[2],
                        np.sqrt(10) * (x[1] + x[3] - 2), (x[1] - x[3]) / np.sqrt(10)], [-3, -1, -3, -1]),  # (14)
    "kowalik_osborne": (kowalik_osborne, [0.25, 0.39, 0.415, 0.39]),  # (15)
    "brown_dennis": (brown_dennis, [25, 5, -5, -1]),  # (16)
    "biggs_exp6": (biggs_exp6, [1, 2, 1, 1, 1, 1]),  # (18)
    "watson": (watson, [0] * 6),  # (20)
    "extended_rosenbrock": (rosenbrock, [-1.2, 1] * 50),  # (21)
    "extended_powell": (powell_singular, [3, -1, 0, 1] * 25),  # (22)
    "penalty": (lambda x: list(np.sqrt(1e-5) * (x - 1)) + [np.sum(x ** 2) - 0.25], list(range(1, 11))),  # (23)
    "variably_dimensioned": (variably_dimensioned, [1 - j / 10 for j in range(1, 11)]),  # (25)
    "trigonometric": (trigonometric, [0.1] * 10),  # (26)
    "broyden_tridiagonal": (broyden_tridiagonal, [-1] * 10),  # (30)
}


def objective(residuals):
    def evaluate(x):
        values = np.array(residuals(x.astype(complex)))
        gradient = np.empty(len(x))
        for i in range(len(x)):
            moved = x.astype(complex)
            moved[i] += 1e-200j
            slopes = np.array(residuals(moved)).imag / 1e-200
            gradient[i] = 2 * np.sum(values.real * slopes)
        return float(np.sum(values.real ** 2)), gradient
    return evaluate


def main():
    rows = []
    for name, (residuals, start) in PROBLEMS.items():
        evaluate = objective(residuals)
        start = np.array(start, dtype=float)
        loss, gradient = evaluate(start)
        found = minimize(evaluate, start, jac=True, method="L-BFGS-B",
                         options={"maxcor": 10, "gtol": 1e-5, "ftol": 0, "maxiter": 1000, "maxfun": 2000})
        rows.append({"name": name, "start": list(start), "loss": loss, "gradient": list(gradient),
                     "found": float(found.fun), "evaluations": int(found.nfev),
                     "gradient_norm": float(np.max(np.abs(found.jac)))})
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    print(f'{{"made_with": "scipy {scipy.__version__}", "problems": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()
