#!/usr/bin/env bash
# scripts/check/soak.sh --minutes M [--seed S] [--jobs J] [--out DIR]
#
# Compares kernels of random matrices, options and ways to reach them with two slow references for M
# minutes, in J processes at once. Each case is drawn from a seed; a failure names it, and the case
# is made as small as it gets. docs/design/testing.md says what is drawn and compared.
#
#   --minutes M   how long
#   --seed S      of the first case (default: from the clock, so that every run has other cases)
#   --jobs J      processes at once (default: one a CPU)
#   --out DIR     where the matrices of failures go (default: build/soak)
#
# Exit status 1 if a case failed. SPJIT_SKIP_SETUP=1 leaves out the installation of packages.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
cd "$ROOT"

minutes="" seed=$(date +%s)000 jobs=$JOBS out=build/soak
while (($# > 0)); do
  case $1 in
    --minutes) minutes=${2:?--minutes wants a number} ;;
    --seed) seed=${2:?--seed wants a number} ;;
    --jobs) jobs=${2:?--jobs wants a number} ;;
    --out) out=${2:?--out wants a folder} ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
  shift 2
done
[[ -n $minutes ]] || die "give --minutes; see --help"
[[ $seed =~ ^[0-9]+$ && $jobs =~ ^[1-9][0-9]*$ ]] || die "--seed and --jobs want whole numbers"

if [[ ${SPJIT_SKIP_SETUP:-0} != 1 ]]; then
  step "setup" scripts/build/setup.sh
fi
step "configure" cmake --preset release
step "build" cmake --build --preset release -j "$JOBS" --target spjit_soak
mkdir -p "$out"

# Each process has seeds of its own.
readonly SEEDS_A_PROCESS=1000000000
declare -a pids=()
for ((job = 0; job < jobs; ++job)); do
  build/release/tests/soak/spjit_soak --minutes "$minutes" --out "$out" \
    --seed $((seed + job * SEEDS_A_PROCESS)) >"$out/soak-$job.log" 2>&1 &
  pids+=($!)
done
say "soaking for $minutes minutes in $jobs processes, seeds from $seed on; logs in $out"
failed=0
for ((job = 0; job < jobs; ++job)); do
  wait "${pids[job]}" || failed=1
  say "--- process $job"
  cat "$out/soak-$job.log"
done
exit "$failed"
