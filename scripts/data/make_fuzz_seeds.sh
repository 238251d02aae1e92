#!/usr/bin/env bash
# scripts/data/make_fuzz_seeds.sh
#
# Writes tests/fuzz/seeds again: what spjit can make itself (needs a built build/release), a bundle, an
# object of gcc, and cubins of nvcc where there is one. Only after a format has changed; files
# named crash-* are inputs that once found something, and stay as they are.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  print_help
  exit 0
fi
cd "$ROOT"

readonly SEEDS=tests/fuzz/seeds
cmake --build build/release -j "$JOBS" --target fuzz_make_seeds spjit_tool
build/release/tests/fuzz/fuzz_make_seeds "$SEEDS"

gcc -c -O1 -fno-asynchronous-unwind-tables -o "$SEEDS/elf_object/gcc.o" tests/fuzz/seed_object.c

# A bundle as spjit writes it.
bundle_seed() {
  local folder
  folder=$(mktemp -d)
  mkdir -p "$SEEDS/bundle"
  build/release/tools/spjit gen --rows 2 --cols 3 --sparsity 0.5 --out "$folder/a.mtx"
  build/release/tools/spjit compile "$folder/a.mtx" --n 8 --target host-avx2 --no-measure \
    --cache "$folder/cache" --bundle "$SEEDS/bundle/whole.spjit" >"$folder/compile.log"
  rm -r "$folder"
}
bundle_seed

nvcc=$(command -v nvcc || true)
nvcc=${nvcc:-${CUDA_HOME:-/usr/local/cuda}/bin/nvcc}
if [[ -x $nvcc ]]; then
  mkdir -p "$SEEDS/cubin"
  for arch in sm_75 sm_90; do
    "$nvcc" -cubin -arch="$arch" -o "$SEEDS/cubin/$arch.cubin" tests/fuzz/seed_kernel.cu
  done
  "$nvcc" -cubin -rdc=true -arch=sm_90 -o "$SEEDS/cubin/sm_90_relocatable.cubin" \
    tests/fuzz/seed_kernel.cu
else
  say "no nvcc: the cubins are left as they are"
fi
