#!/usr/bin/env bash
# scripts/demo.sh
#
# From nothing to numbers: sets up, builds the library and the CLI, runs the digits network through
# compiled kernels and through dense ones, then compiles and times two layers of real size.
# SPJIT_SKIP_SETUP=1 leaves out the installation of packages.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/build/common.sh"
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  print_help
  exit 0
fi
cd "$ROOT"

readonly BUILD_DIR=build/demo
readonly SPJIT=$BUILD_DIR/tools/spjit
readonly LAYERS=$BUILD_DIR/layers

generate_layers() {
  mkdir -p "$LAYERS"
  "$SPJIT" gen --rows 2048 --cols 512 --sparsity 0.9 --seed 1 --out "$LAYERS/2048x512_90.npz"
  "$SPJIT" gen --rows 512 --cols 512 --sparsity 0.8 --seed 2 --out "$LAYERS/512x512_80.npz"
}

if [[ ${SPJIT_SKIP_SETUP:-0} != 1 ]]; then
  step "setup" scripts/build/setup.sh --minimal
fi
step "configure" cmake --preset release -B "$BUILD_DIR" \
  -DSPJIT_BUILD_TESTS=OFF -DSPJIT_BUILD_BENCH=OFF -DSPJIT_UNITY=ON
step "build" cmake --build "$BUILD_DIR" -j "$JOBS"
step "the digits network, 360 test images" \
  "$BUILD_DIR/examples/digits/digits" examples/digits/weights
step "its layers" "$SPJIT" compile examples/digits/weights/fc{1,2,3}.npz --n 512
step "two layers of real size: generate" generate_layers
step "two layers of real size: compile" \
  "$SPJIT" compile "$LAYERS/2048x512_90.npz" "$LAYERS/512x512_80.npz" --n 512
print_step_times
