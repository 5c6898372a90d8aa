"""Writes tests/data/fixtures: small images of every kind, and what Pillow makes of them.

    python3 tests/golden/make_images.py      (needs pillow and numpy; made with Pillow 13)

images.json says where in images.raw the pixels of each case stand, interleaved bytes:
  decoded   a file, converted to its channels
  resized   pattern.png resized with box = [left, top, right, bottom] and BILINEAR
"""

import json
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image

FIXTURES = pathlib.Path(__file__).parent.parent / "data" / "fixtures"
HEIGHT, WIDTH = 29, 37  # no multiples of the 8 or 16 that JPEG works in


def pattern(height, width):
    """Gradients with some texture: smooth enough for JPEG, uneven enough to show a shift."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    red = 255 * x / (width - 1)
    green = 255 * y / (height - 1)
    blue = 127 + 80 * np.sin(x / 3) * np.cos(y / 4) + 40 * np.sin(x * y / 29)
    return np.clip(np.stack([red, green, blue], -1), 0, 255).astype(np.uint8)


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def write_png(path, rows, bits, color_type, interlaced=False):
    """PNG files that Pillow can't write. rows: a big-endian array [height][width * channels]."""
    height = rows.shape[0]
    channels = {0: 1, 2: 3}[color_type]
    width = rows.shape[1] // channels
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]
    pixels = rows.reshape(height, width, channels)
    data = b""
    for x, y, step_x, step_y in passes:
        for row in pixels[y::step_y, x::step_x]:
            if row.size:
                data += b"\0" + row.tobytes()
    header = struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, int(interlaced))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                     chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


class Golden:
    def __init__(self):
        self.raw = b""
        self.cases = {"decoded": [], "resized": []}

    def add(self, group, array, **fields):
        channels = 1 if array.ndim == 2 else array.shape[2]
        self.cases[group].append(dict(fields, height=array.shape[0], width=array.shape[1],
                                      channels=channels, offset=len(self.raw)))
        self.raw += array.tobytes()


def main():
    FIXTURES.mkdir(exist_ok=True)
    picture = Image.fromarray(pattern(HEIGHT, WIDTH))
    gray = picture.convert("L")
    jpegs = {
        "color444.jpg": (picture, dict(subsampling=0)),
        "color422.jpg": (picture, dict(subsampling=1)),
        "color420.jpg": (picture, dict(subsampling=2)),
        "progressive.jpg": (picture, dict(subsampling=2, progressive=True)),
        "restarts.jpg": (picture, dict(subsampling=2, restart_marker_blocks=2)),
        "rgb.jpg": (picture, dict(keep_rgb=True)),
        "gray.jpg": (gray, {}),
        "cmyk.jpg": (picture.convert("CMYK"), {}),
    }
    for name, (image, options) in jpegs.items():
        image.save(FIXTURES / name, quality=90, **options)
    # Large enough for crops that leave out whole blocks on all sides.
    Image.fromarray(pattern(120, 150)).save(FIXTURES / "large420.jpg", quality=60, subsampling=2)
    for orientation in (6, 7):  # the same, lying: check_resize.py has Pillow turn them
        data = (FIXTURES / "large420.jpg").read_bytes()
        exif = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"
        lying = data[:2] + exif + bytes([orientation]) + bytes(6) + data[2:]
        (FIXTURES / f"turned{orientation}.jpg").write_bytes(lying)

    alpha = Image.fromarray(pattern(HEIGHT, WIDTH)[:, :, 2])
    color_alpha = picture.copy()
    color_alpha.putalpha(alpha)
    gray_alpha = gray.copy()
    gray_alpha.putalpha(alpha)
    pngs = {
        "pattern.png": (picture, {}),
        "gray.png": (gray, {}),
        "gray1.png": (gray.convert("1"), {}),
        "palette.png": (picture.quantize(16), {}),
        "palette_transparent.png": (picture.quantize(16), dict(transparency=3)),
        "gray_transparent.png": (gray, dict(transparency=100)),
        "color_alpha.png": (color_alpha, {}),
        "gray_alpha.png": (gray_alpha, {}),
    }
    for name, (image, options) in pngs.items():
        image.save(FIXTURES / name, optimize=True, **options)

    # For packing, which turns them into JPEG; nothing decodes them here.
    large = Image.fromarray(pattern(120, 150))
    large.putalpha(Image.fromarray(pattern(120, 150)[:, :, 0]))
    large.save(FIXTURES / "large_alpha.webp", quality=80)

    golden = Golden()
    for name, (image, _) in {**jpegs, **pngs}.items():
        with Image.open(FIXTURES / name) as stored:
            # Straight to RGB, alpha would be blended in by nobody: it is dropped.
            is_gray = stored.mode in ("L", "LA", "1")
            golden.add("decoded", np.asarray(stored.convert("L" if is_gray else "RGB")), file=name)

    # Pillow doesn't write these, and reads them differently from version to version: the golden
    # pixels are the high bytes.
    fine = (pattern(HEIGHT, WIDTH).astype(">u2") << 8) + 0x7F
    write_png(FIXTURES / "color16.png", fine.reshape(HEIGHT, -1).astype(">u2"), 16, 2)
    write_png(FIXTURES / "gray16.png", fine[:, :, 2].astype(">u2"), 16, 0)
    write_png(FIXTURES / "interlaced.png", pattern(HEIGHT, WIDTH).reshape(HEIGHT, -1), 8, 2, True)
    golden.add("decoded", pattern(HEIGHT, WIDTH), file="color16.png")
    golden.add("decoded", pattern(HEIGHT, WIDTH)[:, :, 2].copy(), file="gray16.png")
    golden.add("decoded", pattern(HEIGHT, WIDTH), file="interlaced.png")

    for box, size in [((0, 0, WIDTH, HEIGHT), (16, 16)), ((0, 0, WIDTH, HEIGHT), (74, 58)),
                      ((5, 3, 30, 20), (24, 24)), ((10, 8, 14, 12), (33, 21)),
                      ((0, 10, 37, 13), (9, 2)), ((36, 28, 37, 29), (8, 8)),
                      ((2, 1, 35, 28), (1, 1))]:
        for image in (picture, gray):
            resized = image.resize(size, Image.Resampling.BILINEAR, box=box)
            golden.add("resized", np.asarray(resized), box=box)

    (FIXTURES / "images.raw").write_bytes(golden.raw)
    (FIXTURES / "images.json").write_text(json.dumps(golden.cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
