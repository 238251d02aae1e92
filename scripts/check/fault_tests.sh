#!/usr/bin/env bash
# scripts/check/fault_tests.sh [--folder DIR] [GTEST FILTER]
#
# The fault tests (docs/design/testing.md) at full size, which ctest runs at a small one: some
# minutes. Prints one line a fault: what was done, how often, and how much was found. The caches lie
# in /dev/shm if there is one (tens of thousands are made), or in DIR. As root also full and read-only file systems.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"

filter='*'
[[ ! -d /dev/shm ]] || export TMPDIR=/dev/shm
while (($# > 0)); do
  case $1 in
    --folder) export TMPDIR=${2:?--folder needs a directory}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    -*) die "unknown argument '$1'; see --help" ;;
    *) filter=$1; shift ;;
  esac
done

run_tests() {
  local log=build/release/fault_tests.log status=0
  SPJIT_FAULTS=full build/release/tests/faults_cache --gtest_filter="$filter" >"$log" 2>&1 ||
    status=$?
  grep -E '^fault test: |^\[ +(FAILED|SKIPPED) +\]' "$log" || true
  ((status == 0)) || die "exit status $status; the whole output is in $log"
}

cd "$ROOT"
step "configure" cmake --preset release
step "build" cmake --build build/release -j "$JOBS" --target faults_cache
step "fault tests" run_tests
print_step_times
