# epiq_cxx.cmake: finds out whether the plugins, which are C++, can be built by default; the library is C alone.
# SPDX-License-Identifier: Apache-2.0

# With clang as C compiler take its own C++ compiler: the two meet in one program, also under sanitizers.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND CMAKE_C_COMPILER MATCHES "^(.*/clang)(-[0-9.]+)?$")
    find_program(EPIQ_CLANG_CXX NAMES ${CMAKE_MATCH_1}++${CMAKE_MATCH_2} NO_DEFAULT_PATH)
    if(EPIQ_CLANG_CXX)
        set(CMAKE_CXX_COMPILER ${EPIQ_CLANG_CXX})
    endif()
    unset(EPIQ_CLANG_CXX CACHE)
endif()

set(EPIQ_TRT_DEFAULT OFF)
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED EPIQ_TRT)
    include(CheckLanguage)
    check_language(CXX)
    if(CMAKE_CXX_COMPILER)
        set(EPIQ_TRT_DEFAULT ON)
    endif()
endif()
