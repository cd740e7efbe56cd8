#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_layouts.py: `epiq explain layout` against the formulas of doc/spec.md 5.2, and doc/layouts.md against both.

usage: test_layouts.py EPIQ [unittest options]        (EPIQ: path of the command)

Seen failing: with a number changed in a block of doc/layouts.md, with 31 for 15 in the formula of tile128x4 in
src/core/layout.h, and with the last padding row left out of the drawing.
"""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FORMATS = {"e4m3": ("--format", "e4m3", "--grain", "group"), "mxfp8": ("--format", "mxfp8"),
           "nvfp4": ("--format", "nvfp4")}


def offsets_of_spec():
    """Layout -> the offset column of the table in section 5.2, as code."""
    section = (TOP / "doc/spec.md").read_text().split("### 5.2 ")[1].split("### 5.3 ")[0]
    rows = re.findall(r"^\| `(\w+)` \| \[.*\| ([^|]*\bm\b[^|]*) \|$", section, re.M)
    return {layout: compile(offset.split(",")[0], layout, "eval") for layout, offset in rows}


OFFSETS = offsets_of_spec()


def expected(layout, m, k, rows, groups, size):
    line = {"row": groups * size, "col": 4 * rows}.get(layout, 4 * (-rows // 4 * -4))
    return eval(OFFSETS[layout], {"m": m, "k": k, "size": size, "stride": line, "Kt": -(-groups // 4)})


def padded(layout, rows, groups):
    by_rows = {"row": 1, "col": 1, "col_aligned": 4, "packed_ue8m0": 4, "tile128x4": 128, "tile8x4": 8}[layout]
    by_groups = 1 if layout in ("row", "col", "col_aligned") else 4
    return -(-rows // by_rows) * by_rows, -(-groups // by_groups) * by_groups


class Layouts(unittest.TestCase):
    def explain(self, *arguments, code=0):
        done = subprocess.run([EPIQ, "explain", "layout", *map(str, arguments)], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_page(self):
        done = subprocess.run([sys.executable, TOP / "tools/doc/layouts.py", EPIQ, "--check"], text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def drawing(self, text):
        """(m, k) -> (offset, whether it is padding) of the first drawing; rows and groups drawn."""
        lines = text.split("\nbyte of each scale")[1].split("\n\n")[0].splitlines()[1:]
        groups = [int(word) for word in lines[0].split()[3:] if word != ".."]
        cells = {}
        for line in lines[1:]:
            words = [word for word in line.split() if word != ".."]
            for k, word in zip(groups, words[1:]):
                cells[int(words[0]), k] = (int(word.strip("[]")), word.startswith("["))
            self.assertIn(len(words), (0, len(groups) + 1))
        return cells

    def test_offsets(self):
        self.assertEqual(sorted(OFFSETS), ["col", "col_aligned", "packed_ue8m0", "row", "tile128x4", "tile8x4"])
        drawn = 0
        for layout in OFFSETS:
            for name in ("mxfp8", "nvfp4") if layout.startswith("tile") else ("e4m3", "nvfp4") if layout == "row" else (
                    "e4m3",):
                width, size = {"e4m3": (128, 4), "mxfp8": (32, 1), "nvfp4": (16, 1)}[name]
                for rows in (1, 7, 8, 9, 31, 33, 127, 128, 130, 10 ** 6 + 1):
                    for groups in (1, 3, 4, 5, 13, 4097):
                        text = self.explain(*FORMATS[name], "--layout", layout, "--rows", rows, "--cols",
                                            groups * width)
                        with self.subTest(layout=layout, format=name, rows=rows, groups=groups):
                            self.check(text, layout, rows, groups, size)
                        drawn += 1
        self.assertEqual(drawn, 9 * 10 * 6)

    def check(self, text, layout, rows, groups, size):
        cells, (all_rows, all_groups) = self.drawing(text), padded(layout, rows, groups)
        for m, k in ((0, 0), (rows - 1, groups - 1), (all_rows - 1, all_groups - 1)):
            self.assertIn((m, k), cells)
        for (m, k), (offset, padding) in cells.items():
            self.assertEqual(offset, expected(layout, m, k, rows, groups, size), (m, k))
            self.assertEqual(padding, m >= rows or k >= groups, (m, k))
        formula = re.search(r"at byte (.*)", text)[1]
        last = expected(layout, rows - 1, groups - 1, rows, groups, size)
        self.assertEqual(eval(formula, {"m": rows - 1, "k": groups - 1}), last)
        self.assertEqual(eval(re.search(r"for example \(.*?\): (.*?)( =|$)", text, re.M)[1]), last)
        wanted = [f"groups {groups} to {all_groups - 1} "] if all_groups > groups + 1 else []
        wanted += [f"rows {rows} to {all_rows - 1}, "] if all_rows > rows + 1 else []
        for words in wanted or ["padding: "]:
            self.assertIn(words, text)
        # In memory each real scale stands once, at its byte: the first of a word of four, or by itself.
        for line in text.split("\nmemory, ")[1].splitlines()[1:]:
            words = line.split()
            at = int(words[0]) if words[0] != ".." else 0
            for word in words[1:]:
                if word == "..":
                    break
                if found := re.match(r"(\d+):(\d+)", word):
                    self.assertEqual(expected(layout, int(found[1]), int(found[2]), rows, groups, size), at)
                at += size if layout in ("row", "col", "col_aligned") else 4
            self.assertEqual(line, line.rstrip())

    def test_token_tensor_and_padded_cols(self):
        self.assertIn("at byte m * 4\n", self.explain("--format", "int8", "--grain", "token", "--rows", 9, "--cols", 7))
        self.assertIn("f32 [1, 1], 4 bytes", self.explain("--format", "e5m2", "--grain", "tensor", "--rows", 9,
                                                          "--cols", 7))
        text = self.explain(*FORMATS["nvfp4"], "--rows", 2, "--cols", 17, "--padded-cols", 80, "--layout", "tile8x4")
        self.check(text, "tile8x4", 2, 5, 1)

    def test_refusals(self):
        for says, arguments in (
                ("--rows", ("--format", "e4m3", "--cols", 7)), ("--rows", ("--format", "e4m3", "--rows", 0)),
                ("format", ("--rows", 1, "--cols", 7)), ("none", ("--format", "none", "--rows", 1, "--cols", 7)),
                ("layout", ("--format", "e4m3", "--layout", "tile8x4", "--rows", 1, "--cols", 7)),
                ("no option --act", ("--act", "silu")), ("no option --scale", ("--scale", 1)),
                ("2^31", (*FORMATS["mxfp8"], "--rows", 2 ** 31 - 1, "--cols", 32))):
            self.assertIn(says, self.explain(*arguments, code=2))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(__doc__)
    EPIQ = os.path.abspath(sys.argv.pop(1))
    unittest.main()
