#!/usr/bin/env bash
# scripts/data/collect_samples.sh [--groups N] [--data DIR] [--out DIR] [--cuda sm_XX]
#
# Times the tiles that rank models are trained on, as rankmodel/data holds them: N synthetic matrices
# (default 1000) for AVX-512, two thirds of that for AVX2 and a quarter on two threads, and the
# matrices of DIR/dlmc and DIR/weights (default: ../shared/data; left out where they are absent).
# Two hours, with nothing else running. Can be stopped and started again.
#
# With --cuda, tiles of that GPU instead: 40 of each synthetic matrix and of each real one with n = 512,
# compiled into DIR/cuda-sm_XX-*-tiles, which needs no GPU, and timed where there is one, else by the
# clock: then samples say that times are modelled.
set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"

groups=1000
data=$ROOT/../shared/data
out=$ROOT/rankmodel/data
cuda=
while (($# > 0)); do
  case $1 in
    --groups) groups=${2:?--groups needs a number}; shift 2 ;;
    --data) data=${2:?--data needs a folder}; shift 2 ;;
    --cuda) cuda=${2:?--cuda needs a target, such as sm_90}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
done

# pack_samples NAME COMMAND...: adds to the samples of that name, which are kept compressed.
pack_samples() {
  local samples=$out/$1.jsonl
  shift
  [[ ! -f $samples.gz ]] || gunzip "$samples.gz"
  "$@" --out "$samples"
  gzip -9n "$samples"
}

# collect_cuda KIND OPTION...: compiled, and timed where that is possible.
collect_cuda() {
  local kind=$1 tiles=$out/cuda-$cuda-$1-tiles
  shift
  "$ROOT/build/release/tools/spjit" collect "$@" --tiles 40 --target "$cuda" --compile-only "$tiles"
  if ! command -v nvidia-smi > /dev/null; then
    say "no GPU: 'spjit collect --time $tiles' times them on a machine that has one; now the clock does"
    pack_samples "cuda-$cuda-$kind" "$ROOT/build/release/tools/spjit" collect --time "$tiles" --modelled
    return
  fi
  pack_samples "cuda-$cuda-$kind" "$ROOT/build/release/tools/spjit" collect --time "$tiles"
}

# collect NAME GROUPS OPTION...: synthetic and real samples of a target.
collect() {
  local name=$1 count=$2
  shift 2
  local kind files
  for kind in synthetic real; do
    files=(--groups "$count")
    # Models are judged by the real ones: twice as carefully.
    if [[ $kind == real ]]; then
      [[ -d $data/dlmc && -d $data/weights ]] || { say "no $data: real matrices left out"; return; }
      files=("$data/dlmc" "$data/weights" --root "$data" --searches 2)
    fi
    pack_samples "$name-$kind" "$ROOT/build/release/tools/spjit" collect "${files[@]}" "$@"
  done
}

cd "$ROOT"
mkdir -p "$out"
step "configure" cmake --preset release
step "build" cmake --build build/release -j "$JOBS" --target spjit_tool
if [[ -n $cuda ]]; then
  step "$cuda, synthetic" collect_cuda synthetic --groups "$groups"
  if [[ -d $data/dlmc && -d $data/weights ]]; then
    step "$cuda, real" collect_cuda real "$data/dlmc" "$data/weights" --root "$data" --n 512
  else
    say "no $data: real matrices left out"
  fi
  exit 0
fi
step "AVX-512" collect avx512-t1 "$groups" --target host-avx512
step "AVX2" collect avx2-t1 $(((groups * 2 + 2) / 3)) --target host-avx2
step "two threads" collect avx512-t2 $((groups / 4)) --target host-avx512 --threads 2
