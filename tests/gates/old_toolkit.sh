#!/usr/bin/env bash
# old_toolkit.sh: a CUDA toolkit without the conversions that the kernels use is refused by CMake, in words (case SA4).
# SPDX-License-Identifier: Apache-2.0
#
# usage: old_toolkit.sh SOURCE_ROOT
#
# The toolkit here plays an older one: into the file by which CMake asks for its version goes that version.
# Seen failing: without the comparison in cmake/epiq_cuda.cmake, where find_package alone had let old compilers pass.
set -u
root=$1
real=$(command -v nvcc) || {
    echo "no nvcc here: no toolkit can play an older one"
    exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

configure() { # configure MAJOR MINOR: the status of CMake, its words in $folder/words
    cat >"$folder/nvcc" <<END
#!/usr/bin/env bash
for argument; do
    case \$argument in
    *CompilerId.cu) sed -i 's/DEC(__CUDACC_VER_MAJOR__)/DEC($1)/; s/DEC(__CUDACC_VER_MINOR__)/DEC($2)/' "\$argument" ;;
    esac
done
exec "$real" "\$@"
END
    chmod +x "$folder/nvcc"
    rm -rf "$folder/build"
    cmake -S "$root" -B "$folder/build" -DEPIQ_CUDA=ON -DEPIQ_CUDA_ARCHS=90 "-DCMAKE_CUDA_COMPILER=$folder/nvcc" \
        >"$folder/words" 2>&1
}

for old in "12 6" "12 8"; do
    # shellcheck disable=SC2086 # two words
    if configure $old; then
        echo "toolkit $old was taken"
        exit 1
    elif ! tr '\n' ' ' <"$folder/words" | grep -q "is CUDA ${old/ /.}\.[0-9]*: *12\.9 or later is needed"; then
        echo "toolkit $old was refused without saying that 12.9 is needed:"
        tail -n 20 "$folder/words"
        exit 1
    fi
done
if ! configure 12 9; then
    echo "toolkit 12.9 was refused:"
    tail -n 20 "$folder/words"
    exit 1
fi
echo "toolkits 12.6 and 12.8 are refused, 12.9 is taken"
