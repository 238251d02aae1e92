#!/usr/bin/env bash
# scripts/data/rank_report.sh [ARGUMENTS]
#
# Makes docs/results/rank-report anew from the samples in rankmodel/data: every figure and plot of
# it. Takes a few minutes. ARGUMENTS go to bench/rank_bench (see --help).
set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"

case ${1:-} in
  -h | --help) print_help; exit 0 ;;
esac

cd "$ROOT"
step "configure" cmake --preset release -DSPJIT_TRAINING=ON
step "build" cmake --build build/release -j "$JOBS" --target rank_bench
step "report" build/release/bench/rank_bench "$@"
