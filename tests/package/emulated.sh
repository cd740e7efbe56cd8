#!/usr/bin/env bash
# emulated.sh: CPUs that this machine is not, under qemu-user: the same bytes, and backends that are not there refused.
# SPDX-License-Identifier: Apache-2.0
#
#     emulated.sh COMMAND TEST_LANES TOP        (the `epiq` command and test_lanes as built for this machine)
#
# x86-64: the binaries themselves, on a CPU without AVX and on one without AVX-512. AArch64: from a cross compiler.
# `epiq check` compares the backends with c on each; its digest compares c on one machine with c on another.
#
# Seen failing: with one lane of lane_neon.h's vf_max_nan wrong, with epiqi_usable answering EPIQ_OK for every backend
# (the emulator stops at an unknown instruction), and with a constant of act.h changed under __aarch64__ alone.
set -eu
command=$1
lanes=$2
top=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*" >&2
    exit 1
}
digest() { sed -n 's/^digest *\([0-9a-f]*\),.*/\1/p' "$1"; }
compare() { # compare WHAT FILE: the output of `epiq check` on another CPU
    [ "$(digest "$2")" = "$(digest "$work/here")" ] || fail "$1: c writes other bytes than on this machine"
}
usable() { # usable FILE BACKEND
    grep -q "^$2 .*self-test passed" "$1"
}
misses_an_index() { # a fault of qemu 7.2, met only where the compiler takes that register; CPUs do it right
    cat >"$work/gather.c" <<'END'
#include <stdint.h>
int main(void)
{
    uint32_t table[8] = {9, 9, 9, 9, 9, 9, 9, 7}, index[8] = {7, 7, 7, 7, 7, 7, 7, 7}, found[8];
    __asm__("vmovdqu (%1), %%ymm4; vpcmpeqd %%ymm7, %%ymm7, %%ymm7; vpgatherdd %%ymm7, (%2, %%ymm4, 4), %%ymm3;"
            "vmovdqu %%ymm3, (%0)" : : "r"(found), "r"(index), "r"(table) : "xmm3", "xmm4", "xmm7", "memory");
    return found[0] == 7 ? 0 : 1;
}
END
    ${CC:-cc} "$work/gather.c" -o "$work/gather" && "$work/gather" && ! qemu-x86_64 -cpu Haswell "$work/gather"
}

"$command" check >"$work/here"
[ -n "$(digest "$work/here")" ] || fail "epiq check prints no digest"
ran=0

if [ "$(uname -m)" = x86_64 ] && command -v qemu-x86_64 >/dev/null; then
    for model in Nehalem Haswell; do
        if ! qemu-x86_64 -cpu $model "$command" check >"$work/x86"; then
            cat "$work/x86"
            { [ $model = Haswell ] && misses_an_index; } || fail "$model: a check failed"
            echo "$model: avx2 not compared, this emulator is wrong: it reads vpgatherdd with index ymm4 as without one"
        fi
        qemu-x86_64 -cpu $model "$lanes"
        compare "$model" "$work/x86"
        ! usable "$work/x86" avx512 || fail "$model: avx512 is said to be usable"
        if [ $model = Haswell ]; then
            usable "$work/x86" avx2 || fail "$model: avx2 is said not to be usable"
        else
            ! usable "$work/x86" avx2 || fail "$model: avx2 is said to be usable"
        fi
        status=0
        qemu-x86_64 -cpu $model "$command" check --backend avx512 >"$work/refused" 2>&1 || status=$?
        [ $status = 3 ] || fail "$model: check --backend avx512 ends with $status, not 3"
        grep -q "lacks.* avx512f" "$work/refused" || { cat "$work/refused" && fail "$model: no reason is given"; }
        echo "$model: the bytes of this machine"
        ran=$((ran + 1))
    done
fi

cross=aarch64-linux-gnu-gcc
if command -v qemu-aarch64 >/dev/null && command -v $cross >/dev/null; then
    build=$work/aarch64
    cmake -S "$top" -B "$build" -DCMAKE_C_COMPILER=$cross -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
        -DCMAKE_BUILD_TYPE=Release -DEPIQ_WERROR=ON >"$work/log" 2>&1 &&
        cmake --build "$build" --target epiq_command epiq_static >"$work/log" 2>&1 ||
        { cat "$work/log" && fail "aarch64: does not build"; }
    flags="-std=c11 -O2 -ffp-contract=off -fno-math-errno -I$top/src -I$top/include"
    (cd "$top/tests/exhaustive" && $cross $flags test_lanes.c lanes_c.c lanes_neon.c "$build/libepiq.a" -lpthread \
        -o "$work/lanes")
    run="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    $run "$build/epiq" check >"$work/arm" || { cat "$work/arm" && fail "aarch64: a check failed"; }
    $run "$work/lanes"
    compare aarch64 "$work/arm"
    usable "$work/arm" neon || fail "aarch64: neon is said not to be usable"
    echo "aarch64: the bytes of this machine"
    ran=$((ran + 1))
fi

[ $ran -gt 0 ] || { echo "neither qemu-x86_64, nor qemu-aarch64 with $cross" && exit 77; }
