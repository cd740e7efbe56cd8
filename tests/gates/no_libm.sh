#!/usr/bin/env bash
# no_libm.sh: the library calls no function of libm, whose results differ between versions and machines. The only ones
# with exactly one right answer, fmaf and sqrtf, are not called either: they are instructions or written out.
# SPDX-License-Identifier: Apache-2.0
#
# usage: no_libm.sh CC LIBEPIQ.SO LIBEPIQ.A
#
# Seen failing: with `expf(x)` in src/core/sizes.c (and libm on the link line, without which it does not link).
set -eu
cc=$1 shared=$2 static=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

libm=$($cc -print-file-name=libm.so.6)
[ -f "$libm" ] || { echo "no libm.so.6 to compare with: skipped"; exit 77; }
nm -D --defined-only "$libm" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/libm"
grep -qx expf "$work/libm" || { echo "cannot read the names in $libm"; exit 1; }

for library in "$shared" "$static"; do
    dynamic=
    [ "$library" = "$shared" ] && dynamic=-D
    nm $dynamic --undefined-only "$library" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u >"$work/used"
    comm -12 "$work/used" "$work/libm" >"$work/both"
    if [ -s "$work/both" ]; then
        sed "s|^|${library##*/} calls a function of libm: |" "$work/both"
        status=1
    fi
done
if readelf -d "$shared" | grep -q 'NEEDED.*libm\.'; then
    echo "${shared##*/} depends on libm"
    status=1
fi
[ $status = 0 ] && echo "no function of libm is called"
exit $status
