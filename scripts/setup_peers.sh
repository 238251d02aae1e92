#!/usr/bin/env bash
# scripts/setup_peers.sh [--no-mkl]
#
# Brings the libraries that side_by_side_bench measures spjit against: Eigen, oneDNN, libxsmm,
# XNNPACK and scipy from Debian's packages, MKL from PyPI into build/peers/mkl (about 600 MB
# unpacked). Only that benchmark uses them; what is not there is listed in its result as missing.
# Configure again afterwards: Eigen, libxsmm and XNNPACK are built in. With everything there it only
# looks.
#
#   --no-mkl   without MKL

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

readonly PACKAGES=(libopenblas0-pthread libeigen3-dev libdnnl2 libxsmm-dev libxnnpack-dev
                   libpthreadpool-dev python3-scipy python3-venv)
# With the OpenMP that MKL's threads need.
readonly WHEELS=(mkl intel-openmp)
readonly FOLDER=$ROOT/build/peers/mkl

with_mkl=1
for argument in "$@"; do
  case $argument in
    --no-mkl) with_mkl=0 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$argument'; expected --no-mkl or --help" ;;
  esac
done

has_mkl() { compgen -G "$1/lib/libmkl_rt.so.?" >/dev/null && [[ -f $1/lib/libiomp5.so ]]; }

# Into a folder beside it, then renamed: a failed download leaves nothing behind.
install_mkl() {
  local new
  mkdir -p "$(dirname "$FOLDER")"
  new=$(mktemp -d "$FOLDER.XXXXXX")
  # shellcheck disable=SC2064  # the folder is known now
  trap "report_failed_step; rm -rf '$new' '$new.venv'" EXIT
  unpack_wheels "$new" "${WHEELS[@]}"
  has_mkl "$new" || die "${WHEELS[*]} hold no lib/libmkl_rt.so and lib/libiomp5.so"
  rm -rf "$FOLDER"
  mv "$new" "$FOLDER"
}

if is_debian_12; then
  install_packages "${PACKAGES[@]}"
else
  say "Not Debian 12: have installed what these packages hold: ${PACKAGES[*]}"
fi
if ((with_mkl == 0)); then
  say "MKL is left out."
elif has_mkl "$FOLDER"; then
  say "MKL is in $FOLDER"
else
  step "install ${WHEELS[*]} from PyPI" install_mkl
fi
say "setup_peers.sh: ready after $SECONDS s"
