#!/usr/bin/env python3
"""Reads a folder of TensorBoard event files with TensorBoard's own reader and prints JSON:
{"scalars": {tag: [[step, value], ...]}, "texts": {tag: [[step, text], ...]}}.

  read_tensorboard.py FOLDER      (pip install tensorboard)
"""

import json
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    events = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={
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
    print(json.dumps({"scalars": scalars, "texts": texts}, indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
