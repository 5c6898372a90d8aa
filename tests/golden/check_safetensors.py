#!/usr/bin/env python3
"""Convoy's safetensors files against the Python package.

  check_safetensors.py train_sample_files   runs the program, which writes a file, a checkpoint and
                                            what is exported of it, and compares what the package
                                            reads of them; then whether the package would write
                                            mixed.safetensors, beside this script, again
  check_safetensors.py --write              writes mixed.safetensors
  check_safetensors.py --print FILE...      prints name, type, shape and sum of every tensor; the
                                            package refuses what is not valid

tests/train/safetensors_test.cc compares Convoy's bytes with mixed.safetensors, which is made once
and kept. Made with safetensors 0.8.0. tools/setup.sh --tests fetches the packages; ctest runs the
first form.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import packages

packages.add()
import numpy  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

MIXED = pathlib.Path(__file__).parent / "mixed.safetensors"
TYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i16": "<i2",
         "i8": "<i1", "u8": "<u1"}


def mixed():
    """Every type that numpy has too, a scalar, an empty tensor and a name that needs escapes."""
    tensors = {name: numpy.arange(6).reshape(2, 3).astype(kind) for name, kind in TYPES.items()}
    tensors["bool"] = numpy.array([True, False, True])
    tensors["another.f32"] = numpy.array([1.5, -2.25], numpy.float32)
    tensors["scalar"] = numpy.array(0.5, numpy.float32)
    tensors["empty"] = numpy.zeros((0, 3), numpy.float32)
    tensors['caf\u00e9 "\\\n\x01\x7f'] = numpy.array([7], numpy.int64)
    return tensors


def describe(path):
    with safe_open(path, framework="numpy") as file:
        print(path, file.metadata())
        for name in file.keys():
            tensor = file.get_tensor(name)
            print(f"  {name!r} {tensor.dtype} {list(tensor.shape)} sum {tensor.sum()}")


def compare(found, expected):
    problems = [] if found.keys() == expected.keys() else [
        f"the package reads the tensors {sorted(found)}, not {sorted(expected)}"]
    return problems + [
        f"the package reads {name} as {found[name].dtype} {found[name].tolist()}"
        for name in found.keys() & expected.keys()
        if found[name].dtype != expected[name].dtype or not numpy.array_equal(found[name], expected[name])]


def check_checkpoint(folder):
    """What docs/formats/checkpoint.md says of parts, and the file that export makes of them."""
    matrix = (10 * numpy.arange(3)[:, None] + numpy.arange(4)[None, :]).astype(numpy.float32)
    problems = compare(load_file(folder + "/exported.safetensors"),
                       {"fc.weight": matrix, "tied.weight": matrix})
    checkpoint = pathlib.Path(folder, "checkpoints/step-000000000001")
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    for tensor in manifest["tensors"]:
        whole = numpy.zeros(tensor["shape"], numpy.float32)
        for part in tensor["slices"]:
            box = tuple(slice(b, b + s) for b, s in zip(part["begin"], part["size"]))
            count = int(numpy.prod(part["size"]))
            whole[box] = numpy.fromfile(checkpoint / part["file"], "<f4", count,
                                        offset=part["offset"]).reshape(part["size"])
            name = f"{tensor['group']}/{tensor['name']}[" + ", ".join(
                f"{b}:{b + s}" for b, s in zip(part["begin"], part["size"])) + "]"
            problems += compare(load_file(checkpoint / part["file"]), {name: whole[box]})
        problems += compare({"whole": whole}, {"whole": matrix})
    return problems


def check(program):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder], check=True)
        found = load_file(folder + "/weights.safetensors")
        problems = check_checkpoint(folder)
        again = folder + "/mixed.safetensors"
        save_file(mixed(), again, metadata={"format": "pt"})
        same_file = pathlib.Path(again).read_bytes() == MIXED.read_bytes()
    # As tests/train/sample_files.cc writes it.
    expected = {"conv.weight": numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 2, 2) / 4,
                "steps": numpy.array(-3, numpy.int64)}
    if not same_file:
        problems.append(f"the package writes another {MIXED.name} now")
    problems += compare(found, expected)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def main():
    if sys.argv[1:] == ["--write"]:
        save_file(mixed(), MIXED, metadata={"format": "pt"})
    elif len(sys.argv) > 2 and sys.argv[1] == "--print":
        for path in sys.argv[2:]:
            describe(path)
    elif len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        return check(sys.argv[1])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
