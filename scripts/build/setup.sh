#!/usr/bin/env bash
# scripts/build/setup.sh [--minimal]
#
# Installs what building spjit needs on Debian 12, from Debian's own packages, if something is
# missing. Run it as often as you like: with everything there it only looks, which takes a moment.
#
#   --minimal   only what the library, its tools and its examples need: no tests, lint, benchmarks
#
# Needs root or sudo when something is missing. On another Linux it prints what is needed and exits
# with 2; install that your own way and set SPJIT_SKIP_SETUP=1 for the other scripts here.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

# CONTRIBUTING.md says what each is for.
readonly BUILD_PACKAGES=(g++ cmake ninja-build pkg-config llvm-19-dev libfmt-dev nlohmann-json3-dev
                         libcli11-dev libzip-dev zlib1g-dev libssl-dev libxxhash-dev
                         libopenblas0-pthread)
readonly MORE_PACKAGES=(git python3 python3-venv dpkg-dev libgtest-dev libgmock-dev libxgboost-dev
                        clang-format-14 clang-14 libclang-rt-14-dev shellcheck qemu-user ccache
                        parallel)

packages=("${BUILD_PACKAGES[@]}" "${MORE_PACKAGES[@]}")
for argument in "$@"; do
  case $argument in
    --minimal) packages=("${BUILD_PACKAGES[@]}") ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$argument'; expected --minimal or --help" ;;
  esac
done

# require_version NAME MINIMUM FOUND
require_version() {
  local oldest
  oldest=$(printf '%s\n%s\n' "$2" "$3" | sort -V | head -n 1)
  [[ $oldest == "$2" ]] || die "$1 is $3, expected at least $2; is another one earlier in PATH?"
  say "  $1 $3"
}

check_versions() {
  require_version g++ 12 "$(g++ -dumpfullversion -dumpversion)"
  require_version cmake 3.25 "$(cmake --version | sed -n '1s/[^0-9]*//p')"
  require_version ninja 1.10 "$(ninja --version)"
}

if ! is_debian_12; then
  say "setup.sh installs on Debian 12 only. Elsewhere spjit needs g++ 12 or later, CMake 3.25 or"
  say "later, and what these Debian packages hold:"
  printf '  %s\n' "${packages[@]}"
  say "With that installed, set SPJIT_SKIP_SETUP=1 and run the other scripts."
  exit 2
fi

install_packages "${packages[@]}"
check_versions
say "setup.sh: ready after $SECONDS s"
