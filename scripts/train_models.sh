#!/usr/bin/env bash
# scripts/train_models.sh
#
# Trains the models that come with spjit, rankmodel/models/*.json.gz, on the samples in
# rankmodel/data. The same samples give the same bytes.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  -h | --help) print_help; exit 0 ;;
esac

cd "$ROOT"
train() {
  local isa=$1
  build/release/tools/spjit train rankmodel/data/"$isa"-*.jsonl.gz --name "host-$isa" \
    --out "rankmodel/models/host-$isa.json.gz"
}

mkdir -p rankmodel/models
step "configure" cmake --preset release -DSPJIT_TRAINING=ON
step "build" cmake --build build/release -j "$JOBS" --target spjit_tool
step "train host-avx512" train avx512
step "train host-avx2" train avx2
