#!/usr/bin/env bash
# scripts/check/fuzz.sh [--seconds S | --runs N] [TARGET...]
#
# Builds the fuzz targets (docs/design/testing.md) with clang's libFuzzer and runs them, one a core,
# each for S seconds (default 10). Prints a line a target; any finding makes the exit status 1 and is
# kept in build/fuzz/findings.
#
#   --runs N   until each target has executed N inputs since it was last changed. Interrupted, it goes
#              on where it was: totals are kept in build/fuzz/totals, the corpus in build/fuzz/corpus
#   TARGET     mtx, npz, ...: the names of tests/fuzz/*_fuzz.cpp (default: all)

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
cd "$ROOT"

readonly BUILD=build/fuzz
readonly DATA=${SPJIT_TEST_DATA:-../shared/data}
readonly RUNS_A_SLICE=500000
seconds=10
runs=0
targets=()
while (($# > 0)); do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --runs) runs=${2:?--runs needs a number}; shift ;;
    -h | --help) print_help; exit 0 ;;
    -*) die "unknown argument '$1'; expected --seconds, --runs or --help" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
[[ $seconds =~ ^[1-9][0-9]*$ && $runs =~ ^[0-9]+$ ]] ||
  die "--seconds $seconds, --runs $runs: expected whole numbers"
if ((${#targets[@]} == 0)); then
  for source in tests/fuzz/*_fuzz.cpp; do
    targets+=("$(basename "$source" _fuzz.cpp)")
  done
fi
for target in "${targets[@]}"; do
  [[ -f tests/fuzz/${target}_fuzz.cpp ]] || die "no tests/fuzz/${target}_fuzz.cpp"
done

# The options of a target: how long inputs get, and its dictionary. Nothing may take 10 s.
options_of() {
  local longest=4096 dictionary=""
  case $1 in
    bundle | cubin | elf_object | host_object) longest=16384 ;;
    mtx) dictionary=mtx ;;
    npy | npz_arrays) dictionary=npy ;;
    safetensors) dictionary=safetensors ;;
    cache_record | cuda_matrix | cuda_record | rank_model | samples) dictionary=json ;;
  esac
  printf '%s\n' -max_len=$longest -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
    -print_final_stats=1 -verbosity=1
  [[ -z $dictionary ]] || printf '%s\n' "-dict=tests/fuzz/dictionaries/$dictionary.dict"
}

# Folders of inputs to begin with, besides the corpus.
seeds_of() {
  printf '%s\n' "tests/fuzz/seeds/$1"
  if [[ $1 == mtx || $1 == smtx ]] && [[ -d $DATA/malformed ]]; then
    printf '%s\n' "$DATA/malformed"
  fi
}

statistic() { sed -n "s/^stat::$1: *//p" "$2" | tail -n 1; }

# fuzz TARGET LIMIT: one run of libFuzzer; its output goes to build/fuzz/logs/TARGET.log. A finding
# is copied to the end of what is printed.
fuzz() {
  local target=$1 limit=$2 log=$BUILD/logs/$1.log options seeds
  mapfile -t options < <(options_of "$target")
  mapfile -t seeds < <(seeds_of "$target")
  mkdir -p "$BUILD/corpus/$target" "$BUILD/findings" "$BUILD/logs"
  if ! "$BUILD/tests/fuzz/fuzz_$target" "${options[@]}" "$limit" \
    -artifact_prefix="$BUILD/findings/$target-" "$BUILD/corpus/$target" "${seeds[@]}" \
    >"$log" 2>&1; then
    say "$target: FOUND SOMETHING, see $log; the input is kept:"
    ls -1 "$BUILD/findings/$target-"* 2>/dev/null || true
    grep -E -A 12 'finding:|ERROR:|runtime error:|SUMMARY:' "$log" | head -n 40 || true
    return 1
  fi
}

# The line of a target after a run: all executions and seconds since it was last changed, and the
# coverage and slowest input of the last run.
summary() {
  local target=$1 executions=$2 spent=$3 log=$BUILD/logs/$1.log coverage
  coverage=$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 \2/p' "$log" | tail -n 1)
  # shellcheck disable=SC2086  # coverage is two words
  printf '| %-12s | %10d | %6d | %7d | %6d | %6d | %6d | %3d s | %4d MB |\n' "$target" \
    "$executions" "$spent" $((executions / (spent > 0 ? spent : 1))) ${coverage:-0 0} \
    "$(find "$BUILD/corpus/$target" -type f | wc -l)" \
    "$(statistic slowest_unit_time_sec "$log")" "$(statistic peak_rss_mb "$log")"
}

# Runs until the target has had its executions, in slices, so that little is lost on interruption.
fuzz_to_total() {
  local target=$1 totals=$BUILD/totals/$1 program executions=0 spent=0 before known start slice
  program=$(sha256sum "$BUILD/tests/fuzz/fuzz_$target" | cut -d ' ' -f 1)
  mkdir -p "$BUILD/totals"
  if [[ -f $totals ]]; then
    read -r known executions spent <"$totals"
    [[ $known == "$program" ]] || { executions=0; spent=0; }
  fi
  while ((executions < runs)); do
    slice=$((runs - executions < RUNS_A_SLICE ? runs - executions : RUNS_A_SLICE))
    start=$SECONDS
    before=$executions
    fuzz "$target" -runs=$slice || return 1
    executions=$((executions + $(statistic number_of_executed_units "$BUILD/logs/$target.log")))
    ((executions > before)) || { say "$target: nothing was executed"; return 1; }
    spent=$((spent + SECONDS - start))
    say "$program $executions $spent" >"$totals.new"
    mv "$totals.new" "$totals"
  done
  summary "$target" "$executions" "$spent"
}

fuzz_for_seconds() {
  local target=$1 start=$SECONDS
  fuzz "$target" -max_total_time="$seconds" || return 1
  summary "$target" "$(statistic number_of_executed_units "$BUILD/logs/$target.log")" \
    $((SECONDS - start))
}

fuzz_target() {
  if ((runs > 0)); then fuzz_to_total "$1"; else fuzz_for_seconds "$1"; fi
}

fuzz_all() {
  local target running=0 failed=0
  say "| target       | executions | seconds | per s   | edges  | features | corpus | slowest | memory |"
  say "|---|---|---|---|---|---|---|---|---|"
  for target in "${targets[@]}"; do
    if ((running == JOBS)); then
      wait -n || failed=1
      running=$((running - 1))
    fi
    fuzz_target "$target" &
    running=$((running + 1))
  done
  while ((running > 0)); do
    wait -n || failed=1
    running=$((running - 1))
  done
  ((failed == 0)) || die "a fuzz target found something: see above; add the input to tests/fuzz/seeds
when it is mended"
}

step "configure" cmake --preset fuzz
programs=("${targets[@]/#/fuzz_}")
step "build" cmake --build --preset fuzz -j "$JOBS" --target "${programs[@]}"
step "fuzz" fuzz_all
