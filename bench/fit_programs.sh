#!/bin/bash
# Times all plans of the programs of docs/measurements/plans.md#plans-of-programs on one GPU, for attune-fit-cost.
#
#     bench/fit_programs.sh build/bin/attune times                                            a few minutes on an H200 with 16 cores
#     build/bin/attune-fit-cost times/fit/*.json --held-out times/held_out/*.json             needs no GPU
#
# ARCHS are the architectures to compile for ("sm_90a sm_90" without).
set -u
attune=${1:?usage: fit_programs.sh ATTUNE FOLDER}
folder=${2:?usage: fit_programs.sh ATTUNE FOLDER}
programs=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder/fit" "$folder/held_out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Head dims and chunks of 128.
sed -e 's/\b64\b/128/g' -e 's/\bc64\b/c128/g' -e 's/\b63\b/127/g' -e 's/\bc63\b/c127/g' -e 's/@linear_attention/@linear_attention_128/' \
  "$programs/examples/programs/linear_attention.mlir" >"$work/linear_attention_128.mlir"
failed=0

# measure GROUP/NAME PROGRAM EXTENTS [FLAGS]: one file for each architecture.
measure() {
  local name=$1 program=$2 extents=$3 arch file
  shift 3
  for arch in ${ARCHS:-sm_90a sm_90}; do
    file=$folder/$name.$arch.json
    if "$attune" tune "$program" --arch "$arch" --extents "$extents" "$@" --candidates 1000 --budget 120 --top 1 \
        --no-cache --times "$file" >"$work/log" 2>&1; then
      sed -n '2,$p' "$work/log" | sed "s|^|$name $arch |"
    else
      failed=1
      sed "s|^|$name $arch failed: |" "$work/log"
    fi
  done
}

measure fit/linear_attention_b8 "$programs/examples/programs/linear_attention.mlir" b=8,h=16,q=8192,k=8192
measure fit/linear_attention_b16 "$programs/examples/programs/linear_attention.mlir" b=16,h=16,q=8192,k=8192
measure fit/linear_attention_128 "$work/linear_attention_128.mlir" b=8,h=16,q=8192,k=8192
measure fit/two_passes "$programs/tests/programs/two_passes.mlir" b=4,h=16,q=2048,k=2048
measure held_out/block_sparse_product "$programs/examples/programs/block_sparse_product.mlir" b=8,n=64,m=64,q=512 --tensor "blocks=bool[64,64]:random"
measure held_out/retention "$programs/tests/programs/retention.mlir" b=8,h=16,q=4096,k=4096 --tensor "rate=f32[16]:-0.2..-0.01"
measure held_out/two_layers "$programs/tests/programs/two_layers.mlir" b=8,n=32,c=4,q=4096
exit "$failed"
