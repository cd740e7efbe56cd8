#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""style.py: what a text file of the repository looks like.

usage: style.py SOURCE_ROOT

Seen failing: with a tab, a trailing blank, a missing and a doubled final newline, a line of 126 characters, a
no-break space in a comment, a byte that is no UTF-8, a second file called words.c, a source without SPDX line, and a
path below a home folder.
"""

import re
import subprocess
import sys
from pathlib import Path

CODE = {".c", ".h", ".inc", ".cu", ".cuh", ".cpp", ".py", ".sh", ".cmake", ".map"}
CODE_NAMES = {"CMakeLists.txt", "Makefile", "run"}
# Content that is not ours to lay out: data, and texts taken over word for word.
VERBATIM = re.compile(r"^(LICENSE|data/.*|tests/golden/.*|tests/fuzz/corpus/.*|.*\.(safetensors|npy|bin|gz|png|svg))$")
MAY_HOLD_TABS = re.compile(r"(^|/)Makefile$")
MAY_HOLD_UNICODE = re.compile(r"^(README\.md|tools/capture/text\.txt)$")
MAY_SHARE_A_NAME = {"README.md", "CMakeLists.txt", "__init__.py"}
LONGEST_LINE = 120
# Written apart, so that this file does not hold them. Paths of somebody's machine have no place in a repository.
WORDS = ["/ho" + "me/", "/ro" + "ot/", "/wo" + "rk/", "/Us" + "ers/"]
WORD = re.compile("|".join(r"(?<![\w.-])" + re.escape(word) for word in WORDS))


def files_of(root):
    """What git tracks or would track; without git (an unpacked archive) everything outside build/."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True)
    if git.returncode == 0 and git.stdout:
        names = sorted(set(git.stdout.decode().split("\0")) - {""})
        return [name for name in names if (root / name).is_file()]
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()
                  and not {"build", ".git", "__pycache__"} & set(path.relative_to(root).parts))


def faults_of(name, data):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        yield 1, "not UTF-8"
        return
    path = Path(name)
    code = path.suffix in CODE or path.name in CODE_NAMES
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end"
    if text.endswith("\n\n"):
        yield text.count("\n"), "empty line at the end"
    if code and "SPDX-License-Identifier: Apache-2.0" not in "".join(text.splitlines(True)[:6]):
        yield 1, "no SPDX-License-Identifier line at the top"
    for number, line in enumerate(text.split("\n"), 1):
        if "\t" in line and not MAY_HOLD_TABS.search(name):
            yield number, "tab"
        if line != line.rstrip():
            yield number, "trailing blank"
        if code and len(line) > LONGEST_LINE:
            yield number, f"{len(line)} characters, longer than {LONGEST_LINE}"
        if not line.isascii() and not MAY_HOLD_UNICODE.search(name):
            yield number, "character outside ASCII: " + ascii("".join(c for c in line if not c.isascii()))
        if WORD.search(line):
            yield number, f"path of a machine: {WORD.search(line).group()}"


def main():
    root = Path(sys.argv[1]).resolve()
    names = files_of(root)
    faults, seen = [], {}
    for name in names:
        basename = Path(name).name
        if basename in seen and basename not in MAY_SHARE_A_NAME:
            faults.append(f"{name}: the name is taken by {seen[basename]}; basenames are unique, so that a word finds "
                          "its file")
        seen.setdefault(basename, name)
        if not VERBATIM.search(name):
            data = (root / name).read_bytes()
            faults += [f"{name}:{number}: {what}" for number, what in faults_of(name, data)]
    print("\n".join(faults) if faults else f"{len(names)} files are in order")
    return 1 if faults or not names else 0


if __name__ == "__main__":
    sys.exit(main())
