#!/usr/bin/env bash
# configure.sh: runs cmake for one build folder, or says what is missing.
# SPDX-License-Identifier: Apache-2.0
#
#     configure.sh FOLDER [cmake options]      (CC from the environment if set)
set -eu
cd "$(dirname "$0")/../.."
folder=$1
shift

missing() {
    echo "epiq needs $1, which was not found. Install it and try again:" >&2
    echo "    Debian, Ubuntu:  sudo apt-get install $2" >&2
    echo "    Fedora:          sudo dnf install $3" >&2
    exit 1
}

command -v cmake >/dev/null || missing "cmake 3.22 or later" cmake cmake
compiler=${CC:-}
if [ -n "$compiler" ]; then
    command -v "${compiler%% *}" >/dev/null || { echo "CC=$compiler: there is no such program" >&2; exit 1; }
else
    for name in cc gcc clang; do
        if command -v "$name" >/dev/null; then compiler=$name && break; fi
    done
    [ -n "$compiler" ] || missing "a C compiler" gcc gcc
fi
if ! echo '#include <stdint.h>
#include <stdlib.h>' | $compiler -E - >/dev/null 2>&1; then
    missing "the headers of the C library for $compiler" libc6-dev glibc-devel
fi

# A cache made in another place or for another compiler cannot be mended by cmake: start afresh.
stamp="$PWD|$compiler"
if [ -f "$folder/CMakeCache.txt" ] && [ "$(cat "$folder/configured_for" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$folder"
fi
mkdir -p "$folder"
printf '%s' "$stamp" >"$folder/configured_for"

log=$folder/configure.log
if ! CC=$compiler cmake -S . -B "$folder" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
