#!/usr/bin/env bash
# reproducible.sh: two builds, from copies of the sources in different folders, give the same libraries byte for byte,
# and take less than a minute of CPU time each (eight seconds when the bound was set).
# SPDX-License-Identifier: Apache-2.0
#
# usage: reproducible.sh CC SOURCE_ROOT
#
# Seen failing: with __FILE__ in src/core/words.c and -ffile-prefix-map removed from epiq_flags.cmake; with a bound of
# 3 seconds.
set -eu
cc=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # build FOLDER: a copy of what the library is made of, then the library
    mkdir -p "$1"
    cp -r "$source"/{CMakeLists.txt,LICENSE,cmake,include,src,plugin} "$1"
    CC=$cc cmake -S "$1" -B "$1/build" -DCMAKE_BUILD_TYPE=Release -DEPIQ_TOOLS=OFF >"$work/log" 2>&1 &&
        cmake --build "$1/build" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}
build "$work/here"
times >"$work/times"
build "$work/a/place with a blank/there"

status=0
bound=60
seconds=$(awk 'NR == 2 { split($1, t, /[ms]/); print int(t[1] * 60 + t[2]) }' "$work/times")
if [ "$seconds" -ge $bound ]; then
    echo "building the libraries took $seconds seconds of CPU time, at most $bound are allowed"
    status=1
fi
for name in libepiq.so libepiq.a plugin/tensorrt/libepiq_trt.so; do
    [ -f "$work/here/build/$name" ] || [ $name != plugin/tensorrt/libepiq_trt.so ] || continue # no C++ compiler
    if ! cmp "$work/here/build/$name" "$work/a/place with a blank/there/build/$name"; then
        echo "$name depends on the folder in which it is built"
        status=1
    fi
done
[ $status = 0 ] && echo "the libraries are the same from both folders; building took $seconds seconds of CPU time"
exit $status
