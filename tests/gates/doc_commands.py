#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc_commands.py: runs the shell blocks of README.md, doc/ and other pages that carry a marker, literally, each page's
blocks one after the other in one folder that looks like the top of the tree, with this build as build/test and its
command in PATH. A block may fail in no line.

usage: doc_commands.py SOURCE_ROOT BUILD_FOLDER

The marker is the line `<!-- run by doc_commands.py -->` before the block (fenced, or indented by four). README.md and
doc/testing.md must have one.

Seen failing: with a misspelt option in README.md, with a ctest that fails in doc/testing.md, and with the marker of
README.md removed.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MARKER = "<!-- run by doc_commands.py -->"
MUST_HAVE = {"README.md", "doc/testing.md"}
FENCED = re.compile(re.escape(MARKER) + r"\n+```sh\n(.*?)^```$", re.M | re.S)
INDENTED = re.compile(re.escape(MARKER) + r"\n+((?:    .*\n|\n(?=    ))+)", re.M)
COLUMN = re.compile(r"^(    \S.*?)   +\S.*$", re.M)  # an indented line may say in a second column what it does


def blocks_of(text):
    found = [(match.start(), match.group(1)) for match in FENCED.finditer(text)]
    found += [(match.start(), COLUMN.sub(r"\1", match.group(1))) for match in INDENTED.finditer(text)]
    return [block for _, block in sorted(found)]


def main():
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    pages = [page for page in sorted(root.rglob("*.md"))
             if not {"build", ".git"} & set(page.relative_to(root).parts[:-1])]
    environment = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}")
    faults, count = [], 0
    for page in pages:
        name = page.relative_to(root).as_posix()
        text = page.read_text(encoding="utf-8")
        blocks = blocks_of(text)
        if len(blocks) != text.count(MARKER + "\n"):
            faults.append(f"{name}: a marker stands before no shell block")
        if name in MUST_HAVE and not blocks:
            faults.append(f"{name}: no block has the marker")
        with tempfile.TemporaryDirectory() as folder:
            for entry in root.iterdir():
                if entry.name not in {"build", ".git"}:
                    (Path(folder) / entry.name).symlink_to(entry)
            (Path(folder) / "build/test").mkdir(parents=True)
            for entry in build.iterdir():
                if entry.name != "Testing":  # a ctest that runs has its logs there
                    (Path(folder) / "build/test" / entry.name).symlink_to(entry)
            for block in blocks:
                count += 1
                run = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", block], cwd=folder, env=environment,
                                     text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                if run.returncode != 0:
                    faults.append(f"{name}: status {run.returncode} of\n{block}{run.stdout[-2000:]}")
    print("\n".join(faults) if faults else f"{count} blocks ran")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
