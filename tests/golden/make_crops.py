"""Writes crops.json: where torchvision puts its windows.

    python3 tests/golden/make_crops.py      (plain Python: torchvision's arithmetic, as its sources have it)

"center": for pictures of many sizes, what Resize(resize), CenterCrop(out) do: size after resizing, and the
window's place. "center_sum" covers a grid of sizes, see below. "ten": the place of the middle crop of TenCrop.
"random": what RandomResizedCrop.get_params draws, as probabilities: of the area, the ratio and the place of a
window being at most so large, and of pairs of them at once; "fallback" where ten attempts don't fit.
"""

import json
import math
import pathlib
import random

DRAWS = 200000


# torchvision/transforms/functional.py: _compute_resized_output_size
def resized(height, width, size):
    short, long = (width, height) if width <= height else (height, width)
    new_short, new_long = size, int(size * long / short)
    new_w, new_h = (new_short, new_long) if width <= height else (new_long, new_short)
    return new_h, new_w


# center_crop
def middle(height, width, out):
    top = int(round((height - out) / 2.0))
    left = int(round((width - out) / 2.0))
    return top, left


# transforms.py: RandomResizedCrop.get_params; (left, top, width, height, whether an attempt did fit)
def random_window(choose, height, width, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    area = height * width
    log_ratio = (math.log(ratio[0]), math.log(ratio[1]))
    for _ in range(10):
        target_area = area * choose.uniform(*scale)
        aspect_ratio = math.exp(choose.uniform(*log_ratio))
        w = int(round(math.sqrt(target_area * aspect_ratio)))
        h = int(round(math.sqrt(target_area / aspect_ratio)))
        if 0 < w <= width and 0 < h <= height:
            i = choose.randint(0, height - h)  # torch.randint(0, height - h + 1)
            j = choose.randint(0, width - w)
            return j, i, w, h, True
    in_ratio = float(width) / float(height)
    if in_ratio < min(ratio):
        w = width
        h = int(round(w / min(ratio)))
    elif in_ratio > max(ratio):
        h = height
        w = int(round(h * max(ratio)))
    else:
        w = width
        h = height
    return (width - w) // 2, (height - h) // 2, w, h, False


def center_case(height, width, resize, out):
    new_height, new_width = resized(height, width, resize)
    top, left = middle(new_height, new_width, out)
    return [height, width, resize, out, new_height, new_width, top, left]


def center_cases():
    choose = random.Random(1)
    sizes = [(206, 309), (309, 206), (375, 500), (500, 375), (256, 256), (227, 227), (255, 340), (480, 640),
             (1200, 1600), (3024, 4032), (100, 10000)]
    sizes += [(choose.randint(30, 900), choose.randint(30, 900)) for _ in range(100)]
    return [center_case(h, w, resize, out) for h, w in sizes
            for resize, out in ((256, 224), (227, 224), (232, 223))]


# Horner's rule over heights 64 .. 319, widths 64 .. 319, modulo 2^64.
def center_sum():
    total = 0
    for height in range(64, 320):
        for width in range(64, 320):
            for value in center_case(height, width, 256, 225)[4:]:
                total = (total * 1000003 + value) % 2**64
    return str(total)


# What is looked at; places from 0 to 1, where there is any choice.
def values(window, height, width):
    left, top, w, h, _ = window
    return [w * h / (height * width), math.log(w / h), left / (width - w) if w < width else None,
            top / (height - h) if h < height else None]


def random_case(seed, height, width):
    choose = random.Random(seed)
    windows = [random_window(choose, height, width) for _ in range(DRAWS)]
    drawn = [values(window, height, width) for window in windows if window[4]]
    case = {"height": height, "width": width, "draws": DRAWS, "fitted": len(drawn) / DRAWS, "at_most": []}
    medians = []
    for which in range(4):
        column = sorted(row[which] for row in drawn if row[which] is not None)
        thresholds = []
        for part in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98):
            # Between the values that there can be: rounding decides nothing.
            at = round(round(column[int(part * len(column))], 4) + 0.000037, 6)
            thresholds.append([at, round(sum(value <= at for value in column) / len(column), 6)])
        medians.append(thresholds[5][0])
        case["at_most"].append(thresholds)
    case["both_at_most"] = []
    for a, b in ((0, 1), (0, 2), (1, 3), (2, 3)):
        rows = [row for row in drawn if row[a] is not None and row[b] is not None]
        both = sum(row[a] <= medians[a] and row[b] <= medians[b] for row in rows) / len(rows)
        case["both_at_most"].append([a, b, medians[a], medians[b], round(both, 6)])
    return case


# Pictures of which hardly any window fits: all of it, or its middle.
def fallback_case(height, width, low=3 / 4, high=4 / 3):
    left, top, w, h, fits = random_window(random.Random(0), height, width, scale=(5, 5), ratio=(low, high))
    assert not fits
    return [height, width, low, high, left, top, w, h]


golden = {
    "center": center_cases(),
    "center_sum": center_sum(),
    "ten": [[h, w, 224, *middle(h, w, 224)] for h, w in ((256, 341), (225, 227), (229, 231), (224, 224))],
    "random": [random_case(seed, h, w) for seed, (h, w) in enumerate(((375, 500), (64, 48), (300, 300)))],
    "fallback": [fallback_case(*case) for case in
                 ((10, 99), (99, 10), (30, 31), (33, 11), (50, 6), (5, 99, 0.4, 2.5), (99, 5, 0.4, 2.5))],
}
path = pathlib.Path(__file__).parent / "crops.json"
lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in golden.items())
path.write_text("{" + lines + "}\n")
