# epiq: the short way to each job. CMake does the building; see CMakeLists.txt for its options.
# SPDX-License-Identifier: Apache-2.0
#
#     make run             build the library and the command, run `epiq demo`   (needs a C compiler, make, cmake)
#     make test            what CI runs: installs what the tests need, then the suite, then again under sanitizers
#     make test-frameworks the tests with PyTorch and JAX: fetches 0.7 GB, once
#     make test-all        test and test-frameworks
#     make test-deep       the long tests alone (exhaustive sweeps)
#     make test-clang      the suite built with clang
#     make test-tsan       the tests that use threads, under ThreadSanitizer
#     make test-valgrind   some test programs under valgrind
#     make test-mutation   deliberate faults, each of which the tests must catch: half an hour
#     make fuzz            fuzzes every target for ten minutes (SECONDS_EACH); needs clang's libFuzzer
#     make analyze         clang-tidy, cppcheck and gcc -fanalyzer
#     make install         to $(DESTDIR)$(PREFIX); `make uninstall` removes it again
#     make format          lay out the sources with clang-format; `make format-check` only compares
#     make clean           remove build/
#
# Variables: CC, CFLAGS, PREFIX (/usr/local), DESTDIR, JOBS (all cores).

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 1)

# make's own default for CC is no wish of the user: then CMake looks for a compiler.
ifeq ($(origin CC),default)
CC :=
endif
export CC JOBS DESTDIR

MAKEFLAGS += --no-print-directory

release := build/release

all: build

build:
	@tools/setup/configure.sh $(release) -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	@cmake --build $(release) --parallel $(JOBS)

run: build
	@$(release)/epiq demo

test:
	@tools/setup/run_tests.sh suite sanitized

test-frameworks:
	@tools/setup/run_tests.sh frameworks

test-all:
	@tools/setup/run_tests.sh suite sanitized frameworks

test-deep:
	@tools/setup/run_tests.sh deep

test-clang:
	@CC=clang tools/setup/run_tests.sh suite

test-tsan:
	@tools/setup/run_tests.sh tsan

test-valgrind:
	@tools/setup/run_tests.sh valgrind

test-mutation:
	@tools/setup/install_test_deps.sh
	@build/venv/bin/python tests/mutation/mutation.py

fuzz:
	@tools/setup/install_test_deps.sh
	@tools/setup/fuzz.sh

analyze:
	@tools/setup/install_test_deps.sh
	@tools/setup/analyze.sh

install: build
	cmake --install $(release) --prefix "$(PREFIX)"

uninstall:
	@test -f $(release)/install_manifest.txt || { echo "nothing to remove: no $(release)/install_manifest.txt"; exit 1; }
	while read -r file || [ -n "$$file" ]; do rm -f "$(DESTDIR)$$file"; done < $(release)/install_manifest.txt

format:
	@tests/gates/clang_format.sh --write

format-check:
	@tests/gates/clang_format.sh

clean:
	rm -rf build

.PHONY: all build run test test-frameworks test-all test-deep test-clang test-tsan test-valgrind test-mutation fuzz \
	analyze install uninstall format format-check clean
