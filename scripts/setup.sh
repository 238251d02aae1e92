#!/usr/bin/env bash
# scripts/setup.sh [--minimal]
#
# Installs what building spjit needs on Debian 12, from Debian's own packages, if something is
# missing. Run it as often as you like: with everything there it only looks, which takes a moment.
#
#   --minimal   only what the library, its tools and its examples need: no tests, lint, benchmarks
#
# Needs root or sudo when something is missing. On another Linux it prints what is needed and exits
# with 2; install that your own way and set SPJIT_SKIP_SETUP=1 for the other scripts here.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# README says what each is for.
readonly BUILD_PACKAGES=(g++ cmake ninja-build pkg-config llvm-19-dev libfmt-dev nlohmann-json3-dev
                         libcli11-dev libarchive-dev libzip-dev zlib1g-dev libssl-dev
                         libxxhash-dev libopenblas0-pthread)
readonly MORE_PACKAGES=(git python3 python3-venv libgtest-dev libgmock-dev libbenchmark-dev
                        libxgboost-dev clang-format-14 clang-tidy-14 clang-14 libclang-rt-14-dev
                        shellcheck)

packages=("${BUILD_PACKAGES[@]}" "${MORE_PACKAGES[@]}")
for argument in "$@"; do
  case $argument in
    --minimal) packages=("${BUILD_PACKAGES[@]}") ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$argument'; expected --minimal or --help" ;;
  esac
done

is_debian_12() {
  [[ -r /etc/os-release ]] || return 1
  # shellcheck source=/dev/null
  (source /etc/os-release && [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]])
}

# The packages among the arguments that dpkg does not have installed.
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qFx "$package installed" <<<"$installed" || say "$package"
  done
}

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

update_package_lists() {
  local attempt
  for attempt in 1 2 3; do
    apt_get update && return 0
    say "apt-get update failed (attempt $attempt of 3)"
    sleep $((attempt * 5))
  done
  die "apt-get update failed three times; is there a network, and is /etc/apt/sources.list right?"
}

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

mapfile -t missing < <(missing_packages "${packages[@]}")
if ((${#missing[@]} > 0)); then
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    die "missing ${missing[*]}; run this as root, or install sudo, or have them installed"
  fi
  say "Missing: ${missing[*]}"
  step "apt-get update" update_package_lists
  step "apt-get install" apt_get install --no-install-recommends "${missing[@]}"
else
  say "All ${#packages[@]} packages are installed."
fi
check_versions
say "setup.sh: ready after $SECONDS s"
