#!/usr/bin/env bash
# scripts/check/mutate.sh [--short] [--only NAME] [--list] [OPTIONS...]
#
# Makes one small wrong change to the library or the tool at a time and runs the tests that should
# notice: prints for each change whether a test did (killed) or none did (survived). The changes are
# listed in tests/mutations/*.toml; docs/design/testing.md says how to add one.
#
#   --short         only the changes marked `short`: a few minutes, what CI runs
#   --only NAME     only this change; may be repeated, and NAME may hold * and ?
#   --list          prints the changes and runs nothing
#   --check         only looks whether each change still fits its file; with --build, whether the
#                   programs that are built there have its tests
#   --reanchor      after files were moved or names changed: finds what the changes quote, and writes it
#                   into the lists
#   --keep-going    does not stop at the first change that survives
#   --resume FILE   leaves out what FILE says was killed at this commit, and adds to it
#   --jobs N        changes at a time (SPJIT_JOBS, or all cores)
#   --file LIST     another list; may be repeated
#   --build DIR     where a build is in which what is changed has an object of its own (default:
#                   build/mutations with --short, else build/all-mutations; both are made)

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
preset=all-mutations
if [[ " $* " == *" --short "* ]]; then preset=mutations; fi
if [[ " $* " != *" --list "* && " $* " != *" --check "* && " $* " != *" --reanchor "* && " $* " != *" --build"* ]]; then
  [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset"
  set -- --build "build/$preset" "$@"
fi
exec nice -n 5 python3 scripts/check/mutate.py --jobs "$JOBS" "$@"
