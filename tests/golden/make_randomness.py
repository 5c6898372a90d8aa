"""Writes randomness.json: first weights and dropout's masks as convoy/model/randomness.h defines them.

    python3 tests/golden/make_randomness.py      (needs nothing but Python)

Stream (seed, a, b) starts at the state m(m(m(seed + G) + a + G) + b + G), with SplitMix64's mixer m
and its constant G; its number i is m(state + (i + 1) G). Element i of a parameter is made of number i of
the stream (seed, FNV-1a-64(name), 0): of its upper 52 bits k comes u = (k + 1/2) / 2^52 - 1/2; a uniform
element is u * 2 scale, a normal one z(u) * scale with the quantile z of u + 1/2, rounded to float32.
Unit u of a sample is kept if the upper 53 bits of number u of the stream (key, sample, 0) are at least
ceil(p 2^53), where key is number 0 of the stream (seed, FNV-1a-64(layer), step).

Single values come from Python's own NormalDist. The checksums (FNV-1a-64 of the float32's bytes) are of
values that have to be the same to the last bit everywhere, so they follow src/model/randomness/normal.cc
operation by operation; the script stops where that is far from NormalDist.
"""

import functools
import json
import math
import pathlib
import statistics
import struct

M = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
    return z ^ (z >> 31)


def stream(seed, a=0, b=0):
    state = mix((mix((mix((seed + G) & M) + a + G) & M) + b + G) & M)
    return lambda i: mix((state + (i + 1) * G) & M)


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & M
    return h


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


MIDDLE = ([2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
           4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
           1.3314166789178437745e2, 3.3871328727963666080e0],
          [5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
           2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
           4.2313330701600911252e1, 1.0])
TAIL = ([7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
         1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
         4.63033784615654529590e0, 1.42343711074968357734e0],
        [1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
         1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
         2.05319162663775882187e0, 1.0])
FAR = ([2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
        2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
        5.46378491116411436990e0, 6.65790464350110377720e0],
       [2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
        7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
        5.99832206555887937690e-1, 1.0])


def horner(coefficients, x):
    total = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


def log(x):
    m, exponent = math.frexp(x)
    m, exponent = 2 * m, exponent - 1
    if m > 1.41421356237309504880:
        m, exponent = m * 0.5, exponent + 1
    s = (m - 1) / (m + 1)
    series = [1.0 / n for n in range(21, 0, -2)]
    return 2 * s * horner(series, s * s) + exponent * 0.693147180559945309417


def upper_quantile(p):
    if p >= 0.075:
        u = 0.5 - p
        r = 0.180625 - u * u
        return u * horner(MIDDLE[0], r) / horner(MIDDLE[1], r)
    r = math.sqrt(-log(p))
    return horner(TAIL[0], r - 1.6) / horner(TAIL[1], r - 1.6) if r <= 5 else \
        horner(FAR[0], r - 5) / horner(FAR[1], r - 5)


@functools.cache
def cubic(octave, part):
    """Coefficients for [(32 + part) 2^(octave - 5), (33 + part) 2^(octave - 5)), of t in [0, 1)."""
    begin, end = (32 + part) * 2.0**(octave - 5), (33 + part) * 2.0**(octave - 5)
    third = (end - begin) / 3
    y0, y1, y2, y3 = (upper_quantile(p) for p in (begin, begin + third, end - third, end))
    return (y0, (18 * y1 - 11 * y0 - 9 * y2 + 2 * y3) / 2, (2 * y0 - 5 * y1 + 4 * y2 - y3) * 4.5,
            (3 * (y1 - y2) + y3 - y0) * 4.5)


def quantile(u):
    m, exponent = math.frexp(0.5 - abs(u))
    t = (2 * m - 1) * 32
    c = cubic(exponent - 1, int(t))
    t -= int(t)
    return math.copysign(((c[3] * t + c[2]) * t + c[1]) * t + c[0], u)


def centered(bits):
    return ((bits >> 12) - (1 << 51) + 0.5) * 2.0**-52


def element(rule, seed, name, scale, i):
    u = centered(stream(seed, fnv(name.encode()))(i))
    return f32(u * (2 * scale) if rule == "uniform" else quantile(u) * scale)


def case(rule, seed, name, scale):
    draw = stream(seed, fnv(name.encode()))
    values = [centered(draw(i)) for i in range(20000)]
    if rule == "normal":
        reference = statistics.NormalDist()
        for u in values:
            wanted = reference.inv_cdf(u + 0.5)
            assert abs(quantile(u) - wanted) <= 2e-8 * max(1, abs(wanted)), (u, quantile(u), wanted)
        first = [f32(reference.inv_cdf(u + 0.5) * scale) for u in values[:50]]
        values = [f32(quantile(u) * scale) for u in values]
    else:
        values = [f32(u * (2 * scale)) for u in values]
        first = values[:50]
    places = [1 << 20, (1 << 33) + 7]
    return {"rule": rule, "seed": seed, "name": name, "scale": scale, "first": first,
            "checksum": str(fnv(b"".join(struct.pack("<f", v) for v in values))),
            "far": [{"place": p, "value": element(rule, seed, name, scale, p)} for p in places]}


def tails():
    """Where AS 241 changes its formulas, and the smallest probability."""
    rows = []
    for p in (2.0**-53, 1e-15, 1e-10, 1e-6, 1e-3, 0.05, 0.0749, 0.0751, 0.3, 0.499):
        exact = -statistics.NormalDist().inv_cdf(p)
        assert abs(upper_quantile(p) - exact) <= 3e-15 * exact, (p, upper_quantile(p), exact)
        rows.append({"p": p, "z": exact})
    return rows


def mask(seed, step, layer, p, sample, units):
    key = stream(seed, fnv(layer.encode()), step)(0)
    draw, threshold = stream(key, sample), math.ceil(p * 2.0**53)
    return {"seed": seed, "step": step, "layer": layer, "probability": p, "sample": sample,
            "kept": "".join("1" if draw(u) >> 11 >= threshold else "0" for u in range(units))}


result = {
    "fill": [case("uniform", 1, "features.0.weight", 0.05), case("uniform", 2**64 - 1, "fc.bias", 1.0),
             case("normal", 1, "conv1.weight", 0.1), case("normal", 7, "layer4.2.conv3.weight", 1.0)],
    "quantiles": tails(),
    "masks": [mask(1, 0, "classifier.0", 0.5, 0, 100), mask(1, 0, "classifier.0", 0.5, 1, 100),
              mask(1, 1, "classifier.0", 0.5, 0, 100), mask(9, 12345, "x", 0.1, 10**12, 100)],
}
path = pathlib.Path(__file__).parent / "randomness.json"
path.write_text(json.dumps(result, indent=0) + "\n")
