# shellcheck shell=bash
# Sourced by the scripts here: where the repository is, and timed steps.
# shellcheck disable=SC2034  # what is set here is used there

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
JOBS=${SPJIT_JOBS:-$(nproc)}
readonly ROOT JOBS
declare -a STEP_TIMES=()

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The comment block at the top of the calling script, as its --help.
print_help() { sed -n '2,/^$/ s/^# \{0,1\}//p' "$0"; }

# step NAME COMMAND...: runs it and says how long it took. The command stands alone, not before ||:
# there, bash would ignore `set -e` inside it.
CURRENT_STEP=""
step() {
  local start=$SECONDS
  CURRENT_STEP=$1
  say "==> $CURRENT_STEP"
  "${@:2}"
  STEP_TIMES+=("$(printf '%5d s  %s' $((SECONDS - start)) "$CURRENT_STEP")")
  say "==> $CURRENT_STEP: $((SECONDS - start)) s"
  CURRENT_STEP=""
}

report_failed_step() {
  local status=$?
  if ((status != 0)) && [[ -n $CURRENT_STEP ]]; then
    say "==> $CURRENT_STEP: FAILED with exit status $status after $SECONDS s in all" >&2
  fi
}
trap report_failed_step EXIT

print_step_times() {
  say ""
  say "Time by step:"
  printf '  %s\n' "${STEP_TIMES[@]}"
  printf '  %5d s  all\n' "$SECONDS"
}
