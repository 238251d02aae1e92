#!/usr/bin/env bash
# scripts/lint.sh [--fix] [--fast | --all]
#
# Formatting, clang-tidy, the direction of dependencies, shell scripts.
#
#   --fix    lets clang-format rewrite the files instead of complaining
#   --fast   leaves out clang-tidy, which takes minutes
#   --all    lets clang-tidy look at the tests too, which takes twice as long

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

format_mode=(--dry-run -Werror)
with_tidy=1
# The example that is compiled ahead of time includes a header which only building makes.
tidy_leaves_out=(--leave-out ahead_of_time --leave-out tests)
for argument in "$@"; do
  case $argument in
    --fix) format_mode=(-i) ;;
    --fast) with_tidy=0 ;;
    --all) tidy_leaves_out=(--leave-out ahead_of_time) ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$argument'; expected --fix, --fast, --all or --help" ;;
  esac
done

check_format() {
  git ls-files -z --cached --others --exclude-standard '*.cpp' '*.hpp' |
    xargs -0 -r -n 50 -P "$JOBS" clang-format-14 "${format_mode[@]}"
}

check_tidy() {
  cmake --preset lint >/dev/null
  scripts/tidy.py build/lint --jobs "$JOBS" "${tidy_leaves_out[@]}"
}

check_shell() {
  if command -v shellcheck >/dev/null; then
    shellcheck -x scripts/*.sh .ci/run
  else
    say "shellcheck is not installed; left out"
  fi
}

step "clang-format" check_format
step "dependencies" python3 scripts/check_dependencies.py
step "shellcheck" check_shell
if ((with_tidy)); then
  step "clang-tidy" check_tidy
fi
