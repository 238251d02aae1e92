#!/usr/bin/env bash
# scripts/check/full_check.sh [--only STAGE]... [--again] [--dry-run]
#
# Everything that .ci/run checks in turns, in its long form: some hours, once before a larger piece of
# work is called done. Stages that passed are not run again unless something changed that touches
# them, so an interrupted check goes on where it was; logs are in build/full_check. When all have
# passed, .ci/base names this commit, and .ci/run looks at what changes from there.
#
#   --only STAGE  only this stage of .ci/stages.toml; may be repeated
#   --again       also what passed before
#   --dry-run     only says what would run

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
cd "$ROOT"
for argument in "$@"; do
  [[ $argument != -h && $argument != --help ]] || { print_help; exit 0; }
done
# shellcheck source=.ci/environment
source .ci/environment
exec scripts/check/check.py full "$@"
