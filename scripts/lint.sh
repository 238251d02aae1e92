#!/usr/bin/env bash
# scripts/lint.sh [--fix] [--fast | --all | --since COMMIT [--part K/N]]
#
# Formatting, clang-tidy, the direction of dependencies, shell scripts, links, prose, and names that
# clash where sources are compiled together. clang-tidy comes from PyPI, into build/clang-tidy:
# Debian's looks into system headers and takes three times as long.
#
#   --fix    lets clang-format rewrite the files instead of complaining
#   --fast   leaves out clang-tidy, which takes minutes
#   --all    lets clang-tidy look at the tests too, which takes twice as long
#   --since  lets clang-tidy look at the sources that changed since a commit, and at one for each
#            header that did
#   --part   and at the K-th of N parts of all sources

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/build/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/build/packages.sh"
cd "$ROOT"

readonly TIDY_VERSION=23.1.4
format_mode=(--dry-run -Werror)
with_tidy=1
# The example that is compiled ahead of time includes a header which only building makes.
tidy_options=(--leave-out ahead_of_time --leave-out tests)
while (($# > 0)); do
  case $1 in
    --fix) format_mode=(-i) ;;
    --fast) with_tidy=0 ;;
    --all) tidy_options=(--leave-out ahead_of_time) ;;
    --since | --part) tidy_options+=("$1" "${2?$1 needs a value}"); shift ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; expected --fix, --fast, --all, --since, --part or --help" ;;
  esac
  shift
done

check_format() {
  git ls-files -z --cached --others --exclude-standard '*.cpp' '*.hpp' |
    xargs -0 -r -n 50 -P "$JOBS" clang-format-14 "${format_mode[@]}"
}

# A folder of its own for each version, renamed when it is whole.
fetch_tidy() {
  local folder=$ROOT/build/clang-tidy/$TIDY_VERSION
  export SPJIT_CLANG_TIDY=$folder/clang_tidy/data/bin/clang-tidy
  [[ ! -x $SPJIT_CLANG_TIDY ]] || return 0
  rm -rf "$folder" "$folder.new"
  mkdir -p "$folder.new"
  install_wheels "$folder.new" "clang-tidy==$TIDY_VERSION"
  rm -rf "$folder.new.venv"
  mv "$folder.new" "$folder"
}

check_names() {
  cmake --preset lint >/dev/null
  python3 scripts/check/check_names.py build/lint
}

check_tidy() {
  scripts/check/tidy.py build/lint --jobs "$JOBS" "${tidy_options[@]}"
}

check_shell() {
  if command -v shellcheck >/dev/null; then
    shellcheck -x scripts/*.sh scripts/*/*.sh .ci/run .ci/sanitized .ci/environment
  else
    say "shellcheck is not installed; left out"
  fi
}

step "clang-format" check_format
step "dependencies" python3 scripts/check/check_dependencies.py
step "links" python3 scripts/check/check_links.py
step "prose" python3 scripts/check/check_prose.py
step "shellcheck" check_shell
step "names" check_names
if ((with_tidy)); then
  fetch_tidy
  step "clang-tidy" check_tidy
fi
