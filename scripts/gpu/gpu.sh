#!/usr/bin/env bash
# scripts/gpu/gpu.sh [--steps LIST] [--minutes N] [--append] [--precompiled FOLDER] [--vendor FOLDER]
#                [--data FOLDER] [--out FOLDER] [--build FOLDER] [--rehearse]
# scripts/gpu/gpu.sh --precompile FOLDER [--target CARD] [--steps LIST] [--vendor FOLDER]
#                [--data FOLDER] [--build FOLDER] [--rehearse]
#
# On a machine with an NVIDIA GPU, its driver, a CUDA toolkit (or .cuda from scripts/build/setup_cuda.sh),
# cmake, g++ and Python 3.10: builds what is needed, runs the gpu tests, measures, and writes a file a step into
# --out. Needs no network: headers and libraries come from the folder that scripts/build/vendor.sh made
# elsewhere, or from this machine where they are installed. Tests or a measurement that fail do not
# keep the others from being run; the exit status is 1 then.
#
# With --precompile, on any machine: compiles the cubins that the steps load into FOLDER, a cache
# directory. Interrupted, it goes on when it is called again; what is damaged is made anew. Take
# FOLDER along, for --precompiled.
#
#   --steps LIST      which steps, with commas between (default: all), in this order:
#                       build         configure and build
#                       test          the gpu tests
#                       paper         the paper's 205 kernels beside cuBLAS, cuSPARSE and others
#                       ranks         how proxies rank tiles
#                       tokens        families that read A at few columns, beside the libraries:
#                                     hot, and cold
#                       samples       times of drawn tiles of drawn matrices, which it compiles with
#                                     all cores: SPJIT_SAMPLE_SEED (default 1) is the first seed
#                       side-by-side  as paper, on DLMC
#                       search-cost   seconds to a finished kernel, way by way to search
#                       torch         tests of PyTorch on the GPU, and BERT-base and ResNet-50; with
#                                     the Python that SPJIT_PYTHON names (default: python3), where
#                                     it has torch with CUDA, transformers, scipy and pytest
#   --minutes N       of all of it (default: 45): each step gets a share of what is left, and begins
#                     nothing new after that
#   --append          goes on with the results that are in --out (not search-cost)
#   --precompiled FOLDER  loads cubins from there, made by this version of spjit for --target; what
#                     it lacks is compiled, and each step says how many. Without --steps: those up
#                     to ranks
#   --precompile FOLDER   compiles into it: build, paper and ranks, or of
#                     --steps those and side-by-side
#   --target CARD     of FOLDER (default: sm_90:h100; docs/design/cuda-devices.md lists them)
#   --vendor FOLDER   that folder (default: .vendor, if it is there)
#   --data FOLDER     where the folder dlmc is (default: ../shared/data or shared/data, if there;
#                     without one side-by-side has nothing to do, search-cost generates matrices)
#   --out FOLDER      where results go (default: bench/results)
#   --build FOLDER    build directory (default: build/gpu)
#   --rehearse        without a GPU: the same steps on the emulated driver, on a few small cases;
#                     checks, and no time of it means anything

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
# shellcheck source=scripts/gpu/gpu_steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/gpu_steps.sh"

steps=
minutes=45
append=()
precompile=
precompiled=
target=sm_90:h100
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
    --precompile) precompile=${2:?--precompile needs a folder}; shift 2 ;;
    --precompiled) precompiled=${2:?--precompiled needs a folder}; shift 2 ;;
    --target) target=${2:?--target needs a card, say sm_90:h100}; shift 2 ;;
    --vendor) vendor=${2:?--vendor needs a folder}; shift 2 ;;
    --data) data=${2:?--data needs a folder}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --rehearse) rehearse=1; shift ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
done
[[ -z $precompile || -z $precompiled ]] || die "--precompile and --precompiled do not go together"
[[ $minutes =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--minutes '$minutes'; expected a number, say 45"
[[ -z $data || -d $data/dlmc ]] || die "--data $data: has no folder dlmc"
for folder in "$ROOT/../shared/data" "$ROOT/shared/data"; do
  if [[ -z $data && -d $folder/dlmc ]]; then data=$folder; fi
done
[[ $vendor == /* ]] || vendor=$PWD/$vendor
[[ $build == /* ]] || build=$PWD/$build

known=("${STEPS[@]}")
standard=("${STEPS[@]}")
if [[ -n $precompile ]]; then
  known=(build "${STORED_STEPS[@]}" side-by-side)
  standard=(build "${STORED_STEPS[@]}")
elif [[ -n $precompiled ]]; then
  standard=(build test "${STORED_STEPS[@]}")
fi
if [[ -z $steps ]]; then steps=$(IFS=,; say "${standard[*]}"); fi
for wanted in ${steps//,/ }; do
  [[ " ${known[*]} " == *" $wanted "* ]] ||
    die "no step '$wanted'; expected some of ${known[*]}, with commas between"
done

configure=(-S "$ROOT" -B "$build" -DCMAKE_BUILD_TYPE=Release -DSPJIT_LLVM=OFF
           -DSPJIT_BUILD_TOOLS=ON -DSPJIT_BUILD_EXAMPLES=OFF -DSPJIT_INSTALL=OFF
           -DSPJIT_GPU_BENCH_ONLY=ON -DBUILD_SHARED_LIBS=OFF -DSPJIT_BUILD_PYTHON=ON
           -DCMAKE_POSITION_INDEPENDENT_CODE=ON)
if [[ -d $vendor ]]; then
  configure+=("-DCMAKE_PREFIX_PATH=$vendor/usr" -DSPJIT_PKG_CONFIG=OFF)
  export LD_LIBRARY_PATH=$vendor/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
targets=(gpu_tests gpu_tiles side_by_side_bench gpu_network_bench search_way spjit_tool
         spjit_python)
if [[ -n $precompile ]]; then targets=(gpu_tiles side_by_side_bench); fi
labels='^gpu$'
if ((rehearse)); then
  targets+=(spjit_emulated_cuda)
  labels='^gpu_rehearsal$'
elif [[ -z $precompile && -z $(command -v nvidia-smi) ]]; then
  die "no nvidia-smi: is there an NVIDIA driver? (--rehearse needs none)"
fi

device=rehearsal
if ((rehearse)); then
  export SPJIT_CUDA_DRIVER=$build/tests/emulated_driver/libspjit_emulated_cuda.so
elif [[ -z $precompile ]]; then
  device=$(device_slug)
fi

if [[ -n $precompile ]]; then
  for name in "${known[@]}"; do
    wants "$name" || continue
    if [[ $name == build ]]; then step build build_all; else step "$name" fill_step "$name"; fi
  done
  print_step_times
  say "cubins: $precompile"
  exit 0
fi

mkdir -p "$out"
if wants build; then step build build_all; fi
if wants test; then step "gpu tests" keep_going test test_gpu; fi
for name in "${MEASURING_STEPS[@]}"; do
  if wants "$name"; then measure_step "$name"; fi
done
print_step_times
say "results: $out/*-$device.*"
((${#left_out[@]} == 0)) || say "no time was left for: $(IFS=,; say "${left_out[*]}")"
((${#failed[@]} == 0)) || die "failed: $(IFS=,; say "${failed[*]}")"
