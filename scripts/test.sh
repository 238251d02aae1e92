#!/usr/bin/env bash
# scripts/test.sh [CTEST ARGUMENTS...]
#
# Sets up, builds what the tests need in release and runs them: `scripts/test.sh -L unit` for a label,
# `-R NAME` for a name. Tests that need what is not there (a GPU, data) skip; the end names them by
# group, says why, and counts: "N passed, N failed, N skipped".
#
#   SPJIT_SKIP_SETUP=1   leaves out the installation of packages
#   SPJIT_SKIP_CUDA=1    leaves out NVIDIA's compiler libraries, which scripts/build/setup_cuda.sh fetches
#                        (320 MB, once) where there is no CUDA toolkit
#   SPJIT_LONG=1         takes all cases of tests that by default take some (docs/design/testing.md)
#   SPJIT_TURN=NUMBER    whose turn it is of those (default: the commits up to .ci/base)
#   SPJIT_MUST_RUN="PREFIX..."  skipped tests of these programs are errors: "nvrtc_ cpu."
#   SPJIT_MAY_SKIP=REGEX        but not where they skip for a reason that this matches

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/build/common.sh"
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  print_help
  exit 0
fi
cd "$ROOT"

readonly RESULTS=$ROOT/build/release/test_results.xml

fetch_cuda() {
  if [[ ${SPJIT_SKIP_CUDA:-0} == 1 ]]; then
    cuda_note="SPJIT_SKIP_CUDA=1: NVRTC was not fetched, tests that need it may skip"
  elif ! compgen -G "${CUDA_HOME:-/usr/local/cuda}/lib64/libnvrtc.so.*" >/dev/null &&
    ! scripts/build/setup_cuda.sh; then
    cuda_note="NVRTC could not be fetched (scripts/build/setup_cuda.sh says why): tests that need it skip"
  fi
  [[ -z $cuda_note ]] || say "$cuda_note"
}

# All unit tests run many to a process; named ones a process each. More of each test's output than
# ctest keeps by default: names of tests and reasons of skips are in it.
run_tests() {
  local preset=in-parts
  (($# == 0)) || preset=release
  rm -f "$RESULTS"
  test_status=0
  ctest --preset "$preset" -j "$JOBS" --output-junit "$RESULTS" \
    --test-output-size-passed 1048576 --test-output-size-failed 1048576 "$@" || test_status=$?
}

summary() {
  local options=()
  if [[ -n ${SPJIT_MUST_RUN:-} ]]; then
    read -ra options <<<"$SPJIT_MUST_RUN"
    options=(--must-run "${options[@]}" --accept "${SPJIT_MAY_SKIP:-^\$}")
  fi
  [[ -z $cuda_note ]] || say "$cuda_note"
  python3 scripts/check/test_summary.py "$RESULTS" "${options[@]}"
}

# As scripts/check/check.py has it: a second try takes the same cases. Without git it is 0.
turn() { git rev-list --count "$(cat .ci/base)" 2>/dev/null || echo 0; }

cuda_note=""
test_status=0
export SPJIT_TURN=${SPJIT_TURN:-$(turn)}
if [[ ${SPJIT_SKIP_SETUP:-0} != 1 ]]; then
  step "setup" scripts/build/setup.sh
fi
step "NVRTC and nvJitLink" fetch_cuda
step "configure" cmake --preset release
step "build" cmake --build --preset tests -j "$JOBS"
if [[ ${SPJIT_LONG:-0} != 1 ]]; then
  say "tests that take some of their cases take those of SPJIT_TURN=$SPJIT_TURN"
fi
step "test" run_tests "$@"
print_step_times
say ""
# `ctest -N` and the like write no results.
if [[ -f $RESULTS ]] || ((test_status != 0)); then
  summary
fi
((test_status == 0)) || die "ctest ended with status $test_status"
