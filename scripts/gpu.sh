#!/usr/bin/env bash
# scripts/gpu.sh [--vendor FOLDER] [--out FOLDER] [--build FOLDER] [--rehearse]
#
# On a machine with an NVIDIA GPU, its driver, a CUDA toolkit (or .cuda from scripts/setup_cuda.sh),
# cmake and g++: builds what is needed, runs the gpu tests, measures, and writes gpu-DEVICE.json and
# gpu-DEVICE.txt. Needs no network: headers and libraries come from the folder that
# scripts/vendor.sh made elsewhere, or from this machine where they are installed.
#
#   --vendor FOLDER   that folder (default: .vendor, if it is there)
#   --out FOLDER      where results go (default: bench/results)
#   --build FOLDER    build directory (default: build/gpu)
#   --rehearse        without a GPU: the same steps on the emulated driver; checks, times nothing

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

vendor=$ROOT/.vendor
out=$ROOT/bench/results
build=$ROOT/build/gpu
rehearse=0
while (($# > 0)); do
  case $1 in
    --vendor) vendor=${2:?--vendor needs a folder}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --rehearse) rehearse=1; shift ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
done
[[ $vendor == /* ]] || vendor=$PWD/$vendor

configure=(-S "$ROOT" -B "$build" -DCMAKE_BUILD_TYPE=Release -DSPJIT_LLVM=OFF -DSPJIT_WERROR=OFF
           -DSPJIT_BUILD_TOOLS=OFF -DSPJIT_BUILD_EXAMPLES=OFF -DSPJIT_INSTALL=OFF
           -DSPJIT_GPU_BENCH_ONLY=ON -DBUILD_SHARED_LIBS=OFF)
if [[ -d $vendor ]]; then
  configure+=("-DCMAKE_PREFIX_PATH=$vendor/usr" -DSPJIT_PKG_CONFIG=OFF)
  export LD_LIBRARY_PATH=$vendor/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
targets=(gpu_tests gpu_bench)
labels='^gpu$'
bench_arguments=()
if ((rehearse)); then
  targets+=(spjit_emulated_cuda)
  labels='^gpu_rehearsal$'
  bench_arguments=(--check-only --ptx --first 2)
else
  [[ -n $(command -v nvidia-smi) ]] || die "no nvidia-smi: is there an NVIDIA driver? (--rehearse needs none)"
fi

test_gpu() { ctest --test-dir "$build" -L "$labels" --output-on-failure --no-tests=error; }

# The device's name as part of a file's: "NVIDIA H100 80GB HBM3" is nvidia-h100-80gb-hbm3.
device_slug() {
  nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr '[:upper:] ' '[:lower:]-' |
    tr -cd 'a-z0-9-'
}

measure() {
  mkdir -p "$out"
  local name=gpu-rehearsal
  if ((rehearse)); then
    export SPJIT_CUDA_DRIVER=$build/tests/emulated_driver/libspjit_emulated_cuda.so
  else
    name=gpu-$(device_slug)
  fi
  "$build/bench/gpu_bench" --json "$out/$name.json" "${bench_arguments[@]}" | tee "$out/$name.txt"
  say "results: $out/$name.json and $out/$name.txt"
}

step "configure" cmake "${configure[@]}"
step "build" cmake --build "$build" -j "$JOBS" --target "${targets[@]}"
step "gpu tests" test_gpu
step "measure" measure
print_step_times
