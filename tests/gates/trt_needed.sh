#!/usr/bin/env bash
# trt_needed.sh: the plugin library exports what TensorRT looks for and nothing else, and needs the C library alone.
# SPDX-License-Identifier: Apache-2.0
#
# usage: trt_needed.sh LIBEPIQ_TRT.SO
#
# Seen failing: with a third function in epiq_trt.map and trt_plugin.cpp, without -static-libstdc++, and with
# thread-safe statics (whose unwinder needs the dynamic loader's own library).
set -eu
library=$1
status=0

exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort | tr '\n' ' ')
if [ "$exported" != "getCreators setLoggerFinder " ]; then
    echo "exported: $exported"
    status=1
fi
for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $needed in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.*) ;;
    *) echo "needed: $needed" && status=1 ;;
    esac
done
if readelf -d "$library" | grep -E 'RPATH|RUNPATH|TEXTREL'; then
    status=1
fi
[ $status = 0 ] && echo "exports getCreators and setLoggerFinder, needs the C library alone"
exit $status
