#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""versions.py: the version of the public header is that of `epiq --version`, of the newest heading of CHANGELOG.md and
of SECURITY.md, and its spec revision that of doc/spec.md.

usage: versions.py SOURCE_ROOT EPIQ_COMMAND

Seen failing: with EPIQ_VERSION 101 in the header, with a CHANGELOG that begins with 0.2.0, with EPIQ_SPEC_REVISION 2,
and with 0.2 in SECURITY.md.
"""

import re
import subprocess
import sys
from pathlib import Path


def main():
    root, command = Path(sys.argv[1]), sys.argv[2]
    header = (root / "include/epiq/epiq.h").read_text()
    number = int(re.search(r"^#define EPIQ_VERSION (\d+)", header, re.M).group(1))
    revision = re.search(r"^#define EPIQ_SPEC_REVISION (\d+)", header, re.M).group(1)
    version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    faults = []

    def agree(what, found, wanted):
        if found != wanted:
            faults.append(f"{what}: {found}, but the header says {wanted}")

    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    agree("epiq --version", said.strip(), f"epiq {version} (spec revision {revision})")
    newest = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(), re.M)
    agree("CHANGELOG.md", newest and newest.group(1), version)
    spec = re.search(r"[Rr]evision\D{0,20}(\d+)", (root / "doc/spec.md").read_text())
    agree("doc/spec.md, revision", spec and spec.group(1), revision)
    series = re.search(r"^\| (\d+\.\d+)\.x \| yes", (root / "SECURITY.md").read_text(), re.M)
    agree("SECURITY.md, series with fixes", series and series.group(1), version.rpartition(".")[0])
    print("\n".join(faults) if faults else f"version {version}, spec revision {revision}, everywhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
