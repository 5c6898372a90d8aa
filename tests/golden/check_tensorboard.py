#!/usr/bin/env python3
"""Convoy's event files against TensorBoard's own reader.

  check_tensorboard.py train_sample_files      runs the program, which writes a run that was resumed,
                                               and compares what TensorBoard reads of it
  check_tensorboard.py --print FOLDER          prints what TensorBoard reads in a folder as JSON:
                                               {"scalars": {tag: [[step, value], ...]},
                                                "texts": {tag: [[step, text], ...]}}

tools/setup.sh --tests fetches the package; ctest runs the first form.
"""

import json
import subprocess
import sys
import tempfile

import packages

packages.add()
from tensorboard.backend.event_processing import event_accumulator  # noqa: E402
from tensorboard.util import tensor_util  # noqa: E402

# As tests/train/sample_files.cc writes it: 10 steps, then another start after step 6.
EXPECTED = {
    "scalars": {"train/loss": [[step, 1 / step] for step in range(1, 7)]
                + [[7, 107.0], [8, 108.0]]},
    "texts": {"recipe": [[1, "model = 'lenet'"]]},
}


def read(folder):
    events = event_accumulator.EventAccumulator(folder, size_guidance={
        event_accumulator.TENSORS: 0, event_accumulator.SCALARS: 0})
    events.Reload()
    scalars = {tag: [[event.step, event.value] for event in events.Scalars(tag)]
               for tag in events.Tags()["scalars"]}
    texts = {}
    for tag in events.Tags()["tensors"]:
        for event in events.Tensors(tag):
            value = tensor_util.make_ndarray(event.tensor_proto).reshape(-1)[0]
            # The reader gives scalars in the form of tensors, too.
            if isinstance(value, bytes):
                texts.setdefault(tag, []).append([event.step, value.decode()])
            else:
                scalars.setdefault(tag, []).append([event.step, float(value)])
    return {"scalars": scalars, "texts": texts}


def rounded(events):
    # Scalars are stored in single precision.
    scalars = {tag: [[step, round(value, 6)] for step, value in row]
               for tag, row in events["scalars"].items()}
    return {"scalars": scalars, "texts": events["texts"]}


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--print":
        print(json.dumps(read(sys.argv[2]), indent=1, sort_keys=True))
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        found = read(folder + "/tensorboard")
    if rounded(found) == rounded(EXPECTED):
        return 0
    print("TensorBoard reads", json.dumps(found), "\nand not", json.dumps(EXPECTED),
          file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
