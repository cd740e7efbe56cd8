#!/usr/bin/env bash
# install_test_deps.sh: sees that everything `make test` needs is there, and installs with apt what is not.
# SPDX-License-Identifier: Apache-2.0
#
# Looks for programs, headers and libraries themselves, so that it is content on any distribution that has them.
set -eu
cd "$(dirname "$0")/../.."

has_program() { command -v "$1" >/dev/null 2>&1; }
has_python_venv() { has_program python3 && python3 -c 'import venv, ensurepip' 2>/dev/null; }
has_library() { has_program pkg-config && pkg-config --exists "$1"; }
has_c_headers() { echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1; }

wanted=()
want() { # want PACKAGE TEST...: notes the apt package if the test fails
    local package=$1
    shift
    "$@" || wanted+=("$package")
}
look() {
    wanted=()
    want gcc has_program cc
    want g++ has_program g++
    want libc6-dev has_c_headers
    want cmake has_program cmake
    want make has_program make
    want binutils has_program nm
    want pkg-config has_program pkg-config
    want clang has_program clang
    want clang-format has_program clang-format
    want libcmocka-dev has_library cmocka
    want libmpfr-dev has_library mpfr
    want libgmp-dev has_library gmp
    want zlib1g-dev has_library zlib
    if [ "$(uname -m)" != aarch64 ]; then # other CPUs, emulated
        want gcc-aarch64-linux-gnu has_program aarch64-linux-gnu-gcc
        want libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdlib.h
    fi
    want qemu-user has_program qemu-aarch64
    want python3 has_program python3
    want python3-venv has_python_venv
}

give_up() {
    echo "The tests need packages that are missing, and $1. Install them and try again:" >&2
    echo "    apt-get install ${wanted[*]}" >&2
    exit 1
}

look
if [ ${#wanted[@]} -gt 0 ]; then
    echo "installing: ${wanted[*]}"
    has_program apt-get || give_up "there is no apt-get here"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        has_program sudo || give_up "this is neither root nor has it sudo"
        as_root="sudo"
        [ -t 0 ] || as_root="sudo -n" # nobody is there to type a password
    fi
    export DEBIAN_FRONTEND=noninteractive
    install="$as_root apt-get install -y --no-install-recommends ${wanted[*]}"
    $install >/dev/null 2>&1 || { $as_root apt-get update && $install; } || give_up "apt-get could not install them"
    look
    [ ${#wanted[@]} -eq 0 ] || give_up "they are still not found after apt-get installed them"
fi

# Python packages, once for each content of requirements.txt.
requirements=tools/setup/requirements.txt
venv=build/venv
if ! cmp -s $requirements $venv/installed.txt ||
    ! $venv/bin/python -c 'import numpy, ml_dtypes, mpmath' 2>/dev/null; then
    echo "making $venv with the packages of $requirements"
    rm -rf $venv
    mkdir -p build
    python3 -m venv $venv
    if ! $venv/bin/python -m pip install --quiet --disable-pip-version-check -r $requirements; then
        echo "pip could not install the packages of $requirements (see above)." >&2
        exit 1
    fi
    cp $requirements $venv/installed.txt
fi
