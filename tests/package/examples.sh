#!/usr/bin/env bash
# examples.sh: the example programs run and print what they should.
# SPDX-License-Identifier: Apache-2.0
#
# usage: examples.sh ACT_MUL_HOST RMS_NORM_HOST
#
# Seen failing: with one byte of an expected line changed.
set -eu
status=0

expect() { # expect PROGRAM: compares its output with standard input
    if ! diff - <("$1"); then
        echo "${1##*/} prints something else"
        status=1
    fi
}
expect "$1" <<'TEXT'
codes of silu(gate) * up, value = code / 16
 b9 c1 c7 c9 00 54 5e 63
 c1 c9 cf d1 00 5c 66 6b
TEXT
expect "$2" <<'TEXT'
32 bytes of codes, 512 of scales
row 0 group 0 scale 7e codes ef bd 30 65 ef bd 30 65
row 0 group 1 scale 7e codes ef bd 30 65 ef bd 30 65
row 1 group 0 scale 7e codes ef bd 30 65 ef bd 30 65
row 1 group 1 scale 7e codes de 0b 53 76 de 0b 53 76
TEXT
exit $status
