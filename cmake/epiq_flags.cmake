# epiq_flags.cmake: every compiler and linker flag that epiq sets, and why. No other file sets one.
# SPDX-License-Identifier: Apache-2.0

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

# The bytes of epiq are defined by IEEE 754 arithmetic. Flags that let the compiler change it are refused here rather
# than overruled below: some compilers also link start-up code for them that flushes subnormals in the whole process.
if("${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}} ${CMAKE_SHARED_LINKER_FLAGS}" MATCHES
        "-(ffast-math|Ofast|funsafe-math-optimizations|ffinite-math-only|fassociative-math|freciprocal-math)")
    message(FATAL_ERROR "epiq cannot be compiled with ${CMAKE_MATCH_0}: its results are defined by IEEE arithmetic. "
        "Remove it from CFLAGS.")
endif()

set(EPIQ_ARITHMETIC_FLAGS
    $<$<NOT:$<CONFIG:Debug>>:-O2> # one level for all build types that optimise
    -ffp-contract=off             # a * b + c keeps its two roundings; a fused one is written as such (vf_fma)
    -fno-fast-math                # no re-association, no assumption that NaN, Inf or -0 do not occur
    -fno-math-errno)              # a square root is the instruction, without a branch to the C library for errno

set(EPIQ_WARNING_FLAGS -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla)
if(EPIQ_WERROR)
    list(APPEND EPIQ_WARNING_FLAGS -Werror)
endif()

if(EPIQ_SANITIZE)
    set(EPIQ_SANITIZE_FLAGS -fsanitize=${EPIQ_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
endif()

# All C of the project: library, command, tests, examples.
function(epiq_flags target)
    target_compile_options(${target} PRIVATE
        ${EPIQ_ARITHMETIC_FLAGS}
        ${EPIQ_WARNING_FLAGS}
        -fvisibility=hidden                          # exported is what the public header marks, nothing else
        -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=    # builds in different folders give the same bytes
        ${EPIQ_SANITIZE_FLAGS})
    target_link_options(${target} PRIVATE ${EPIQ_SANITIZE_FLAGS})
endfunction()

# Row kernels: -O3 lets the compiler vectorise and unroll the loops over a tile, and so does -fno-trapping-math: the
# kernels run with all traps masked (src/core/fp_state.h). Neither changes a byte. Instructions beyond the baseline of
# the architecture are allowed in the files of their backend alone, which run only where the CPU has them.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(EPIQ_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
    set(EPIQ_ISA_FLAGS_avx512 ${EPIQ_ISA_FLAGS_avx2}
        -mavx512f -mavx512dq -mavx512bw -mavx512vl
        -mprefer-vector-width=512) # of loops that the compiler vectorises
endif()
function(epiq_kernel_flags isa)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS
        "$<$<NOT:$<CONFIG:Debug>>:-O3>;-fno-trapping-math;${EPIQ_ISA_FLAGS_${isa}}")
endfunction()

# The shared library.
function(epiq_link_flags target)
    set(map ${PROJECT_SOURCE_DIR}/cmake/epiq.map)
    target_link_options(${target} PRIVATE
        -Wl,--version-script=${map}     # a second lock on the exported names, and a version on each
        -Wl,-Bsymbolic-functions        # calls inside the library cannot be redirected from outside
        -Wl,-z,relro -Wl,-z,now         # tables of function pointers are read-only once loaded
        -Wl,--as-needed                 # depend on what is used
        $<$<CONFIG:Release>:-Wl,--strip-all> # half a megabyte of local names; other build types keep them
        ${EPIQ_SANITIZE_FLAGS})
    if(NOT EPIQ_SANITIZE)               # (the sanitizers' own symbols come from the executable)
        # libm is not on the link line: with this, a call into it does not even link.
        target_link_options(${target} PRIVATE -Wl,--no-undefined)
    endif()
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()

# C++ of the plugins and their tests. Run-time type information stays on: callers of a plugin may ask for it.
function(epiq_cxx_flags target)
    set_target_properties(${target} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    target_compile_options(${target} PRIVATE
        ${EPIQ_ARITHMETIC_FLAGS}
        -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wnon-virtual-dtor -Woverloaded-virtual
        $<$<BOOL:${EPIQ_WERROR}>:-Werror>
        -fno-exceptions -fno-threadsafe-statics # (would bring the unwinder along)
        -fvisibility=hidden -fvisibility-inlines-hidden
        -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
        ${EPIQ_SANITIZE_FLAGS})
    target_link_options(${target} PRIVATE ${EPIQ_SANITIZE_FLAGS})
endfunction()

# A plugin: what it needs of the C++ library is linked in, so that it brings no second version of it into a process.
function(epiq_plugin_link_flags target map)
    target_link_options(${target} PRIVATE
        -Wl,--version-script=${map}
        -Wl,-Bsymbolic-functions -Wl,-z,relro -Wl,-z,now -Wl,--as-needed -Wl,--gc-sections
        -static-libstdc++ -static-libgcc)
    if(NOT EPIQ_SANITIZE)
        target_link_options(${target} PRIVATE -Wl,--no-undefined)
    endif()
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()
