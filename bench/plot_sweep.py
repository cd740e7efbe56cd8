#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plot_sweep.py: images of what bench/gpu_sweep.py and gpu_bench measured, as SVG without any library.

    python3 bench/plot_sweep.py --csv sweep.csv --large large.txt --out doc/images

sweep.csv: of gpu_sweep.py --csv. large.txt: the output of gpu_bench --large. Either may be left out. Written:
    sweep_act_mul.svg, sweep_rms_norm.svg    microseconds against rows, a panel a format, a line a width
    sweep_peers.svg                          time of the best peer over that of epiq, against rows, a line a format
    large_shares.svg                         time of moving the bytes alone over the time of the call
"""

import argparse
import csv
import math
import re
import sys
from pathlib import Path

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b", "#7f7f7f",
           "#bcbd22", "#9467bd")
OWN = ("epiq", "epiq_direct", "epiq_early")
FORMATS = ("e4m3 tensor", "e4m3 token", "e4m3 group128", "nvfp4", "mxfp8")
TITLES = {"act_mul": "SwiGLU + quantizer", "rms_norm": "residual + Gemma RMSNorm + quantizer", "quantize": "quantizer"}


def escaped(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Svg:
    def __init__(self, width, height, title):
        self.head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                     f'height="{height}" font-family="sans-serif" font-size="12">\n<title>{escaped(title)}</title>\n'
                     f'<rect width="{width}" height="{height}" fill="#fff"/>')
        self.parts = []

    def text(self, x, y, words, anchor="start", size=None, turn=None, fill=None):
        extra = f' font-size="{size}"' if size else ""
        extra += f' transform="rotate({turn} {x:g} {y:g})"' if turn else ""
        extra += f' fill="{fill}"' if fill else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{extra}>{escaped(words)}</text>')

    def line(self, points, colour, width=1.0, dash=None):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{extra}/>')

    def rect(self, x, y, width, height, fill, stroke="none"):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" '
                          f'stroke="{stroke}"/>')

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>')

    def write(self, path):
        path.write_text("\n".join([self.head, *self.parts, "</svg>"]) + "\n", encoding="ascii")
        print(f"{path}: {path.stat().st_size} bytes")


class Panel:
    """Axes with their ticks; both logarithmic unless `linear` names the ticks of y."""

    def __init__(self, svg, box, xs, low, high, title, label_x, label_y, linear=None):
        self.x, self.y, self.width, self.height = box
        self.first, self.last = math.log(min(xs)), math.log(max(xs))
        self.span = (self.last - self.first) or 1.0
        self.linear = linear is not None
        self.low, self.high = (low, high) if self.linear else (math.log(low), math.log(high))
        svg.rect(self.x, self.y, self.width, self.height, "none", "#888")
        svg.text(self.x + self.width / 2, self.y - 8, title, "middle", 13)
        previous = -100.0
        for n in xs:
            at = self.at_x(n)
            svg.line([(at, self.y), (at, self.y + self.height)], "#e4e4e4")
            if at - previous > 26:
                words = f"{n // 1024}k" if n >= 1024 and n % 1024 == 0 else n
                svg.text(at, self.y + self.height + 15, words, "middle", 11)
                previous = at
        for v in linear or ticks(low, high):
            at = self.at_y(v)
            svg.line([(self.x, at), (self.x + self.width, at)], "#e4e4e4")
            svg.text(self.x - 5, at + 4, f"{v:g}", "end", 11)
        svg.text(self.x + self.width / 2, self.y + self.height + 32, label_x, "middle")
        svg.text(self.x - 36, self.y + self.height / 2, label_y, "middle", None, -90)

    def at_x(self, n):
        return self.x + 8 + (self.width - 16) * (math.log(n) - self.first) / self.span

    def at_y(self, v):
        v = v if self.linear else math.log(v)
        return self.y + self.height * (1 - (v - self.low) / (self.high - self.low))


def ticks(low, high):
    """1, 2, 5 of each decade, or only powers of ten if those are many."""
    found = [m * 10.0**e for e in range(-3, 7) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    return [v for v in found if math.log10(v) % 1 < 1e-9 or math.log10(v) % 1 > 1 - 1e-9] if len(found) > 12 else found


def read_sweep(path):
    times = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            point = row["op"], row["format"], int(row["rows"]), int(row["cols"])
            times.setdefault(point, {})[row["peer"]] = float(row["us"])
    return {point: found for point, found in times.items() if "epiq" in found}


def best_of(found):
    return min((us for name, us in found.items() if name not in OWN), default=None)


def series_of(times, op, format):
    """cols -> sorted [(rows, epiq us, best peer us or None)] of widths with more than one point."""
    lines = {}
    for (o, f, rows, cols), found in times.items():
        if (o, f) == (op, format):
            lines.setdefault(cols, []).append((rows, found["epiq"], best_of(found)))
    return {cols: sorted(lines[cols]) for cols in sorted(lines) if len(lines[cols]) > 1}


def draw_times(times, op, path):
    formats = [f for f in FORMATS if series_of(times, op, f)]
    if not formats:
        return
    panels = [series_of(times, op, f) for f in formats]
    every = [p for lines in panels for line in lines.values() for p in line]
    xs = sorted({p[0] for p in every})
    values = [v for p in every for v in p[1:] if v]
    low, high = min(values) / 1.2, max(values) * 1.2
    across = min(3, len(formats))
    down = -(-len(formats) // across)
    svg = Svg(across * 320 + 10, 58 + down * 330 + (0 if down * across > len(formats) else 60), f"{op} times")
    svg.text(across * 160, 20, f"{op}: {TITLES[op]}, bf16 in; time of a call", "middle", 15)
    colours = {}
    for number, (format, lines) in enumerate(zip(formats, panels)):
        box = (number % across * 320 + 58, number // across * 330 + 58, 250, 250)
        panel = Panel(svg, box, xs, low, high, format, "rows", "us")
        for cols, line in lines.items():
            colour = colours.setdefault(cols, COLOURS[len(colours) % len(COLOURS)])
            theirs = [(panel.at_x(m), panel.at_y(best)) for m, _, best in line if best]
            if len(theirs) > 1:
                svg.line(theirs, colour, 1, "3 3")
            svg.line([(panel.at_x(m), panel.at_y(us)) for m, us, _ in line], colour, 1.8)
    x, y = (len(formats) % across * 320 + 70, (down - 1) * 330 + 75) if len(formats) % across else (70, down * 330 + 65)
    beside = len(formats) % across != 0
    svg.text(x, y, "columns of y" if beside else "columns:")
    for number, (cols, colour) in enumerate(sorted(colours.items())):
        at = (x, y + 18 * (number + 1)) if beside else (x + 70 + 80 * (number % 10), y)
        svg.line([(at[0], at[1] - 4), (at[0] + 24, at[1] - 4)], colour, 1.8)
        svg.text(at[0] + 30, at[1], cols)
    y += 18 * (len(colours) + 2) if beside else 24
    svg.line([(x, y - 4), (x + 24, y - 4)], "#000", 1.8)
    svg.text(x + 30, y, "epiq")
    x, y = (x, y + 18) if beside else (x + 90, y)
    svg.line([(x, y - 4), (x + 24, y - 4)], "#000", 1, "3 3")
    svg.text(x + 30, y, "fastest peer of the point")
    svg.write(path)


def draw_peers(times, path):
    lines = {}
    for (op, format, rows, _), found in times.items():
        best = best_of(found)
        if best:
            lines.setdefault((op, format), {}).setdefault(rows, []).append(math.log(best / found["epiq"]))
    ops = [op for op in TITLES if any(o == op for o, _ in lines)]
    if not ops:
        return
    most = {key: max(map(len, by_rows.values())) for key, by_rows in lines.items()}
    means = {key: {m: math.exp(sum(v) / len(v)) for m, v in by_rows.items() if 2 * len(v) > most[key]}
             for key, by_rows in lines.items()}
    values = [v for line in means.values() for v in line.values()]
    xs = sorted({m for line in means.values() for m in line})
    step = 0.25 if max(values) < 3 else 0.5 if max(values) < 6 else 2.0
    high = math.ceil(max(max(values), 1.0) / step + 0.2) * step
    low = max(0.0, math.floor(min(min(values), 1.0) / step - 0.2) * step)
    marks = [low + step * i for i in range(round((high - low) / step) + 1)]
    svg = Svg(len(ops) * 400 + 140, 330, "fastest peer beside epiq")
    svg.text(len(ops) * 200 + 60, 20, "Time of the fastest peer over that of epiq (above 1: epiq is faster)", "middle",
             15)
    for number, op in enumerate(ops):
        panel = Panel(svg, (number * 400 + 58, 58, 330, 220), xs, low, high, f"{op}: {TITLES[op]}", "rows",
                      "times, geometric mean", marks)
        svg.line([(panel.x, panel.at_y(1)), (panel.x + panel.width, panel.at_y(1))], "#444", 1.2)
        for place, format in enumerate(FORMATS):
            line = [(panel.at_x(m), panel.at_y(v)) for m, v in sorted(means.get((op, format), {}).items())]
            if line:
                svg.line(line, COLOURS[place], 1.8)
                for point in line:
                    svg.dot(*point, COLOURS[place])
    for place, format in enumerate(FORMATS):
        at = len(ops) * 400 + 5, 80 + 20 * place
        svg.line([(at[0], at[1] - 4), (at[0] + 24, at[1] - 4)], COLOURS[place], 1.8)
        svg.text(at[0] + 30, at[1], format)
    svg.write(path)


LARGE = re.compile(r"^(act_mul|rms_norm|quantize)\s+(.*?)\s+(\d+)\s+(\d+)\s+([\d.]+) us\s+traffic\s+([\d.]+) us\s+"
                   r"([\d.]+)\s+(\d+) GB/s")


def read_large(path):
    """[(op, what, rows, cols, us, us of moving alone, share, GB/s)]"""
    found = []
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        match = LARGE.match(line)
        if match:
            op, what, rows, cols, us, floor, share, speed = match.groups()
            found.append((op, " ".join(what.split()), int(rows), int(cols), float(us), float(floor), float(share),
                          int(speed)))
    return found


def draw_shares(calls, path):
    left, width, pitch = 360, 380, 17
    groups = [op for op in TITLES if any(call[0] == op for call in calls)]
    height = 66 + pitch * len(calls) + 14 * len(groups) + 40
    svg = Svg(left + width + 110, height, "share of the memory's speed")
    svg.text((left + width + 110) / 2, 20,
             "Large calls: time of a kernel that only moves the bytes, over that of the call", "middle", 15)
    bottom = height - 40
    for mark in (0, 0.2, 0.4, 0.6, 0.8, 1.0):
        x = left + width * mark
        svg.line([(x, 40), (x, bottom)], "#444" if mark == 1 else "#e4e4e4")
        svg.text(x, bottom + 15, f"{mark:g}", "middle", 11)
    svg.text(left + width / 2, bottom + 32, "share of the attainable speed (1: bound by memory alone)", "middle")
    y = 44.0
    for number, op in enumerate(groups):
        y += 4
        for _, what, rows, cols, _, _, share, speed in (call for call in calls if call[0] == op):
            svg.text(left - 6, y + 12, f"{op} {what}, {rows} x {cols}", "end", 11)
            svg.rect(left, y + 2, width * min(share, 1.02), pitch - 4, COLOURS[number])
            svg.text(left + width + 14, y + 12, f"{share:.2f}, {speed / 1000:.2f} TB/s", "start", 11)
            y += pitch
        y += 10
    svg.write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--csv", help="of gpu_sweep.py")
    parser.add_argument("--large", help="output of gpu_bench --large")
    parser.add_argument("--out", default="doc/images")
    given = parser.parse_args()
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    if given.csv:
        times = read_sweep(given.csv)
        for op in ("act_mul", "rms_norm"):
            draw_times(times, op, out / f"sweep_{op}.svg")
        draw_peers(times, out / "sweep_peers.svg")
    if given.large:
        calls = read_large(given.large)
        if not calls:
            print(f"{given.large}: no line of gpu_bench in it", file=sys.stderr)
            return 1
        draw_shares(calls, out / "large_shares.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
