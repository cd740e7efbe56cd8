#!/usr/bin/env bash
# analyze.sh: looks at the sources of the library, the command and the plugins with clang-tidy (.clang-tidy), cppcheck
# and gcc -fanalyzer (suppressions.txt). The last line says `N passed, N failed`; findings stand above it.
# SPDX-License-Identifier: Apache-2.0
#
#     analyze.sh [clang-tidy] [cppcheck] [gcc]      without: all three
#
# The kernels (rows_*.c) are looked at as rows_c.c: the others have the same formulas on other lanes. gcc's analyzer of
# version 12 knows C only.
#
# Seen failing: all three, with an array read one element behind its end in src/io/io.c.
set -u
cd "$(dirname "$0")/../.." || exit
build=build/test
tools=("$@")
[ $# -gt 0 ] || tools=(clang-tidy cppcheck gcc)
[ -f $build/compile_commands.json ] || tools/setup/configure.sh $build -DCMAKE_BUILD_TYPE=Release -DEPIQ_TESTS=ON \
    -DEPIQ_WERROR=ON -DPython3_EXECUTABLE="$PWD/build/venv/bin/python" || exit

c_files=(src/core/*.c src/cpu/driver.c src/cpu/pool.c src/cpu/rows_c.c src/ffi/*.c src/io/*.c tools/*.c)
cxx_files=(plugin/tensorrt/trt_call.cpp plugin/tensorrt/trt_device_host.cpp plugin/tensorrt/trt_fields.cpp
    plugin/tensorrt/trt_host.cpp plugin/tensorrt/trt_kernel.cpp plugin/tensorrt/trt_plugin.cpp)
passed=0 failed=0
verdict() { # verdict STATUS WHAT
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1)) && echo "$2: nothing found"
    else
        failed=$((failed + 1)) && echo "$2: failed"
    fi
}
there() {
    command -v "$1" >/dev/null && return
    echo "$1 is not here (Debian: apt-get install $1)" && failed=$((failed + 1))
    return 1
}

suppressed() { # suppressed TOOL FILE: its lines of suppressions.txt
    grep -E "^$1 $2 " tools/setup/suppressions.txt
}

for tool in "${tools[@]}"; do
    case $tool in
    clang-tidy)
        there clang-tidy || continue
        # A suppression takes out the line of the finding; what it was about may follow, and is no finding.
        printf '%s\n' "${c_files[@]}" "${cxx_files[@]}" |
            xargs -n 1 -P "${JOBS:-$(nproc)}" clang-tidy -p $build --quiet 2>/dev/null >$build/clang-tidy.log
        findings=$(grep -E ' (error|warning): ' $build/clang-tidy.log | sed "s|^$PWD/||" | sort -u |
            grep -vE -f <(suppressed clang-tidy '.*' | awk '{ print "^" $2 ":.*[[]" $3 "[],]" }'))
        [ -z "$findings" ] || echo "$findings"
        test -z "$findings" -a -f $build/clang-tidy.log
        verdict $? clang-tidy
        ;;
    cppcheck)
        there cppcheck || continue
        cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
            --error-exitcode=1 --suppressions-list=<(suppressed cppcheck '.*' | awk '{ print $3 ":" $2 }') \
            -Iinclude -Isrc -D__x86_64__ -D__GNUC__=12 -D__STDC_VERSION__=201112L "${c_files[@]}"
        verdict $? cppcheck
        ;;
    gcc)
        there gcc || continue
        status=0
        for file in "${c_files[@]}"; do
            mapfile -t no < <(suppressed gcc "$file" | awk '{ print "-Wno-" $3 }')
            gcc -std=c11 -O2 -fanalyzer -Wall -Wextra -Werror "${no[@]}" -Iinclude -Isrc -c "$file" -o /dev/null ||
                status=1
        done
        verdict $status "gcc -fanalyzer"
        ;;
    *) echo "analyze.sh: no tool is called $tool" >&2 && exit 2 ;;
    esac
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
