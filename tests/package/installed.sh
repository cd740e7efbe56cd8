#!/usr/bin/env bash
# installed.sh: what `cmake --install` writes is complete, serves outside programs from wherever it is moved, and can
# be removed again.
# SPDX-License-Identifier: Apache-2.0
#
# usage: installed.sh CC BUILD_FOLDER
#
# Seen failing: with the header's install rule removed, with an absolute prefix in epiq.pc.in, with INSTALL_RPATH
# removed, with the static library left out of the export, and with a wanted byte of outside.c changed.
set -eu
cc=$1 build=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "failed: $*"; }; }

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
lib=$(cached CMAKE_INSTALL_LIBDIR)
version=$(cached CMAKE_PROJECT_VERSION)
type=$(cached CMAKE_BUILD_TYPE | tr A-Z a-z)

# ---- Exactly these files, below DESTDIR if it is set ----
DESTDIR=$work/stage quietly cmake --install "$build" --prefix /opt/epiq
(cd "$work/stage/opt/epiq" && find . -type f -o -type l) | sort >"$work/found"
(cd "$here/../../data" && find . -type f | sed 's|^\.|./share/epiq/data|') >"$work/data"
trt=$(cached EPIQ_TRT)
if [ "$trt" = ON ]; then echo "./$lib/libepiq_trt.so" >>"$work/data"; fi
sort - "$work/data" >"$work/wanted" <<LIST
./bin/epiq
./include/epiq/epiq.h
./$lib/cmake/epiq/epiq-config-version.cmake
./$lib/cmake/epiq/epiq-config.cmake
./$lib/cmake/epiq/epiq-targets-$type.cmake
./$lib/cmake/epiq/epiq-targets.cmake
./$lib/libepiq.a
./$lib/libepiq.so
./$lib/libepiq.so.${version%%.*}
./$lib/libepiq.so.$version
./$lib/pkgconfig/epiq.pc
./share/doc/epiq/LICENSE
LIST
diff "$work/wanted" "$work/found" || fail "other files are installed (>) than wanted (<)"
if grep -rl -e "$build" -e "$work" "$work/stage"; then
    fail "the files above name the folder of the build"
fi

# ---- Removed by the manifest, nothing is left ----
while read -r file || [ -n "$file" ]; do rm "$work/stage$file"; done <"$build/install_manifest.txt"
[ -z "$(find "$work/stage" ! -type d)" ] || fail "left after removal: $(find "$work/stage" ! -type d)"

# ---- Outside programs, with the installed tree moved after its installation ----
quietly cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/moved"
prefix=$work/moved
export LD_LIBRARY_PATH=

quietly "$prefix/bin/epiq" info

export PKG_CONFIG_PATH=$prefix/$lib/pkgconfig
if [ "$trt" = ON ]; then
    [ -f "$(pkg-config --variable=trt_plugin epiq)" ] || fail "pkg-config does not find the TensorRT plugin"
fi
[ "$(pkg-config --modversion epiq)" = "$version" ] || fail "pkg-config finds version $(pkg-config --modversion epiq)"
quietly $cc -std=c11 "$here/outside.c" $(pkg-config --cflags --libs epiq) -Wl,-rpath,"$prefix/$lib" -o "$work/shared"
# pkg-config has no word for one static library among shared ones: name the archive in the place of -lepiq.
quietly $cc -std=c11 "$here/outside.c" $(pkg-config --static --cflags --libs epiq | sed 's/-lepiq/-l:libepiq.a/') \
    -o "$work/static"
readelf -d "$work/shared" | grep -q 'libepiq\.so\.0' || fail "the shared program does not need libepiq.so.0"
if readelf -d "$work/static" | grep -q libepiq; then fail "the static program needs libepiq.so"; fi

CC=$cc quietly cmake -S "$here" -B "$work/outside" -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$work/outside"

for program in "$work/shared" "$work/static" "$work/outside/outside_epiq" "$work/outside/outside_epiq_static"; do
    quietly "$program"
done
echo "installed, moved, used in four ways, removed"
