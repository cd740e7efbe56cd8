#!/usr/bin/env bash
# reproducible.sh: two builds, from copies of the sources in different folders, give the same libraries byte for byte.
# SPDX-License-Identifier: Apache-2.0
#
# usage: reproducible.sh CC SOURCE_ROOT
#
# Seen failing: with __FILE__ in src/core/words.c and -ffile-prefix-map removed from epiq_flags.cmake.
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
build "$work/a/place with a blank/there"

status=0
for name in libepiq.so libepiq.a plugin/tensorrt/libepiq_trt.so; do
    [ -f "$work/here/build/$name" ] || [ $name != plugin/tensorrt/libepiq_trt.so ] || continue # no C++ compiler
    if ! cmp "$work/here/build/$name" "$work/a/place with a blank/there/build/$name"; then
        echo "$name depends on the folder in which it is built"
        status=1
    fi
done
[ $status = 0 ] && echo "the libraries are the same from both folders"
exit $status
