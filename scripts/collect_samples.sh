#!/usr/bin/env bash
# scripts/collect_samples.sh [--groups N] [--data DIR] [--out DIR]
#
# Times the tiles that rank models are trained on, as rankmodel/data holds them: N synthetic matrices
# (default 1000) for AVX-512, two thirds of that for AVX2 and a quarter on two threads, and the
# matrices of DIR/dlmc and DIR/weights (default: ../shared/data; left out where they are absent).
# Two hours, with nothing else running. Can be stopped and started again.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

groups=1000
data=$ROOT/../shared/data
out=$ROOT/rankmodel/data
while (($# > 0)); do
  case $1 in
    --groups) groups=${2:?--groups needs a number}; shift 2 ;;
    --data) data=${2:?--data needs a folder}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
done

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
    local samples=$out/$name-$kind.jsonl
    [[ ! -f $samples.gz ]] || gunzip "$samples.gz"
    "$ROOT/build/release/tools/spjit" collect "${files[@]}" --out "$samples" "$@"
    gzip -9n "$samples"
  done
}

cd "$ROOT"
mkdir -p "$out"
step "configure" cmake --preset release
step "build" cmake --build build/release -j "$JOBS" --target spjit_tool
step "AVX-512" collect avx512-t1 "$groups" --target host-avx512
step "AVX2" collect avx2-t1 $(((groups * 2 + 2) / 3)) --target host-avx2
step "two threads" collect avx512-t2 $((groups / 4)) --target host-avx512 --threads 2
