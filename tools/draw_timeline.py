#!/usr/bin/env python3
"""Draws one step of a timeline as SVG, for a page or a report.

  tools/draw_timeline.py trace.json [--step N] [--ranks N] > step.svg

trace.json comes from `convoy bench step --timeline` or `convoy train --timeline`; to look around in
it, open it in ui.perfetto.dev instead. Steps count from 0; without one that in the middle is drawn, and without
--ranks all ranks are.
docs/performance.md explains the rows.
"""

import argparse
import html
import json
import sys

WIDTH, MARGIN_LEFT, MARGIN_RIGHT = 960, 150, 12
ROW, GAP, TITLE = 18, 3, 26
# What names begin with, their color, and what the legend says of them.
COLORS = [("forward of partitioned", "#2f5fc4", "forward of divided layers"),
          ("backward of partitioned", "#2aa876", "backward of divided layers"),
          ("gradients of partitioned", "#8fce4a", "gradients of divided weights"),
          ("forward", "#5b8ff9", "forward"), ("backward", "#5ad8a6", "backward"),
          ("update", "#9270ca", "update"), ("copy", "#1f7a54", "copies"),
          ("wait", "#e8684a", "waiting"), ("exposed", "#e8684a", "waiting"),
          ("reduce", "#6b7a99", "sums of gradients"), ("data", "#f6bd16", "data"),
          ("evaluation", "#c0c4cc", "evaluation"), ("checkpoint", "#a08060", "checkpoint"),
          ("activations", "#d98c3f", "activations"), ("gradients", "#c25b8a", "their gradients"),
          ("between layers", "#b3a13a", "between divided layers"), ("scores", "#7f8c5a", "scores"),
          ("sample numbers", "#999999", "sample numbers")]
OTHER = "#dddddd"


def color_of(name):
    return next((color for prefix, color, _ in COLORS if name.startswith(prefix)), OTHER)


def legend_of(names):
    """[(color, text)] of what the names are, each color once."""
    used = {color_of(name) for name in names}
    entries = {}
    for _, color, text in COLORS:
        if color in used:
            entries.setdefault(color, text)
    return list(entries.items())


class Rank:
    """Rows of one process: [(title, [(name, begin, end)])], the training thread's in two levels."""

    def __init__(self, events, pid):
        names, order = {}, {}
        self.title = f"process {pid}"
        for event in events:
            if event["ph"] != "M" or event["pid"] != pid:
                continue
            if event["name"] == "process_name":
                self.title = event["args"]["name"]
            elif event["name"] == "thread_name":
                names[event["tid"]] = event["args"]["name"]
            elif event["name"] == "thread_sort_index":
                order[event["tid"]] = event["args"]["sort_index"]
        spans = {thread: [] for thread in names}
        for event in events:
            if event["ph"] == "X" and event["pid"] == pid:
                spans[event["tid"]].append(
                    (event["name"], event["ts"], event["ts"] + event["dur"]))
        self.steps, self.rows = [], []
        for thread in sorted(names, key=lambda thread: order.get(thread, 0)):
            if names[thread] != "training":
                self.rows.append((names[thread], spans[thread]))
                continue
            self.steps = sorted((s for s in spans[thread] if s[0] == "step"), key=lambda s: s[1])
            inner = [s for s in spans[thread] if s[0].startswith(
                ("copy", "wait", "gradients of partitioned"))]
            outer = [s for s in spans[thread] if s[0] != "step" and s not in inner]
            self.rows += [("training", outer), ("within", inner)]


def nice_tick(length):
    """A round number of microseconds that gives 4 to 10 ticks."""
    tick = 1
    while length / tick > 10:
        tick *= 2.5 if str(tick)[0] == "2" else 2
    return tick


def draw(ranks, step):
    begin = min(rank.steps[step][1] for rank in ranks)
    end = max(rank.steps[step][2] for rank in ranks)
    scale = (WIDTH - MARGIN_LEFT - MARGIN_RIGHT) / (end - begin)
    parts, y, drawn = [], 8, set()

    def text(x, y, content, anchor="start", size=11, fill="#333"):
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                     f'fill="{fill}">{html.escape(content)}</text>')

    for rank in ranks:
        text(8, y + 14, rank.title, size=13)
        y += TITLE
        for title, spans in rank.rows:
            text(MARGIN_LEFT - 8, y + ROW - 5, title, "end")
            parts.append(f'<rect x="{MARGIN_LEFT}" y="{y}" width="{WIDTH - MARGIN_LEFT - MARGIN_RIGHT}"'
                         f' height="{ROW}" fill="#f4f4f6"/>')
            for name, start, stop in spans:
                if stop <= begin or start >= end:
                    continue
                drawn.add(name)
                left = MARGIN_LEFT + (max(start, begin) - begin) * scale
                width = max((min(stop, end) - max(start, begin)) * scale, 0.4)
                parts.append(f'<rect x="{left:.2f}" y="{y}" width="{width:.2f}" height="{ROW}" '
                             f'fill="{color_of(name)}"><title>{html.escape(name)}: '
                             f'{(stop - start) / 1000:.3f} ms</title></rect>')
                if width > 7 * len(name):
                    text(left + width / 2, y + ROW - 5, name, "middle", 10, "#fff")
            y += ROW + GAP
        y += GAP
    tick = nice_tick(end - begin)
    for i in range(int((end - begin) / tick) + 1):
        x = MARGIN_LEFT + i * tick * scale
        parts.append(f'<line x1="{x:.1f}" y1="8" x2="{x:.1f}" y2="{y}" stroke="#000" '
                     f'stroke-opacity="0.12"/>')
        text(x, y + 12, f"{i * tick / 1000:g} ms", "middle", 10)
    y += 32
    x = MARGIN_LEFT
    for color, content in legend_of(drawn):
        if x + 24 + 6 * len(content) > WIDTH - MARGIN_RIGHT:
            x, y = MARGIN_LEFT, y + ROW
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{color}"/>')
        text(x + 16, y, content)
        x += 34 + 6 * len(content)
    height = y + 14
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--step", type=int)
    parser.add_argument("--ranks", type=int, help="the first so many alone")
    arguments = parser.parse_args()
    with open(arguments.file, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    ranks = [Rank(events, pid) for pid in sorted({event["pid"] for event in events})]
    if arguments.ranks is not None:
        if not 1 <= arguments.ranks <= len(ranks):
            sys.exit(f"{arguments.file} has {len(ranks)} ranks; --ranks {arguments.ranks} can't be drawn")
        ranks = ranks[:arguments.ranks]
    steps = min(len(rank.steps) for rank in ranks)
    step = steps // 2 if arguments.step is None else arguments.step
    if not 0 <= step < steps:
        sys.exit(f"{arguments.file} has {steps} steps of every rank; there is no step {step}")
    sys.stdout.write(draw(ranks, step))


if __name__ == "__main__":
    main()
