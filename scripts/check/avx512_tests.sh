#!/usr/bin/env bash
# scripts/check/avx512_tests.sh [--part K/N] [--model NAME] [--only REGEX] [--list]
#
# Runs the tests of AVX-512 in an emulated PC, Debian's Bochs, for machines whose CPU has no AVX-512. It
# fetches Bochs (scripts/build/setup_bochs.sh), links the test programs without LLVM, boots a Linux kernel
# with them, and prints a line a test as ctest does. Left out are the tests of
# scripts/check/avx512_left_out.txt, which says why.
#
#   --part K/N     the K-th of N parts of the tests, which take about the same time
#   --model NAME   the emulated CPU: corei7_skylake_x (default) has AVX-512 F, BW, VL, DQ;
#                  corei7_icelake_u also VNNI and VBMI
#   --only REGEX   only tests whose names (unit_kernels.SUITE.TEST) it matches, those left out too
#   --list         prints the names and runs nothing
#
# Exit status: 1 if a test failed, crashed, took too long or did not run, or the PC did not get to its
# end.
#
#   SPJIT_SKIP_SETUP=1   leaves out the installation of packages
#   SPJIT_BOCHS=FOLDER   has Bochs (default: .bochs)
#   SPJIT_LONG=1, SPJIT_TURN=NUMBER   which cases tests take, as for scripts/test.sh; by default those
#                        that take longest there take some of them

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then
    print_help
    exit 0
  fi
done
cd "$ROOT"

if [[ ${SPJIT_SKIP_SETUP:-0} != 1 ]]; then
  step "setup" scripts/build/setup.sh
fi
step "Bochs" scripts/build/setup_bochs.sh
[[ -f build/release/build.ninja ]] || step "configure" cmake --preset release
step "build" cmake --build --preset release -j "$JOBS" --target avx512_programs
python3 scripts/check/avx512_tests.py build/release/tests/avx512 --bochs "${SPJIT_BOCHS:-$ROOT/.bochs}" \
  --work build/avx512 "$@"
