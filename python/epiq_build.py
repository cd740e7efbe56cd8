# SPDX-License-Identifier: Apache-2.0
"""epiq_build.py: the PEP 517 backend of pyproject.toml. A wheel is the package in python/epiq with the shared library,
the public header and a CMake package beside it; it fits every Python 3.9 and later of its platform.

    pip install .                                             the CPU backends
    pip install . -C cmake=-DEPIQ_CUDA=ON                     more options for cmake, separated by blanks
    pip wheel . -w dist                                       the wheel alone
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "epiq"
# What a source archive holds: enough to build the wheel and to read about it.
SOURCES = ["CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "cmake", "include", "python", "src"]

CONFIG = """\
# find_package(epiq) with the package's folder in CMAKE_PREFIX_PATH (epiq.cmake_dir() in Python): gives epiq::epiq.
get_filename_component(_epiq "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
if(NOT TARGET epiq::epiq)
    add_library(epiq::epiq SHARED IMPORTED)
    set_target_properties(epiq::epiq PROPERTIES
        IMPORTED_LOCATION "${_epiq}/libepiq.so"
        IMPORTED_SONAME libepiq.so
        INTERFACE_INCLUDE_DIRECTORIES "${_epiq}/include")
endif()
unset(_epiq)
"""
CONFIG_VERSION = """\
set(PACKAGE_VERSION "@VERSION@")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION OR NOT PACKAGE_FIND_VERSION_MAJOR STREQUAL "@MAJOR@")
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
"""


def version() -> str:
    number = int(re.search(r"^#define EPIQ_VERSION (\d+)", (ROOT / "include/epiq/epiq.h").read_text(), re.M)[1])
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def metadata() -> str:
    fields = [("Metadata-Version", "2.1"), ("Name", "epiq"), ("Version", version()),
              ("Summary", "Activation, normalisation and quantization in one pass, the same bytes on every backend"),
              ("License", "Apache-2.0"), ("Requires-Python", ">=3.9"), ("Provides-Extra", "jax"),
              ("Requires-Dist", "jax-tvm-ffi; extra == 'jax'"), ("Description-Content-Type", "text/markdown")]
    return "".join(f"{name}: {text}\n" for name, text in fields) + "\n" + (ROOT / "README.md").read_text()


def tag() -> str:
    return "py3-none-" + re.sub(r"[^A-Za-z0-9]", "_", sysconfig.get_platform())


# ---- The hooks ---------------------------------------------------------


def get_requires_for_build_wheel(config_settings=None):
    return [] if shutil.which("cmake") else ["cmake>=3.22"]


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = Path(metadata_directory) / f"epiq-{version()}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(metadata())
    return folder.name


def build_library(config_settings, work: Path) -> Path:
    """Compiles libepiq.so without a version in its name: a wheel holds no links."""
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DEPIQ_TOOLS=OFF", "-DEPIQ_INSTALL=OFF", "-DEPIQ_TESTS=OFF",
               "-DEPIQ_TRT=OFF",
               "-DCMAKE_PLATFORM_NO_VERSIONED_SONAME=ON", "-DCMAKE_SHARED_LINKER_FLAGS=-s"]
    given = (config_settings or {}).get("cmake", [])
    options += given.split() if isinstance(given, str) else [word for part in given for word in part.split()]
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(work), *options], check=True)
    subprocess.run(["cmake", "--build", str(work), "--target", "epiq",
                   "--parallel", str(os.cpu_count() or 1)], check=True)
    return work / "libepiq.so"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = f"epiq-{version()}.dist-info"
    files = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and path.suffix in (".py", ".typed"):
            files[f"epiq/{path.relative_to(PACKAGE).as_posix()}"] = path.read_bytes()
    with tempfile.TemporaryDirectory() as work:
        files["epiq/libepiq.so"] = build_library(config_settings, Path(work)).read_bytes()
    files["epiq/include/epiq/epiq.h"] = (ROOT / "include/epiq/epiq.h").read_bytes()
    files["epiq/cmake/epiq-config.cmake"] = CONFIG.encode()
    files["epiq/cmake/epiq-config-version.cmake"] = (
        CONFIG_VERSION.replace("@VERSION@", version()).replace("@MAJOR@", version().split(".")[0]).encode())
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: epiq_build\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode())
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    name = f"epiq-{version()}-{tag()}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    name = f"epiq-{version()}"

    def wanted(entry):
        return None if "__pycache__" in entry.name or entry.name.endswith(".so") else entry

    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for source in SOURCES:
            archive.add(ROOT / source, f"{name}/{source}", filter=wanted)
        with tempfile.TemporaryDirectory() as work:
            (Path(work) / "PKG-INFO").write_text(metadata())
            archive.add(Path(work) / "PKG-INFO", f"{name}/PKG-INFO")
    return f"{name}.tar.gz"
