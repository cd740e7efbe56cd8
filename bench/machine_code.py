#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""machine_code.py: which kernels of two builds have the same machine code.

    python3 bench/machine_code.py FIRST SECOND [--arch sm_90] [--cuobjdump PATH]

FIRST, SECOND: libraries, object files or folders of objects with CUDA images. Instructions are compared, not addresses:
what was measured or proven of one build holds for a kernel of the other that has the same. Prints the kernels that
differ and those that only one has; exit status 1 if there are any. cuobjdump is of the CUDA toolkit, or of the Python
package nvidia-cuda-cuobjdump (which needs nvidia-cuda-nvdisasm beside it on PATH).
"""

import argparse
import hashlib
import re
import subprocess
import sys
from pathlib import Path


def kernels(source, arch, cuobjdump):
    """Kernel -> hash of its instructions."""
    files = sorted(source.rglob("*.o")) if source.is_dir() else [source]
    found = {}
    for file in files:
        text = subprocess.run([cuobjdump, "-sass", "-arch", arch, file], capture_output=True, text=True).stdout
        for part in re.split(r"^\s*Function : ", text, flags=re.M)[1:]:
            name, _, code = part.partition("\n")
            lines = [re.sub(r"/\*[^*]*\*/", "", line).strip() for line in code.splitlines()
                     if re.match(r"\s+/\*[0-9a-f]{4,5}\*/", line)]
            found[name.strip()] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    given = parser.parse_args()
    first, second = (kernels(source, given.arch, given.cuobjdump) for source in (given.first, given.second))
    if not first or not second:
        sys.exit(f"{given.first if not first else given.second}: no kernel for {given.arch}")
    different = sorted(name for name in first.keys() & second.keys() if first[name] != second[name])
    only = sorted(first.keys() ^ second.keys())
    for name in different:
        print(f"differs: {name}")
    for name in only:
        print(f"only in {given.first if name in first else given.second}: {name}")
    print(f"{len(first.keys() & second.keys()) - len(different)} kernels the same, {len(different)} different, "
          f"{len(only)} in one alone")
    return 1 if different or only else 0


if __name__ == "__main__":
    sys.exit(main())
