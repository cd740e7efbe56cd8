#!/usr/bin/env bash
# install_frameworks.sh: makes build/venv-frameworks with PyTorch and JAX for the CPU, once for each content of
# frameworks.txt. About 0.7 GB are fetched and 2 GB written.
# SPDX-License-Identifier: Apache-2.0
#
# The PyTorch of the package index is built for CUDA and wants 2.5 GB of GPU libraries, none of which a CPU test calls.
# They are left out, and torch_without_gpu.py puts empty libraries of their names in their place.
set -eu
cd "$(dirname "$0")/../.."
torch=torch==2.11.0
cudart="nvidia-cuda-runtime==13.0.*" # small, and called while PyTorch loads
requirements=tools/setup/frameworks.txt
venv=build/venv-frameworks
stamp="$(cat $requirements tools/setup/torch_without_gpu.py) $torch"

if [ -f $venv/installed.txt ] && [ "$stamp" = "$(cat $venv/installed.txt)" ] &&
    $venv/bin/python -c 'import torch, jax, jax_tvm_ffi' 2>/dev/null; then
    exit 0
fi
echo "making $venv with PyTorch and JAX"
rm -rf $venv
mkdir -p build
python3 -m venv $venv
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir"
if ! $pip -r $requirements || ! $pip --no-deps $torch "$cudart"; then
    echo "pip could not install PyTorch or JAX (see above)." >&2
    exit 1
fi
$venv/bin/python tools/setup/torch_without_gpu.py
$venv/bin/python -c 'import torch; print("PyTorch", torch.__version__, "loads, with CUDA:", torch.cuda.is_available())'
printf '%s' "$stamp" >$venv/installed.txt
