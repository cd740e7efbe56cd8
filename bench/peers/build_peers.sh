#!/usr/bin/env bash
# build_peers.sh: the shared libraries of peers that bench/gpu_sweep.py loads. SPDX-License-Identifier: Apache-2.0
#
#     bench/peers/build_peers.sh FLASHINFER_FOLDER OUT [CUTLASS_FOLDER]
#
# FLASHINFER_FOLDER: a checkout of github.com/flashinfer-ai/flashinfer (include and csrc are read); '-' for none.
# CUTLASS_FOLDER: a checkout of github.com/NVIDIA/cutlass, FLASHINFER_FOLDER/3rdparty/cutlass unless given; without it
# FlashInfer's FP8 quantizers are left out. ARCH (90) and NVCC from the environment. Writes OUT/libpeer_flashinfer.so
# and OUT/libpeer_seed_a.so, with the CUDA runtime inside. Takes minutes: a header holds whole matrix products.
set -u
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
flashinfer=$1 out=$2 cutlass=${3:-$1/3rdparty/cutlass}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
arch=${ARCH:-90}
flags=(-std=c++17 -O3 -gencode "arch=compute_$arch,code=sm_$arch" -shared -cudart static -Xcompiler -fPIC
    -Xcompiler -fvisibility=hidden --expt-relaxed-constexpr -diag-suppress 177 -w -Xlinker -s)
failed=0

compile() { # compile NAME ARGUMENTS...
    local name=$1
    shift
    if "${NVCC:-nvcc}" "${flags[@]}" "$@" -o "$out/libpeer_$name.so" 2>"$out/$name.log"; then
        echo "built $out/libpeer_$name.so ($*)"
    else
        return 1
    fi
}

compile seed_a "$here/seed_a.cu" || { cat "$out/seed_a.log" >&2; failed=1; }
if [ "$flashinfer" != - ]; then
    internal=$flashinfer/csrc/nv_internal
    compile flashinfer -t 0 "$here/flashinfer.cu" "$here/flashinfer_quantizers.cu" \
        "$internal"/cpp/common/{envUtils,logger,stringUtils,tllmException}.cpp -DENABLE_BF16 -DENABLE_FP8 -DNDEBUG \
        -I"$flashinfer/include" -I"$internal" -I"$internal/include" -I"$cutlass/include" -lcuda -lnvrtc \
        || { echo "without FlashInfer's FP8 quantizers: $(grep -m1 error "$out/flashinfer.log")" >&2
             compile flashinfer "$here/flashinfer.cu" -I"$flashinfer/include"; } \
        || { cat "$out/flashinfer.log" >&2; failed=1; }
fi
exit $failed
