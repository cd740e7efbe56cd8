#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi_offsets.py: the layout of every public struct and the value of every constant are those of abi_offsets.txt.

usage: abi_offsets.py CC SOURCE_ROOT [--print]

Programs compiled against an older header stay right only while nothing in the committed list changes or goes away.
A line may be added, with the field or constant that it describes: `abi_offsets.py cc . --print > .../abi_offsets.txt`.

Names come from the header, numbers from the compiler. Fields must follow each other without a gap, so that a field
which this script failed to see does not go unnoticed.

Seen failing: with two fields of epiq_exec exchanged, with EPIQ_ACT_RELU renumbered, with a field appended to
epiq_sizes and not to the list, and with a line of the list removed.
"""

import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def constants_of(text):
    for body in re.findall(r"\benum\b[^;{]*\{(.*?)\}", text, flags=re.S):
        yield from re.findall(r"\b(EPIQ_\w+)\s*=", body)
    yield from ("EPIQ_UNKNOWN", "EPIQ_DEVICE(0)", "EPIQ_DEVICE(1)")


def structs_of(text):
    for name, body in re.findall(r"\btypedef struct (\w+) \{(.*?)\n\} \1;", text, flags=re.S):
        fields = []
        for declaration in filter(None, map(str.strip, body.split(";"))):
            names = re.sub(r"^(const\s+)?\w+\s", "", declaration).split(",")
            fields += [re.sub(r"\[.*", "", field).strip(" *") for field in names]
        yield name, fields
    opened = len(re.findall(r"\bstruct\s+\w*\s*\{", text))
    closed = len(re.findall(r"\btypedef struct (\w+) \{.*?\n\} \1;", text, flags=re.S))
    if opened != closed or not opened:
        sys.exit(f"the header opens {opened} structs, but this script can read {closed}")


def program_for(text):
    lines = ['#include <epiq/epiq.h>', '#include <stdio.h>', "int main(void) {"]
    for constant in constants_of(text):
        lines.append(f'printf("{constant} %lld\\n", (long long)({constant}));')
    for struct, fields in structs_of(text):
        lines.append(f'printf("{struct} size %zu\\n", sizeof({struct}));')
        for field in fields:
            lines.append(f'printf("{struct} {field} %zu %zu\\n", offsetof({struct}, {field}),'
                         f" sizeof((({struct} *)0)->{field}));")
    return "\n".join(lines + ["return 0; }", ""])


def present(compiler, source):
    text = without_comments((source / "include/epiq/epiq.h").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        file, binary = Path(folder, "print.c"), Path(folder, "print")
        file.write_text(program_for(text))
        subprocess.run([compiler, "-std=c11", f"-I{source / 'include'}", file, "-o", binary], check=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()


def gaps_of(lines):
    sizes, ends = {}, {}
    for words in map(str.split, lines):
        if words[1] == "size":
            sizes[words[0]], ends[words[0]] = int(words[2]), 0
        elif len(words) == 4:
            if int(words[2]) != ends[words[0]]:
                yield f"{words[0]}: something lies before {words[1]} that is not a listed field"
            ends[words[0]] = int(words[2]) + int(words[3])
    for struct, size in sizes.items():
        if ends[struct] != size:
            yield f"{struct}: {size} bytes, but the listed fields end at {ends[struct]}"


def main():
    compiler, source = sys.argv[1], Path(sys.argv[2]).resolve()
    lines = present(compiler, source)
    if "--print" in sys.argv:
        print("\n".join(lines))
        return 0
    committed = (source / "tests/gates/abi_offsets.txt").read_text().splitlines()
    faults = [*gaps_of(lines), *difflib.unified_diff(committed, lines, "abi_offsets.txt", "the header", "", "", 0, "")]
    print("\n".join(faults) if faults else f"{len(lines)} constants, structs and fields are where they were")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
