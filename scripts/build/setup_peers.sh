#!/usr/bin/env bash
# scripts/build/setup_peers.sh [--no-mkl]
#
# Brings the libraries that benchmarks measure spjit against: Eigen, oneDNN, libxsmm and
# XNNPACK from Debian's packages; scipy, ONNX Runtime, a newer oneDNN and MKL from PyPI into
# build/peers (about 1.2 GB unpacked). side_by_side_bench and lab_bench alone use
# them; what is not there is listed in their results as missing. Configure again afterwards: Eigen,
# libxsmm and XNNPACK are built in.
# With everything there it only looks.
#
#   --no-mkl   without MKL, which is nearly all of that gigabyte

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

readonly PACKAGES=(libopenblas0-pthread libeigen3-dev libdnnl2 libxsmm-dev libxnnpack-dev
                   libpthreadpool-dev python3-venv)
# With the OpenMP that MKL's threads need.
readonly MKL_WHEELS=(mkl==2026.2.0 intel-openmp==2026.2.0)
# Debian's is of 2023, and several times slower.
readonly SCIPY_WHEELS=(scipy==1.17.1 numpy)
readonly ONNXRUNTIME_WHEEL=onnxruntime==1.32.0
# The last with GNU's OpenMP, of 2023: Debian's is of 2022, those after it need a SYCL run time.
readonly ONEDNN_WHEEL=onednn-cpu-gomp==2023.2.0
readonly FOLDER=$ROOT/build/peers

with_mkl=1
for argument in "$@"; do
  case $argument in
    --no-mkl) with_mkl=0 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$argument'; expected --no-mkl or --help" ;;
  esac
done

has_mkl() { compgen -G "$1/lib/libmkl_rt.so.?" >/dev/null && [[ -f $1/lib/libiomp5.so ]]; }

has_onnxruntime() { [[ -f $1/lib/libonnxruntime.so.1 ]]; }

has_onednn() { [[ -f $1/lib/libdnnl.so.3 ]]; }

has_scipy() { "$1/bin/python3" -c 'import scipy.sparse' 2>/dev/null; }

get_mkl() {
  unpack_wheels "$1" "${MKL_WHEELS[@]}"
  has_mkl "$1" || die "${MKL_WHEELS[*]} hold no lib/libmkl_rt.so and lib/libiomp5.so"
}

get_scipy() {
  python3 -m venv "$1" || die "python3 has no venv; install python3-venv"
  "$1/bin/python3" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    "${SCIPY_WHEELS[@]}" ||
    die "pip cannot install ${SCIPY_WHEELS[*]}; is there a network, and is this Python supported?"
}

# Its library alone: that Python's part of the wheel is not used.
get_onnxruntime() {
  local found
  install_wheels "$1/wheel" "$ONNXRUNTIME_WHEEL"
  found=$(compgen -G "$1/wheel/onnxruntime/capi/libonnxruntime.so.1*") ||
    die "$ONNXRUNTIME_WHEEL holds no onnxruntime/capi/libonnxruntime.so.1*"
  mkdir "$1/lib"
  mv "$found" "$1/lib/libonnxruntime.so.1"
  rm -rf "$1/wheel" "$1/wheel.venv"
}

# The wheel has the library three times.
get_onednn() {
  unpack_wheels "$1" "$ONEDNN_WHEEL"
  has_onednn "$1" || die "$ONEDNN_WHEEL holds no lib/libdnnl.so.3"
  find "$1/lib" -type f ! -name libdnnl.so.3 -delete
}

# bring NAME: what get_NAME makes, in a folder beside its own, then renamed: a failed download
# leaves nothing behind.
bring() {
  local new
  mkdir -p "$FOLDER"
  new=$(mktemp -d "$FOLDER/$1.XXXXXX")
  # shellcheck disable=SC2064  # the folder is known now
  trap "report_failed_step; rm -rf '$new' '$new.venv'" EXIT
  "get_$1" "$new"
  rm -rf "$FOLDER/${1:?}"
  mv "$new" "$FOLDER/$1"
}

if is_debian_12; then
  install_packages "${PACKAGES[@]}"
else
  say "Not Debian 12: have installed what these packages hold: ${PACKAGES[*]}"
fi
if has_scipy "$FOLDER/scipy"; then
  say "scipy is in $FOLDER/scipy"
else
  step "install ${SCIPY_WHEELS[*]} from PyPI" bring scipy
fi
if has_onnxruntime "$FOLDER/onnxruntime"; then
  say "ONNX Runtime is in $FOLDER/onnxruntime"
else
  step "install $ONNXRUNTIME_WHEEL from PyPI" bring onnxruntime
fi
if has_onednn "$FOLDER/onednn"; then
  say "oneDNN is in $FOLDER/onednn"
else
  step "install $ONEDNN_WHEEL from PyPI" bring onednn
fi
if ((with_mkl == 0)); then
  say "MKL is left out."
elif has_mkl "$FOLDER/mkl"; then
  say "MKL is in $FOLDER/mkl"
else
  step "install ${MKL_WHEELS[*]} from PyPI" bring mkl
fi
say "setup_peers.sh: ready after $SECONDS s"
