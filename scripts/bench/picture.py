#!/usr/bin/env python3
"""Draws docs/six-ways.svg from docs/six-ways.json, which `bench.sh --rows ways` measures.

The same data gives the same bytes. It reads on light and dark pages: it brings its own ground.
"""

import json
import math
import os
from html import escape

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
DATA = os.path.join(DOCS, "six-ways.json")
PICTURE = os.path.join(DOCS, "six-ways.svg")

WIDTH, ROW, TOP, BOTTOM = 880, 46, 92, 64
# Where the bars of time and of memory begin and end.
TIME = (262, 640)
MEMORY = (706, 800)
# The axis of time, milliseconds.
LEAST, MOST = 0.1, 200_000.0
TICKS = [(0.1, "0.1 ms"), (1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1000, "1 s"), (10_000, "10 s"), (100_000, "100 s")]
GROUND, INK, FAINT, LINE = "#ffffff", "#1f2430", "#5b6372", "#e3e6eb"
OURS, OTHERS, MEMORY_INK = "#0b7a53", "#8b93a3", "#b9c0cc"


def span(ms):
    """A time as people say it."""
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms / 1000:.0f} s"


def across(ms):
    """Where a time stands on the axis."""
    share = math.log(max(LEAST, min(MOST, ms)) / LEAST) / math.log(MOST / LEAST)
    return TIME[0] + share * (TIME[1] - TIME[0])


def text(x, y, words, size=13, fill=INK, anchor="start", weight="400"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def row(number, way, most, wait_ms):
    """One way: its name, the bar from the median to the 99th percentile, its memory."""
    middle = TOP + number * ROW + ROW / 2
    ours = way["way"] == "orderwheel"
    colour = OURS if ours else OTHERS
    start, end = across(way["p50_ms"]), across(way["p99_ms"])
    never = way["closed_percent"] < 99.95
    parts = [text(20, middle + 5, way["way"], weight="600" if ours else "400")]
    if never and way["p50_ms"] >= wait_ms:
        said = f"{way['closed_percent']:.0f} % closed after {wait_ms / 1000:.0f} s"
        parts.append(f'<rect x="{start - 6:.1f}" y="{middle - 7:.1f}" width="{TIME[1] - start + 6:.1f}" height="14" rx="7" '
                     f'fill="{colour}"/>')
        parts.append(text(start - 14, middle + 5, said, 12, FAINT, "end"))
    else:
        parts.append(f'<rect x="{start - 7:.1f}" y="{middle - 7:.1f}" width="{end - start + 14:.1f}" height="14" rx="7" '
                     f'fill="{colour}"/>')
        said = f"{span(way['p50_ms'])} – {span(way['p99_ms'])}"
        if end + 120 < TIME[1]:
            parts.append(text(end + 14, middle + 5, said, 12, FAINT))
        else:
            parts.append(text(start - 14, middle + 5, said, 12, FAINT, "end"))
    if "bytes_per_order" in way:
        width = way["bytes_per_order"] / most * (MEMORY[1] - MEMORY[0])
        parts.append(f'<rect x="{MEMORY[0]}" y="{middle - 7:.1f}" width="{width:.1f}" height="14" rx="2" '
                     f'fill="{OURS if ours else MEMORY_INK}"/>')
        parts.append(text(MEMORY[0] + width + 6, middle + 5, f"{way['bytes_per_order']:.0f} B", 12, FAINT))
    else:
        parts.append(text(MEMORY[0], middle + 5, "in the database", 12, FAINT))
    return parts


def drawn(measured):
    """The picture of what was measured."""
    ways = sorted(measured["ways"], key=lambda way: (way["p50_ms"], way["p99_ms"]))
    height = TOP + len(ways) * ROW + BOTTOM
    most = max(way.get("bytes_per_order", 0) for way in ways)
    title = "How late six ways close an order, and what a waiting one costs in Redis"
    said = "; ".join(f"{way['way']}: {span(way['p50_ms'])} to {span(way['p99_ms'])}" for way in ways)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">',
        f"<title>{escape(title)}</title>", f"<desc>{escape(said)}</desc>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="{GROUND}"/>',
        text(20, 34, title, 17, weight="600"),
        text(TIME[0], 66, "from the deadline to a closer, p50 – p99", 12, FAINT),
        text(MEMORY[0], 66, "memory per order", 12, FAINT),
    ]
    foot = TOP + len(ways) * ROW
    for ms, label in TICKS:
        x = across(ms)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{foot}" stroke="{LINE}"/>')
        parts.append(text(x, foot + 18, label, 11, FAINT, "middle"))
    for number, way in enumerate(ways):
        parts += row(number, way, most, measured["wait_s"] * 1000)
    parts.append(text(20, height - 16, f"{measured['pending']:,} orders wait, {measured['due']:,} fall due within "
                      f"{measured['window_s']} s; measure it: scripts/bench.sh --rows ways", 11, FAINT))
    return "\n".join([*parts, "</svg>", ""])


def draw():
    """Reads the data, writes the picture."""
    with open(DATA) as file:
        picture = drawn(json.load(file))
    with open(PICTURE, "w") as file:
        file.write(picture)


if __name__ == "__main__":
    draw()
