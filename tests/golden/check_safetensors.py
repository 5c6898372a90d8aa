#!/usr/bin/env python3
"""The safetensors files of Convoy against the Python package (pip install numpy safetensors).

  check_safetensors.py --write       writes mixed.safetensors beside this script, as the package does
  check_safetensors.py FILE...       loads each file with the package and prints name, type, shape
                                     and sum of every tensor; the package refuses what is not valid

tests/train/safetensors_test.cc compares Convoy's bytes with mixed.safetensors, which is made once
and kept. Made with safetensors 0.8.0.
"""

import pathlib
import sys

import numpy
from safetensors import safe_open
from safetensors.numpy import save_file

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


def main():
    if sys.argv[1:] == ["--write"]:
        save_file(mixed(), pathlib.Path(__file__).parent / "mixed.safetensors",
                  metadata={"format": "pt"})
        return 0
    if not sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    for path in sys.argv[1:]:
        with safe_open(path, framework="numpy") as file:
            print(path, file.metadata())
            for name in file.keys():
                tensor = file.get_tensor(name)
                print(f"  {name!r} {tensor.dtype} {list(tensor.shape)} sum {tensor.sum()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
