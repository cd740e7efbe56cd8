#!/usr/bin/env bash
# run_tests.sh: builds and runs test suites; the last line says `N passed, N failed`.
# SPDX-License-Identifier: Apache-2.0
#
#     run_tests.sh [suite] [sanitized] [frameworks] [deep] [tsan] [valgrind]
#
# suite      build/test: every test but those below
# sanitized  build/sanitized: the same tests of behaviour with AddressSanitizer and UndefinedBehaviorSanitizer
# frameworks build/test: the tests labelled frameworks, with PyTorch and JAX; fetches 0.7 GB once
# deep       build/test: the tests labelled deep, which take long
# tsan       build/tsan: the tests that use threads, with ThreadSanitizer
# valgrind   build/valgrind: some programs under valgrind's memcheck, which also sees reads of bytes never written
#
# CC chooses the compiler (build/test-clang for CC=clang, and so on), JOBS the number of processes.
set -u
cd "$(dirname "$0")/../.." || exit
jobs=${JOBS:-$(nproc)}
suffix=${CC:+-$(basename "${CC%% *}")}
passed=0
failed=0
skipped=0

# build FOLDER [cmake options]
build() {
    local folder=$1
    shift
    tools/setup/configure.sh "$folder" -DCMAKE_BUILD_TYPE=Release -DEPIQ_TESTS=ON -DEPIQ_WERROR=ON \
        -DPython3_EXECUTABLE="$PWD/build/venv/bin/python" "$@" &&
        cmake --build "$folder" --parallel "$jobs"
}

# count WHAT REPORT: a number in the head of a JUnit report
count() {
    sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1
}

# run FOLDER [ctest options]: adds to the counts
run() {
    local folder=$1 report
    shift
    report=$PWD/$folder/report.xml
    rm -f "$report"
    ctest --test-dir "$folder" --parallel "$jobs" --output-on-failure --no-tests=error --output-junit "$report" "$@"
    local status=$?
    if [ ! -f "$report" ]; then
        echo "ctest gave no report for $folder"
        failed=$((failed + 1))
        return
    fi
    local tests failures skips
    tests=$(count tests "$report")
    failures=$(count failures "$report")
    skips=$(count skipped "$report")
    passed=$((passed + tests - failures - skips))
    failed=$((failed + failures))
    skipped=$((skipped + skips))
    if [ $status -ne 0 ] && [ "$failures" = 0 ]; then
        echo "ctest of $folder ended with status $status"
        failed=$((failed + 1))
    fi
}

# job TITLE FOLDER CTEST-OPTIONS [cmake options]
job() {
    local title=$1 folder=$2 options=$3
    shift 3
    echo "== $title ($folder)"
    if build "$folder" "$@"; then
        run "$folder" $options
    else
        echo "$folder did not build: counted as one failure"
        failed=$((failed + 1))
    fi
}

# Programs under valgrind, which knows no AVX-512: the backends are c and avx2. Each counts as one test.
valgrind_programs="test_npy test_safetensors test_explain test_growth test_overlap test_refusals test_sizes test_words
    test_tvm_ffi test_properties"
under_valgrind() {
    local folder=$1 program target
    echo "== some programs under valgrind ($folder)"
    command -v valgrind >/dev/null || { echo "valgrind is not here (apt-get install valgrind)" && failed=1 && return; }
    build "$folder" || { echo "$folder did not build: counted as one failure" && failed=$((failed + 1)) && return; }
    for program in $valgrind_programs; do
        memcheck "$program" "$folder/tests/$program"
    done
    for target in args backends ffi files trt; do
        [ ! -x "$folder/tests/fuzz/fuzz_$target" ] ||
            memcheck "fuzz_$target" "$folder/tests/fuzz/fuzz_$target" "tests/fuzz/corpus/$target.hex"
    done
}
memcheck() {
    local name=$1 log=$folder/valgrind.log
    shift
    if valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
        --child-silent-after-fork=yes "$@" >"$log" 2>&1; then
        echo "$name: no error" && passed=$((passed + 1))
    else
        tail -n 60 "$log"
        echo "$name: failed" && failed=$((failed + 1))
    fi
}

if tools/setup/install_test_deps.sh; then
    for suite in "$@"; do
        case $suite in
        suite) job "test suite" "build/test$suffix" "-LE deep|frameworks" ;;
        sanitized) job "test suite under sanitizers" "build/sanitized$suffix" "-LE deep|slow" \
            -DEPIQ_SANITIZE=address,undefined ;;
        frameworks)
            if tools/setup/install_frameworks.sh; then
                job "tests with PyTorch and JAX" "build/test$suffix" "-L frameworks"
            else
                failed=$((failed + 1))
            fi
            ;;
        deep) job "deep tests" "build/test$suffix" "-L deep" ;;
        tsan)
            # The tests fork while threads run; the child starts threads of its own.
            export TSAN_OPTIONS=die_after_fork=0
            job "tests with threads under ThreadSanitizer" "build/tsan$suffix" \
                "-R ^(test_executors|test_invariance|test_fp_state|trt_concurrent_enqueues|trt_clones)$" \
                -DEPIQ_SANITIZE=thread
            ;;
        valgrind) under_valgrind "build/valgrind$suffix" ;;
        *) echo "run_tests.sh: no suite is called $suite" >&2 && exit 2 ;;
        esac
    done
else
    failed=1
fi

[ $skipped -eq 0 ] || echo "$skipped skipped (the reasons stand above)"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
