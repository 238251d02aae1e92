#!/usr/bin/env bash
# scripts/gpu/gpu_probes.sh OUT [--only LIST] [--build FOLDER] [--build-only]
#
# Builds the probes of bench/gpu/probes with nvcc, all at once, and runs them on the GPU, the
# cheapest first, each with a time limit. Needs nvcc 13, g++ and python3; nothing of spjit. Writes
#   OUT/probes.jsonl      their lines, as they come
#   OUT/probes.log        what went wrong, and seconds
#   OUT/mma-results.tgz   raw results of mma, for mma_judge; judged here too, into probes.jsonl
# A probe that fails or runs out of time does not keep the others from being run; the exit status is
# 1 then.
#
#   --only LIST     which, with commas between: mma, cublas, packed, dispatch, ring (default: all, in
#                   this order)
#   --build FOLDER  where programs go (default: build/probes)
#   --build-only    builds, runs nothing

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"

readonly PROBES=$ROOT/bench/gpu/probes
out=
only=mma,cublas,packed,dispatch,ring
build=$ROOT/build/probes
build_only=0
while (($# > 0)); do
  case $1 in
    --only) only=${2:?--only needs a list, say mma,cublas}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --build-only) build_only=1; shift ;;
    -h | --help) print_help; exit 0 ;;
    -*) die "unknown argument '$1'; see --help" ;;
    *) out=$1; shift ;;
  esac
done
[[ -n $out ]] || die "OUT, the folder of results, is missing; see --help"
for wanted in ${only//,/ }; do
  [[ $wanted =~ ^(mma|cublas|packed|dispatch|ring)$ ]] ||
    die "no probe '$wanted'; expected some of mma,cublas,packed,dispatch,ring"
done
wants() { [[ ,$only, == *,$1,* ]]; }

nvcc_build() {
  nvcc -std=c++20 -O2 -gencode=arch=compute_90a,code=sm_90a -o "$build/$1" "$PROBES/$1.cu" -ldl
}

# All compilers at once: each fails on its own.
build_probes() {
  local -a pids=()
  if wants mma; then
    nvcc_build mma_probe & pids+=($!)
    g++ -std=c++20 -O2 -o "$build/mma_judge" "$PROBES/mma_judge.cpp" & pids+=($!)
  fi
  if wants cublas; then nvcc_build cublas_probe & pids+=($!); fi
  if wants packed; then nvcc_build packed_probe & pids+=($!); fi
  if wants dispatch; then nvcc_build dispatch_probe & pids+=($!); fi
  if wants ring; then nvcc_build ring_probe & pids+=($!); fi
  local pid status=0
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  ((status == 0)) || exit 1  # of the pipe to tee: step goes on after what only returns 1
}

# The folders that hold cuBLAS and cuSPARSE, for dlopen: the toolkit's, then those of Python
# packages.
find_libraries() {
  find /usr/local /opt /usr/lib \( -name 'libcublas.so.1[23]' -o -name 'libcusparse.so.1[23]' \
    -o -name 'libnvJitLink.so.1[23]' \) -printf '%h\n' 2>/dev/null | sort -u | paste -sd:
}

# run_probe NAME SECONDS COMMAND...
run_probe() {
  local start=$SECONDS
  timeout --kill-after=5 "$2" "${@:3}" >>"$out/probes.jsonl" 2>>"$out/probes.log" || failed+=("$1")
  say "$1: $((SECONDS - start)) s" | tee -a "$out/probes.log"
}

# generate ring|dispatch: its kernels take all cores for half a minute, so they are made while other
# probes are built and run.
generate() {
  local start=$SECONDS
  rm -rf "${build:?}/$1"
  nice timeout --kill-after=5 120 python3 "$PROBES/$1_generate.py" "$build/$1" \
    2>>"$out/probes.log" || say "$1_generate.py failed or ran out of time" >>"$out/probes.log"
  say "kernels of $1: $((SECONDS - start)) s" >>"$out/probes.log"
}

judge_mma() {
  local name pid
  local -a pids=()
  for name in "$build"/results/*.bin; do
    "$build/mma_judge" "$name" >"$name.jsonl" & pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed+=(judge); done
  cat "$build"/results/*.jsonl
}

run_mma() {
  rm -rf "$build/results"
  mkdir -p "$build/results"
  run_probe mma 30 "$build/mma_probe" "$build/results"
  tar -czf "$out/mma-results.tgz" -C "$build/results" .
  judge_mma >>"$out/probes.jsonl" || failed+=(judge)
}

failed=()
mkdir -p "$out" "$build"
export PATH=$PATH:/usr/local/cuda/bin
rm -f "$build"/*_probe "$build/mma_judge"  # a program that does not build is not run
step "build" build_probes 2>&1 | tee -a "$out/probes.log" || failed+=(build)
if wants dispatch; then generate dispatch & dispatch_generator=$!; fi
if wants ring; then generate ring & ring_generator=$!; fi
if ((build_only)); then
  wait
  exit "${#failed[@]}"
fi
if wants mma; then run_mma; fi
LD_LIBRARY_PATH=$(find_libraries)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
if wants cublas; then run_probe cublas 40 "$build/cublas_probe"; fi
if wants packed; then
  # Bulk copies and their barriers in a process apart: a fault there takes no other along.
  run_probe packed 60 "$build/packed_probe" --only plain,relay,split,peers
  run_probe "packed bulk" 40 "$build/packed_probe" --only bulk
fi
if wants dispatch; then
  wait "$dispatch_generator"
  [[ -s $build/dispatch/kernels.txt ]] || failed+=(dispatch_generate)
  run_probe dispatch 40 "$build/dispatch_probe" "$build/dispatch" --limit 30
fi
if wants ring; then
  wait "$ring_generator"
  [[ -s $build/ring/cases.txt ]] || failed+=(ring_generate)
  # A process a matrix and tile: a fault takes no other along.
  while read -r name; do
    run_probe "ring $name" 20 "$build/ring_probe" "$build/ring" "$name"
  done < <(cut -d' ' -f1 "$build/ring/cases.txt" | uniq)
fi
say "results: $out"
((${#failed[@]} == 0)) || die "failed: $(IFS=,; say "${failed[*]}")"
