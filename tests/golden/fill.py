"""Values that Python and C++ compute alike, so that no weights have to be committed.

The twin of fill.h: change both or neither. Element i (in row-major order, whatever the memory
layout) of the array called `name` is scale * (2 k / 2^24 - 1) + offset, computed in double, where k
are the upper 24 bits of SplitMix64's output for the counter FNV-1a-64(name) + i.
"""

import numpy as np


def _fnv1a64(name: str) -> int:
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def fill(name: str, count: int, scale: float = 1.0, offset: float = 0.0) -> np.ndarray:
    with np.errstate(over="ignore"):
        z = np.arange(count, dtype=np.uint64) + np.uint64(_fnv1a64(name))
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    k = (z >> np.uint64(40)).astype(np.float64)
    return scale * (2.0 * k / 16777216.0 - 1.0) + offset


def scale_and_offset(name: str, shape) -> tuple[float, float]:
    """What keeps a network's activations near 1: weights uniform with variance 2 / fan_in."""
    if name.endswith("running_var"):
        return 0.2, 1.0
    if len(shape) == 1:  # biases, and the weights and means of batch normalization
        return (0.2, 1.0) if name.endswith("weight") else (0.1, 0.0)
    fan_in = int(np.prod(shape[1:]))
    return float(np.sqrt(6.0 / fan_in)), 0.0
