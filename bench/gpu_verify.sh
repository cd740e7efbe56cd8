#!/usr/bin/env bash
# gpu_verify.sh: builds the CUDA backend for the GPU here and proves it: everything that doc/verification.md records.
# SPDX-License-Identifier: Apache-2.0
#
#     bench/gpu_verify.sh [FOLDER]      (build/cuda; results in FOLDER/verify; ARCHS from the environment, 90)
set -u
cd "$(dirname "$0")/.."
folder=${1:-build/cuda}
out=$folder/verify
mkdir -p "$out"
failed=0

step() { # step NAME SECONDS COMMAND...
    local name=$1 seconds=$2 begin=$SECONDS status=0
    shift 2
    timeout "$seconds" "$@" >"$out/$name.log" 2>&1 || status=$?
    echo "== $name: $([ $status = 0 ] && echo passed || echo "FAILED, status $status") in $((SECONDS - begin)) s"
    tail -n "${LINES_OF_LOG:-6}" "$out/$name.log"
    [ $status = 0 ] || failed=1
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
step configure 100 cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=Release -DEPIQ_CUDA=ON "-DEPIQ_CUDA_ARCHS=${ARCHS:-90}" \
    -DEPIQ_CUDA_PTX=OFF
step build 300 cmake --build "$folder" --parallel
step bench_build 120 nvcc -std=c++20 -O3 -arch=native -Iinclude bench/gpu_bench.cu -o "$folder/gpu_bench" \
    -L"$folder" -lepiq -Xlinker "-rpath,$PWD/$folder"
step trt_build 100 g++ -std=c++17 -O1 -Iinclude tests/trt/mock_host.cpp tests/trt/cases_*.cpp tests/trt/trt_modes.cpp \
    -rdynamic -o "$folder/trt_mock_host" -L"$folder" -lepiq "-Wl,-rpath,$PWD/$folder" -ldl -lpthread

for name in gpu_races gpu_nvfp4; do
    step "${name}_build" 60 nvcc -std=c++20 -O2 -arch=native -Iinclude "tests/cuda/$name.cu" -o "$folder/$name" \
        -L"$folder" -lepiq -Xlinker "-rpath,$PWD/$folder"
done

step check 200 "$folder/epiq" check --backend cuda --deep
for kernels in lean1 lean2 lean4 stream general; do # those that calls as small as these would not take
    EPIQ_CUDA_KERNELS=$kernels step "check_$kernels" 100 "$folder/epiq" check --backend cuda --deep
done
# As on a GPU that comes later: without machine code for this one, from the PTX.
step ptx_configure 100 cmake -S . -B "$folder/ptx" -DCMAKE_BUILD_TYPE=Release -DEPIQ_CUDA=ON -DEPIQ_CUDA_ARCHS=80
step ptx_build 300 cmake --build "$folder/ptx" --parallel --target epiq_command
for loading in LAZY EAGER; do
    CUDA_MODULE_LOADING=$loading step "ptx_check_$loading" 100 "$folder/ptx/epiq" check --backend cuda
done
step gpu_nvfp4 30 "$folder/gpu_nvfp4"
LINES_OF_LOG=12 step gpu_races 100 "$folder/gpu_races"
for kernels in lean4 stream general; do
    EPIQ_CUDA_KERNELS=$kernels step "gpu_races_$kernels" 60 "$folder/gpu_races" 1000
done
step trt 60 "$folder/trt_mock_host" --cuda "$folder/plugin/tensorrt/libepiq_trt.so"
EPIQ_LIBRARY=$folder/libepiq.so PYTHONPATH=python step python 200 python3 -X faulthandler tests/python/gpu_check.py
LINES_OF_LOG=40 EPIQ_LIBRARY=$folder/libepiq.so PYTHONPATH=python step peers 200 python3 bench/gpu_peers.py
LINES_OF_LOG=80 step bench 60 "$folder/gpu_bench" --large --small
# The sanitizer has to find what is planted, or it says nothing of what it does not find.
cat >"$folder/planted.cu" <<'EOF'
__global__ void planted(int *p, int *q, int kind)
{
    __shared__ int s[64];
    if (kind == 0)
        p[threadIdx.x + 1] = 1;
    if (kind == 1)
        s[threadIdx.x] = 1, p[threadIdx.x] = s[63 - threadIdx.x];
    if (kind == 2)
        p[threadIdx.x] = q[threadIdx.x];
}
int main(int argc, char **argv)
{
    int *p, *q;
    cudaMalloc(&p, 64 * sizeof *p);
    cudaMalloc(&q, 64 * sizeof *q);
    planted<<<1, 64>>>(p, q, argc > 1 ? argv[1][0] - '0' : 3);
    return cudaDeviceSynchronize() != cudaSuccess;
}
EOF
step planted_build 60 nvcc -arch=native -o "$folder/planted" "$folder/planted.cu"
sanitize="compute-sanitizer --error-exitcode 1 --tool"
for planted in memcheck:0 racecheck:1 initcheck:2; do
    tool=${planted%:*}
    step "planted_$tool" 60 bash -c \
        "! $sanitize $tool $folder/planted ${planted#*:} && $sanitize $tool $folder/planted 3"
done
for tool in memcheck racecheck synccheck initcheck; do
    step "sanitizer_$tool" "${SANITIZER_SECONDS:-90}" \
        $sanitize $tool "$folder/trt_mock_host" --cuda \
        "$folder/plugin/tensorrt/libepiq_trt.so" enqueue_every_mode
    for kernels in lean4 stream; do
        EPIQ_CUDA_KERNELS=$kernels step "sanitizer_${tool}_$kernels" "${SANITIZER_SECONDS:-90}" \
            $sanitize $tool "$folder/trt_mock_host" --cuda \
            "$folder/plugin/tensorrt/libepiq_trt.so" enqueue_every_mode
    done
done
exit $failed
