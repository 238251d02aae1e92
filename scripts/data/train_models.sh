#!/usr/bin/env bash
# scripts/data/train_models.sh
#
# Trains the models that come with spjit, rankmodel/models/*.json.gz, on the samples in
# rankmodel/data and bench/results: of the host and of GPUs. The same samples give the same bytes.
set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"

case ${1:-} in
  -h | --help) print_help; exit 0 ;;
esac

cd "$ROOT"
train() {
  local name=$1
  shift
  build/release/tools/spjit train "$@" --name "$name" --out "rankmodel/models/$name.json.gz"
}

mkdir -p rankmodel/models
step "configure" cmake --preset release -DSPJIT_TRAINING=ON
step "build" cmake --build build/release -j "$JOBS" --target spjit_tool
step "train host-avx512" train host-avx512 rankmodel/data/avx512-*.jsonl.gz
step "train host-avx2" train host-avx2 rankmodel/data/avx2-*.jsonl.gz
step "train cuda-sm_90" train cuda-sm_90 --objective relative-time \
  bench/results/clock/samples-nvidia-h100-80gb-hbm3.jsonl.gz \
  bench/results/clock/samples-nvidia-h200.jsonl.gz
# The choice among host families, one model a kind of CPU.
step "train choice-avx512-emerald-rapids" train choice-avx512-emerald-rapids --families \
  rankmodel/data/choice-avx512-emerald-rapids.json.gz \
  bench/results/choice/choice-avx512-intel-xeon-family-6-model-207.json \
  bench/results/choice/choice-avx512-amd-epyc-family-25-model-17.json \
  bench/results/choice/choice-avx512-intel-xeon-family-6-model-85.json
