#!/usr/bin/env bash
# exported_symbols.sh: the shared library exports exactly the functions that the public header marks EPIQ_API and the
# tvm-ffi entry of each operation (src/ffi), and every name that the static library gives to the linker starts with
# epiq_ or epiqi_.
# SPDX-License-Identifier: Apache-2.0
#
# usage: exported_symbols.sh HEADER LIBEPIQ.SO LIBEPIQ.A
#
# Seen failing: with an EPIQ_API prototype that no file defines, with a function epiq_extra exported past the header,
# and with a global function `helper` in src/core.
set -eu
header=$1 shared=$2 static=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

tr '\n' ' ' <"$header" | grep -o 'EPIQ_API [^;(]*(' | grep -o 'epiq_[a-z0-9_]*($' | tr -d '(' >"$work/functions"
# An operation is what has an epiq_check_ twin.
sed -n 's/^epiq_check_/__tvm_ffi_epiq_/p' "$work/functions" >"$work/entries"
[ -s "$work/entries" ] || { echo "found no epiq_check_ function in $header"; exit 1; }
sort "$work/functions" "$work/entries" >"$work/declared"
# Version nodes are listed as absolute symbols (A); they are no functions.
nm -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
nm -g --defined-only "$static" | awk 'NF == 3 && $3 !~ /^epiqi?_/ { print $3 }' | sort -u >"$work/unprefixed"

[ -s "$work/declared" ] || { echo "found no EPIQ_API function in $header"; exit 1; }
if ! diff "$work/declared" "$work/exported" >"$work/difference"; then
    sed -n 's/^< /declared in the header but not exported: /p; s/^> /exported but not declared in the header: /p' \
        "$work/difference"
    status=1
fi
if [ -s "$work/unprefixed" ]; then
    sed 's/^/linked name without prefix epiq_ or epiqi_: /' "$work/unprefixed"
    status=1
fi
[ $status = 0 ] && echo "$(wc -l <"$work/exported") functions, exactly those of the header and the tvm-ffi entries"
exit $status
