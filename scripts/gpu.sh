#!/usr/bin/env bash
# scripts/gpu.sh [--steps LIST] [--minutes N] [--append] [--vendor FOLDER] [--data FOLDER]
#                [--out FOLDER] [--build FOLDER] [--rehearse]
#
# On a machine with an NVIDIA GPU, its driver, a CUDA toolkit (or .cuda from scripts/setup_cuda.sh),
# cmake and g++: builds what is needed, runs the gpu tests, measures, and writes gpu-DEVICE.json and
# .txt, side-by-side-DEVICE.json and search-cost-DEVICE.json. Needs no network: headers and
# libraries come from the folder that scripts/vendor.sh made elsewhere, or from this machine where
# they are installed. Tests or a measurement that fail do not keep the others from being run; the
# exit status is 1 then.
#
#   --steps LIST      which steps, with commas between (default: all), in this order:
#                       build         configure and build
#                       test          the gpu tests
#                       kernels       gpu_bench: kernels and searches
#                       side-by-side  spjit beside cuBLAS and cuSPARSE on DLMC and the paper's set
#                       search-cost   seconds to a finished kernel, way by way to search
#   --minutes N       a measuring step begins nothing new after that long (default: 8); kernels
#                     nothing that is likely to end later
#   --append          goes on with the results of gpu-* and side-by-side-* that are in --out
#   --vendor FOLDER   that folder (default: .vendor, if it is there)
#   --data FOLDER     where the folder dlmc is (default: ../shared/data or shared/data, if there;
#                     without one the paper's set and generated matrices are measured)
#   --out FOLDER      where results go (default: bench/results)
#   --build FOLDER    build directory (default: build/gpu)
#   --rehearse        without a GPU: the same steps on the emulated driver, on a few small cases;
#                     checks, and no time of it means anything

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly STEPS=(build test kernels side-by-side search-cost)
steps=$(IFS=,; say "${STEPS[*]}")
minutes=8
append=()
vendor=$ROOT/.vendor
data=
out=$ROOT/bench/results
build=$ROOT/build/gpu
rehearse=0
while (($# > 0)); do
  case $1 in
    --steps) steps=${2:?--steps needs a list, say build,test}; shift 2 ;;
    --minutes) minutes=${2:?--minutes needs a number}; shift 2 ;;
    --append) append=(--append); shift ;;
    --vendor) vendor=${2:?--vendor needs a folder}; shift 2 ;;
    --data) data=${2:?--data needs a folder}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --rehearse) rehearse=1; shift ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
done
for wanted in ${steps//,/ }; do
  [[ " ${STEPS[*]} " == *" $wanted "* ]] ||
    die "no step '$wanted'; expected some of ${STEPS[*]}, with commas between"
done
[[ $minutes =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--minutes '$minutes'; expected a number, say 8"
[[ -z $data || -d $data/dlmc ]] || die "--data $data: has no folder dlmc"
for folder in "$ROOT/../shared/data" "$ROOT/shared/data"; do
  if [[ -z $data && -d $folder/dlmc ]]; then data=$folder; fi
done
[[ $vendor == /* ]] || vendor=$PWD/$vendor
[[ $build == /* ]] || build=$PWD/$build

configure=(-S "$ROOT" -B "$build" -DCMAKE_BUILD_TYPE=Release -DSPJIT_LLVM=OFF
           -DSPJIT_BUILD_TOOLS=OFF -DSPJIT_BUILD_EXAMPLES=OFF -DSPJIT_INSTALL=OFF
           -DSPJIT_GPU_BENCH_ONLY=ON -DBUILD_SHARED_LIBS=OFF)
if [[ -d $vendor ]]; then
  configure+=("-DCMAKE_PREFIX_PATH=$vendor/usr" -DSPJIT_PKG_CONFIG=OFF)
  export LD_LIBRARY_PATH=$vendor/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
targets=(gpu_tests gpu_bench side_by_side_bench search_cost_bench)
labels='^gpu$'
if ((rehearse)); then
  targets+=(spjit_emulated_cuda)
  labels='^gpu_rehearsal$'
else
  [[ -n $(command -v nvidia-smi) ]] ||
    die "no nvidia-smi: is there an NVIDIA driver? (--rehearse needs none)"
fi

build_all() {
  cmake "${configure[@]}"
  cmake --build "$build" -j "$JOBS" --target "${targets[@]}"
}

test_gpu() { ctest --test-dir "$build" -L "$labels" --output-on-failure --no-tests=error; }

# query_gpu NAME: what nvidia-smi knows of the first GPU by that name.
query_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -n 1; }

# The device's name as part of a file's: "NVIDIA H100 80GB HBM3" is nvidia-h100-80gb-hbm3.
device_slug() { query_gpu name | tr '[:upper:] ' '[:lower:]-' | tr -cd 'a-z0-9-'; }

# bench PROGRAM ARGUMENT...: one of the programs that were built.
bench() {
  [[ -x $build/bench/$1 ]] || die "no $build/bench/$1; run the step 'build' first"
  say "$*"
  "$build/bench/$1" "${@:2}"
}

measure_kernels() {
  local arguments=(--json "$out/gpu-$device.json" --max-minutes "$minutes" "${append[@]}")
  if ((rehearse)); then arguments+=(--check-only --first 2); fi
  bench gpu_bench "${arguments[@]}" | tee ${append:+-a} "$out/gpu-$device.txt"
}

# Matrices in a drawn order: what is done in time is a sample of all.
measure_side_by_side() {
  local arguments=(--gpu 0 --all --shuffle 1 --json "$out/side-by-side-$device.json"
                   --max-minutes "$minutes" "${append[@]}")
  if ((rehearse)); then
    arguments+=(--rehearse --peers spjit row-split --n 1 32 --only 36-64x192/0.9
                transformer/magnitude_pruning/0.98/body_encoder_layer_0)
  fi
  if [[ -n $data ]]; then
    arguments+=(--set dlmc paper --data "$data")
  else
    say "no folder dlmc (--data FOLDER): only the paper's set is measured"
    arguments+=(--set paper)
  fi
  bench side_by_side_bench "${arguments[@]}"
}

# Three ways of six are killed for larger matrices: 1/14 of the time for each leaves room for all.
measure_search_cost() {
  local arguments=(--json "$out/search-cost-$device.json" --max-minutes "$minutes")
  if ((rehearse)); then
    arguments+=(--rehearse --targets sm_90)
  else
    arguments+=(--targets "sm_$(query_gpu compute_cap | tr -d .)"
                --limit "$(awk -v minutes="$minutes" 'BEGIN { printf "%.3g", minutes * 60 / 14 }')")
  fi
  if [[ -n $data ]]; then arguments+=(--data "$data/dlmc"); fi
  bench search_cost_bench "${arguments[@]}"
}

# keep_going NAME COMMAND: a step whose failure is told at the end. COMMAND is run in a shell of its
# own, in which `set -e` holds.
failed=()
keep_going() {
  set +e
  (set -e; "$2")
  local status=$?
  set -e
  ((status == 0)) && return
  failed+=("$1")
  say "==> $1: FAILED with exit status $status" >&2
}

device=rehearsal
if ((rehearse)); then
  export SPJIT_CUDA_DRIVER=$build/tests/emulated_driver/libspjit_emulated_cuda.so
else
  device=$(device_slug)
fi
mkdir -p "$out"
for name in "${STEPS[@]}"; do
  [[ ,$steps, == *,$name,* ]] || continue
  case $name in
    build) step build build_all ;;
    test) step "gpu tests" keep_going "gpu tests" test_gpu ;;
    kernels) step kernels keep_going kernels measure_kernels ;;
    side-by-side) step "side by side" keep_going "side by side" measure_side_by_side ;;
    search-cost) step "search cost" keep_going "search cost" measure_search_cost ;;
  esac
done
print_step_times
say "results: $out/*-$device.*"
((${#failed[@]} == 0)) || die "failed: $(IFS=,; say "${failed[*]}")"
