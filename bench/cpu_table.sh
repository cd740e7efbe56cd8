#!/usr/bin/env bash
# cpu_table.sh: the tables of doc/performance.md's part about CPUs, measured here, as Markdown. Builds nothing.
# SPDX-License-Identifier: Apache-2.0
#
#     bench/cpu_table.sh build/release/epiq build/release/libepiq.so
#
# Takes a minute, and half of one more with PyTorch, on an idle machine. The peers are those that PYTHON (default:
# python3) has.
set -euo pipefail
epiq=$(realpath "$1")
library=$(realpath "$2")
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
ln -s "$library" "$folder/libepiq.so.0"
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# What is measured: name in the table, name in cpu_peers.py, options of epiq bench.
static="--format e4m3 --inv-scale 2"
work=("quantize e4m3, static;quantize e4m3;quantize $static"
    "quantize e4m3, token;quantize e4m3 token;quantize --format e4m3 --grain token"
    "quantize e4m3, groups of 128;;quantize --format e4m3 --grain group --group 128"
    "rms_norm + residual, e4m3;rms_norm + residual e4m3;rms-norm --residual yes --residual-out $static"
    "SwiGLU \`direct\`, e4m3;swiglu e4m3 direct;act-mul --chain direct $static"
    "SwiGLU \`vllm\`, e4m3;swiglu e4m3 vllm;act-mul --chain vllm $static"
    "quantize mxfp8;quantize mxfp8;quantize --format mxfp8"
    "quantize nvfp4;;quantize --format nvfp4")

measure() { # measure OPTION...: ns a row, GB/s, ns a row of memcpy, share
    "$epiq" bench "$@" --cols 4096 --csv | awk -F, 'END { print $10, $11, $12, $14 }'
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)," \
    "$("$epiq" --version)"
echo
echo "One core, from memory: rows of 4096 bf16 columns, 128 a call, 512 MiB of buffers in turn."
echo
backends=()
for backend in avx512 avx2 neon; do
    "$epiq" bench quantize --format int8 --inv-scale 1 --rows 1 --backend $backend >"$folder/out" 2>&1 &&
        backends+=("$backend")
done
header="| |" line="|---|"
for backend in "${backends[@]}"; do
    header+=" ns a row, $backend | GB/s | share of memcpy |" line+="---|---|---|"
done
echo "$header"
echo "$line"
for line in "${work[@]}"; do
    IFS=';' read -r name peer call <<<"$line"
    row="| $name |"
    for backend in "${backends[@]}"; do
        measured=$(measure $call --rows 128 --cold 512 --backend "$backend")
        read -r ns gb copy share <<<"$measured"
        row+=$(printf ' %.0f | %.1f | %.2f |' "$ns" "$gb" "$share")
        [ "$backend" != "${backends[0]}" ] || echo "$peer;$ns;$copy" >>"$folder/measured"
    done
    echo "$row"
done

echo
echo "Two threads, ns a row: in cache, and calls of more than 32 MiB from memory."
echo
echo "| | rows | 1 thread | 2 threads | gain | memcpy, 1 | memcpy, 2 | gain | gain over memcpy's |"
echo "|---|---|---|---|---|---|---|---|---|"
for i in 0 5; do
    IFS=';' read -r name peer call <<<"${work[i]}"
    for where in "8" "64" "512" "4096 --cold 512"; do
        measured="$(measure $call --rows $where --threads 1) $(measure $call --rows $where --threads 2)"
        awk -v start="| $name | ${where/ --cold */, cold}" '{
            printf "%s | %.0f | %.0f | %.2f | %.0f | %.0f | %.2f | %.2f |\n",
                start, $1, $5, $1 / $5, $3, $7, $3 / $7, $1 / $5 / ($3 / $7) }' <<<"$measured"
    done
done

python=${PYTHON:-python3}
for module in torch ml_dtypes; do
    if "$python" -c "import $module" 2>"$folder/out"; then
        echo
        "$python" cpu_peers.py "$epiq" --seconds 0.5 --measured "$folder/measured"
        break
    fi
done
