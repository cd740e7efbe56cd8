#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layouts.py: writes the generated blocks of doc/layouts.md, so that the library itself draws them.

usage: layouts.py EPIQ [--check]        (EPIQ: path of the built command; --check compares and writes nothing)

A block stands between `<!-- generated: COMMAND -->` and `<!-- end -->`. COMMAND is a call of epiq whose output the
block holds, or `packing`: the codes and scales of one block of values in each format with blocks.
"""

import difflib
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "doc" / "layouts.md"
BLOCK = re.compile(r"(<!-- generated: (.*?) -->\n).*?(<!-- end -->)", re.S)
VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
VALUES += [-value for value in VALUES]


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def tensors_of(path):
    data = path.read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    return {name: data[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


def packing(epiq):
    """32 columns, VALUES twice; the first 16 codes as they are stored."""
    with tempfile.TemporaryDirectory(prefix="epiq-layouts-") as folder:
        x, q = Path(folder, "x.npy"), Path(folder, "q.safetensors")
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 32), }".ljust(117) + "\n"
        x.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                      struct.pack("<32f", *VALUES * 2))

        def row(name, cells, width):
            return f"{name:14}" + "".join(f"{cell:>{width}}" for cell in cells)

        lines = [row("column", range(16), 5), row("y", [f"{value:g}" for value in VALUES], 5)]
        scales = []
        for name, options in (("mxfp4", []), ("nvfp4", ["--inv-scale", "1"]), ("mxfp8", [])):
            run(epiq, "quantize", str(x), "-o", str(q), "--format", name, *options)
            tensors = tensors_of(q)
            codes = tensors["q"][:16 if name == "mxfp8" else 8].hex(" ").split()
            lines.append(row(f"{name} codes", codes, 80 // len(codes)))
            scales.append(f"{name} {tensors['scale'][:1].hex()}")
        return "\n".join(lines + ["first scale byte: " + ", ".join(scales)]) + "\n"


def content(epiq, command):
    if command == "packing":
        return packing(epiq)
    words = command.split()
    assert words[0] == "epiq", command
    return run(epiq, *words[1:])


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(__doc__)
    old = PAGE.read_text(encoding="ascii")
    count = 0

    def fill(block):
        nonlocal count
        count += 1
        return f"{block[1]}\n```text\n{content(sys.argv[1], block[2]).strip()}\n```\n\n{block[3]}"

    new = BLOCK.sub(fill, old)
    if count == 0 or new.count("<!-- generated:") != count:
        sys.exit(f"{PAGE}: {count} blocks, and not every marker has its end")
    if new == old:
        print(f"{count} blocks are those of the library")
    elif sys.argv[2:]:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "doc/layouts.md",
                                                   "what the library says"))
        sys.exit("doc/layouts.md differs: `tools/doc/layouts.py EPIQ` writes it")
    else:
        PAGE.write_text(new, encoding="ascii")
        print(f"{count} blocks written")


if __name__ == "__main__":
    main()
