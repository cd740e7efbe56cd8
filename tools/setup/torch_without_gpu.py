#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_without_gpu.py: lets the PyTorch of the running Python load on a machine without the GPU libraries that it is
linked with: writes beside it, for each that is missing, a library of that name whose functions end the process.

For tests on CPUs only. Needs a C compiler, nm and readelf. Does nothing where all libraries are there.
"""

import importlib.util
import os
import re
import subprocess
import tempfile
from pathlib import Path

# Libraries of the functions whose reference does not say it.
PREFIXES = {"cublas": "libcublas", "cudnn": "libcudnn", "cufft": "libcufft", "cuFile": "libcufile", "cupti": "libcupti",
            "curand": "libcurand", "cusolver": "libcusolver", "cusparse": "libcusparse", "cusparseLt": "libcusparseLt",
            "nccl": "libnccl", "nvshmem": "libnvshmem_host"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def library_of(name, version, libraries):
    if version in libraries:
        return version
    for prefix in sorted(PREFIXES, key=len, reverse=True):
        if name.startswith(prefix):
            return next((library for library in libraries if library.startswith(PREFIXES[prefix] + ".so")), None)
    return None


def main():
    folder = Path(importlib.util.find_spec("torch").submodule_search_locations[0]) / "lib"
    files = sorted(folder.glob("*.so*"))
    needed = {name for file in files for name in re.findall(r"NEEDED.*\[(lib(?:cu|nccl|nvshmem)[^]]*)\]",
                                                           output("readelf", "-dW", file))}
    missing = sorted(name for name in needed if not (folder / name).exists() and not name.startswith("libcudart."))
    functions = {name: {} for name in missing}
    for file in files:
        for line in output("nm", "-D", "--undefined-only", file).splitlines():
            name, _, version = line.split()[-1].partition("@")
            library = library_of(name, version.lstrip("@"), missing)
            if library:
                functions[library][name] = version.lstrip("@")
    with tempfile.TemporaryDirectory() as work:
        source, script = Path(work) / "none.c", Path(work) / "none.map"
        for library, names in functions.items():
            source.write_text("#include <stdlib.h>\nvoid epiq_none(void) { abort(); }\n" + "".join(
                f'void {name}(void) __attribute__((alias("epiq_none")));\n' for name in sorted(names)))
            versions = {}
            for name, version in names.items():
                if version:
                    versions.setdefault(version, []).append(name)
            script.write_text("".join(f"{version} {{ global: {'; '.join(sorted(list_))}; }};\n"
                                      for version, list_ in versions.items()))
            options = [f"-Wl,--version-script={script}"] if versions else []
            subprocess.run([os.environ.get("CC", "cc"), "-w", "-shared", "-fPIC", f"-Wl,-soname,{library}", *options,
                            "-o",
                            folder / library, source], check=True)
    print(f"{len(missing)} empty GPU libraries beside PyTorch")


if __name__ == "__main__":
    main()
