#!/usr/bin/env bash
# scripts/test.sh [CTEST ARGUMENTS...]
#
# Sets up, builds everything in release and runs the tests: `scripts/test.sh -L unit` for a label,
# `-R NAME` for a name. Tests that need a GPU or data that is not there skip and say so.
# SPJIT_SKIP_SETUP=1 leaves out the installation of packages.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  print_help
  exit 0
fi
cd "$ROOT"

if [[ ${SPJIT_SKIP_SETUP:-0} != 1 ]]; then
  step "setup" scripts/setup.sh
fi
step "configure" cmake --preset release
step "build" cmake --build --preset release -j "$JOBS"
step "test" ctest --preset release -j "$JOBS" "$@"
print_step_times
