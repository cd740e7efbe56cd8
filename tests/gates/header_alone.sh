#!/usr/bin/env bash
# header_alone.sh: the public header compiles alone, without a warning, in every language it is meant for; no struct
# has padding.
# SPDX-License-Identifier: Apache-2.0
#
# usage: header_alone.sh INCLUDE_FOLDER
#
# Seen failing: with `reserved` removed from epiq_matrix (-Wpadded), with `int32_t tail[];` as a last field
# (-pedantic), and with epiq_version() declared without a prototype.
set -eu
include=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
tried=0

warnings="-Wall -Wextra -pedantic -Wpadded -Wshadow -Wconversion -Werror"
echo '#include <epiq/epiq.h>' >"$work/alone.c"
cp "$work/alone.c" "$work/alone.cpp"

compile() { # compile COMPILER STANDARD FILE [more flags]
    local compiler=$1 standard=$2 file=$3
    shift 3
    command -v "$compiler" >/dev/null || { echo "$compiler is not here: not tried"; return; }
    tried=$((tried + 1))
    if ! "$compiler" -std="$standard" $warnings "$@" -I"$include" -fsyntax-only "$work/$file"; then
        echo "epiq.h does not compile alone with $compiler -std=$standard"
        status=1
    fi
}
for compiler in gcc clang; do
    for standard in c11 c17 c2x; do
        compile $compiler $standard alone.c -Wstrict-prototypes
    done
done
for compiler in g++ clang++; do
    for standard in c++11 c++17 c++20; do
        compile $compiler $standard alone.cpp
    done
done
[ $tried -gt 0 ] || { echo "no compiler was tried"; exit 1; }
[ $status = 0 ] && echo "epiq.h compiles alone in $tried ways"
exit $status
