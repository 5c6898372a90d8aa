"""Compares crops that Convoy decodes and resizes with what Pillow makes of the same files.

    python3 check_resize.py CROP_PROGRAM FOLDER_OR_TAR...

CROP_PROGRAM is tests/data_crop_program. Pictures are the JPEGs of the folders and tars. For each, random
crops, resized to 224 x 224 with BILINEAR: the mean of the absolute difference has to stay under
1.5 of 255, of each crop. What is left comes from rounding, and from the version of libjpeg that Pillow brings.
"""

import io
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

import packages

packages.add()
try:
    import numpy as np
    from PIL import Image, ImageOps
except ImportError as error:
    print(f"{error}; tools/setup.sh --tests fetches it", file=sys.stderr)
    sys.exit(packages.SKIPPED)

SIZE = 224
BOUND = 1.5
MOST = 60  # pictures


def pictures(source):
    """Yields (name, bytes)."""
    path = pathlib.Path(source)
    if path.is_dir():
        for file in sorted(path.glob("*.jpg")):
            yield str(file), file.read_bytes()
        return
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and member.name.lower().endswith((".jpg", ".jpeg")):
                yield member.name, tar.extractfile(member).read()


def box_of(choose, width, height):
    """Areas and ratios as training has them."""
    area = choose.uniform(0.08, 1) * width * height
    ratio = choose.uniform(3 / 4, 4 / 3)
    w = max(1, min(width, round((area * ratio) ** 0.5)))
    h = max(1, min(height, round((area / ratio) ** 0.5)))
    left, top = choose.randint(0, width - w), choose.randint(0, height - h)
    return left, top, left + w, top + h


def main():
    program, *sources = sys.argv[1:]
    choose = random.Random(1)
    differences = []
    with tempfile.TemporaryDirectory() as scratch:
        file = os.path.join(scratch, "picture.jpg")
        for source in sources:
            for number, (name, data) in enumerate(pictures(source)):
                if number == MOST:
                    break
                with Image.open(io.BytesIO(data)) as picture:
                    rgb = ImageOps.exif_transpose(picture).convert("RGB")
                    if picture.mode == "CMYK":  # converted in other ways by every program
                        continue
                pathlib.Path(file).write_bytes(data)
                box = box_of(choose, *rgb.size)
                expected = np.asarray(rgb.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box))
                left, top, right, bottom = map(str, box)
                out = subprocess.run([program, file, left, top, str(box[2] - box[0]),
                                      str(box[3] - box[1]), str(SIZE), str(SIZE)],
                                     check=True, stdout=subprocess.PIPE).stdout
                ours = np.frombuffer(out, np.uint8).reshape(SIZE, SIZE, 3)
                difference = np.abs(ours.astype(int) - expected.astype(int))
                differences.append(difference.mean())
                if difference.mean() >= BOUND:
                    sys.exit(f"{name}, box {box}: differs from Pillow by {difference.mean():.2f} of 255 "
                             f"on average, {difference.max()} at most; the bound is {BOUND}")
    if not differences:
        sys.exit("there is no picture in " + ", ".join(sources))
    print(f"{len(differences)} crops: mean absolute difference {np.mean(differences):.3f} of 255, "
          f"of the worst crop {max(differences):.3f}")


if __name__ == "__main__":
    main()
