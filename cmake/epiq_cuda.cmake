# epiq_cuda.cmake: the CUDA backend: architectures, flags, and how it joins the library.
# SPDX-License-Identifier: Apache-2.0

# Machine code for these, and PTX for GPUs that come later. From 100 on only targets with a suffix have the conversion
# to 4-bit floats in hardware: for a plain 100 or 120 the compiler replaces it without a word.
set(EPIQ_CUDA_ARCHS "80;86;89;90;100f;110f;120f" CACHE STRING "GPU architectures to build machine code for")
option(EPIQ_CUDA_PTX "Add PTX for GPUs that are not in EPIQ_CUDA_ARCHS" ON)

set(CMAKE_CUDA_ARCHITECTURES OFF) # set below, in words that this CMake may not know
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.9) # find_package looks at headers, which may be of another version
    message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} is CUDA ${CMAKE_CUDA_COMPILER_VERSION}: 12.9 or later is needed.")
endif()
find_package(CUDAToolkit 12.9 REQUIRED)

set(EPIQ_CUDA_FLAGS "")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.cu "__global__ void empty() {}\n")
foreach(arch ${EPIQ_CUDA_ARCHS})
    if(arch MATCHES "^1[0-9][0-9]$")
        message(FATAL_ERROR "EPIQ_CUDA_ARCHS: write ${arch}f: without the suffix e2m1 codes silently become software.")
    endif()
    execute_process(
        COMMAND ${CMAKE_CUDA_COMPILER} -gencode arch=compute_${arch},code=sm_${arch} -cubin -o empty.cubin empty.cu
        WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
        message(FATAL_ERROR "EPIQ_CUDA_ARCHS: ${CMAKE_CUDA_COMPILER} cannot build for ${arch}.")
    endif()
    list(APPEND EPIQ_CUDA_FLAGS "SHELL:-gencode arch=compute_${arch},code=sm_${arch}")
endforeach()
string(REPLACE ";" " " EPIQ_CUDA_IMAGES "${EPIQ_CUDA_ARCHS}")
if(EPIQ_CUDA_PTX)
    set(EPIQ_CUDA_PTX_FLAGS -gencode=arch=compute_90,code=compute_90)
    string(APPEND EPIQ_CUDA_IMAGES " +ptx90")
endif()
message(STATUS "epiq: GPU images for ${EPIQ_CUDA_IMAGES}")

add_library(epiq_cuda_objects OBJECT
    src/cuda/act_mul.cu
    src/cuda/act_mul_fast.cu
    src/cuda/backend_cuda.cu
    src/cuda/dequantize.cu
    src/cuda/quantize.cu
    src/cuda/quantize_fast.cu
    src/cuda/rms_norm.cu
    src/cuda/rms_norm_fast.cu
    src/cuda/self_test.cu)
foreach(name act_mul backend_cuda dequantize quantize rms_norm self_test) # no PTX of the kernels in X_fast.cu
    set_source_files_properties(src/cuda/${name}.cu PROPERTIES COMPILE_OPTIONS "${EPIQ_CUDA_PTX_FLAGS}")
endforeach()
target_include_directories(epiq_cuda_objects PRIVATE include src ${CUDAToolkit_INCLUDE_DIRS})
set_target_properties(epiq_cuda_objects PROPERTIES
    POSITION_INDEPENDENT_CODE ON CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON)
target_compile_options(epiq_cuda_objects PRIVATE
    ${EPIQ_CUDA_FLAGS}
    -O3
    --threads=2              # architectures side by side: one file takes longer than the others
    --compress-mode=size     # of the images: a tenth, for a few milliseconds at the first call
    "SHELL:-Xcompiler -fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-Wall,-Wextra")

# core/ has to know; the CUDA runtime is linked in, so that it meets no other version in a process.
function(epiq_join_cuda objects)
    target_compile_definitions(${objects} PRIVATE EPIQ_HAVE_CUDA="${EPIQ_CUDA_IMAGES}")
endfunction()
