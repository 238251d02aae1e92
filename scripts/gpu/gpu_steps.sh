# shellcheck shell=bash
# Sourced by scripts/gpu/gpu.sh, whose options it reads: what the steps are and do.
# shellcheck disable=SC2154  # set by gpu.sh
# shellcheck disable=SC2034  # used by gpu.sh

# Steps whose cubins --precompile makes unless it is told otherwise, in the order in which they are
# measured; then all that measure, and all there are.
readonly STORED_STEPS=(paper ranks)
readonly MEASURING_STEPS=("${STORED_STEPS[@]}" tokens samples side-by-side search-cost torch)
readonly STEPS=(build test "${MEASURING_STEPS[@]}")
# What a step gets of the time that is left for it and those behind it, in parts.
declare -rA SHARES=([paper]=18 [ranks]=13 [tokens]=6
                    [samples]=12 [side-by-side]=6 [search-cost]=4 [torch]=5)
# Tiles of a matrix whose whole kernels and proxies `ranks` compares. The cubins of a folder are of
# the same.
readonly TILES=24
# What a step `tokens` times: a file of results goes on only with the same.
readonly TOKEN_PEERS=(row-split packed narrow dense sputnik-style cublas cublas-tf32 cublas-tokens
                      cublas-bf16 cusparse-spmv cusparse-csr2 cusparse-csr3)
# Of a matrix of `samples`, and the seed of its first process: other runs take others.
readonly SAMPLE_TILES=20
readonly SAMPLE_SEED=${SPJIT_SAMPLE_SEED:-1}
# Of `torch`: one with torch, transformers, scipy and pytest.
readonly PYTHON=${SPJIT_PYTHON:-python3}

failed=()
left_out=()

wants() { [[ ,$steps, == *,$1,* ]]; }

build_all() {
  cmake "${configure[@]}"
  cmake --build "$build" -j "$JOBS" --target "${targets[@]}"
}

test_gpu() { ctest --test-dir "$build" -L "$labels" --output-on-failure --no-tests=error; }

# query_gpu NAME: what nvidia-smi knows of the first GPU by that name.
query_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -n 1; }

# The device's name as part of a file's: "NVIDIA H100 80GB HBM3" is nvidia-h100-80gb-hbm3.
device_slug() { query_gpu name | tr '[:upper:] ' '[:lower:]-' | tr -cd 'a-z0-9-'; }

# bench PROGRAM ARGUMENT...: one of the programs that were built.
bench() {
  [[ -x $build/bench/$1 ]] || die "no $build/bench/$1; run the step 'build' first"
  say "$*"
  "$build/bench/$1" "${@:2}"
}

bench_ranks() {
  python3 "$ROOT/bench/python/gpu_ranks_bench.py" --program "$build/bench/gpu_tiles" "$@"
}

# What a step measures, as arguments that measuring and compiling have in common.
gpu_bench_cases() {
  cases=(--tiles "$TILES")
  if ((rehearse)); then cases=(--check-only --first 1 --tiles 2); fi
}

side_by_side_cases() {
  cases=(--all --shuffle 1)
  if [[ $1 == paper ]]; then cases+=(--set paper); else cases+=(--set dlmc --data "$data"); fi
  ((rehearse)) || return 0
  cases+=(--peers spjit row-split sputnik-style)
  if [[ $1 == paper ]]; then
    cases+=(--only 36-64x192/0.98)
  else
    cases+=(--n 1 32 --only transformer/magnitude_pruning/0.98/body_encoder_layer_0)
  fi
}

# Families at few tokens beside the libraries, hot, then cold. Compiled when they are needed: they
# read A, and cubins of them would hold it.
measure_tokens() {
  local caches cases=(--budget-ms 120 --set tokens --peers "${TOKEN_PEERS[@]}" --max-minutes
                      "$(awk -v minutes="$share" 'BEGIN { printf "%.2f", minutes / 2 }')")
  if ((rehearse)); then
    cases=(--rehearse --set paper --all --only 36-64x192/0.98 --peers row-split dense)
  fi
  for caches in hot cold; do
    if [[ $caches == cold ]]; then cases+=(--cold); fi
    bench side_by_side_bench --gpu 0 --json "$out/tokens-$caches-$device.json" "${cases[@]}" \
      "${append[@]}"
  done
}

# compile_samples FOLDER SEED CPU: tiles of drawn matrices, until the time for it is over.
compile_samples() {
  local groups=1000 tiles=$SAMPLE_TILES status=0
  if ((rehearse)); then groups=1 tiles=2; fi
  timeout "$compile_s" taskset -c "$3" "$build/tools/spjit" collect --compile-only "$1" \
    --seed "$2" --groups "$groups" --tiles "$tiles" --target "$target" >"$1.log" 2>&1 || status=$?
  ((status == 0 || status == 124)) || { tail -n 3 "$1.log" >&2; return 1; }
}

# Tiles of drawn matrices: a process a core compiles, with a seed of its own, for three quarters of
# the time; then the GPU times them, part by part. What is cut off keeps what it has.
measure_samples() {
  local end compile_s folder i parts=$JOBS processes=()
  end=$(awk -v now="$SECONDS" -v minutes="$share" 'BEGIN { printf "%.0f", now + minutes * 60 }')
  compile_s=$(awk -v minutes="$share" 'BEGIN { printf "%.0f", minutes * 45 }')
  if ((rehearse)); then parts=2; fi
  folder=$(mktemp -d)
  for ((i = 0; i < parts; i++)); do
    compile_samples "$folder/$i" $((SAMPLE_SEED + i)) "$((i % $(nproc)))" &
    processes+=($!)
  done
  for i in "${processes[@]}"; do wait "$i"; done
  for ((i = 0; i < parts; i++)); do
    ((SECONDS < end)) || { say "no time is left for $((parts - i)) parts of $parts"; break; }
    "$build/tools/spjit" collect --time "$folder/$i" --out "$out/samples-$device.jsonl"
  done
  rm -rf "$folder"
}

# Without DLMC there is nothing to do.
lacks_data() {
  [[ $1 == side-by-side && -z $data ]] || return 1
  say "no folder dlmc (--data FOLDER): nothing to do"
}

# fill_step NAME: compiles the cubins of a step into --precompile's folder.
fill_step() {
  local cases=() common=(--precompile "$precompile" --target "$target")
  if lacks_data "$1"; then return; fi
  case $1 in
    paper | side-by-side)
      side_by_side_cases "$1"
      bench side_by_side_bench "${common[@]}" "${cases[@]}"
      ;;
    *)
      gpu_bench_cases
      bench_ranks "${common[@]}" "${cases[@]}"
      ;;
  esac
}

# share_of NAME: minutes that a step may take; 0 or less where none are left.
share_of() {
  local name parts=0 is_later=0
  for name in "${MEASURING_STEPS[@]}"; do
    if [[ $name == "$1" ]]; then is_later=1; fi
    if ((is_later)) && wants "$name"; then parts=$((parts + SHARES[$name])); fi
  done
  awk -v minutes="$minutes" -v spent="$SECONDS" -v own="${SHARES[$1]}" -v parts="$parts" \
    'BEGIN { printf "%.2f", (minutes - spent / 60) * own / parts }'
}

# What all measuring programs take.
common_arguments() {
  common=(--json "$out/$1-$device.json")
  if [[ -n $precompiled ]]; then common+=(--cubins "$precompiled" --target "$target"); fi
}

measure_ranks() {
  local cases=() common=()
  common_arguments searches
  gpu_bench_cases
  bench_ranks "${common[@]}" "${cases[@]}" --max-minutes "$share" "${append[@]}" |
    tee ${append:+-a} "$out/searches-$device.txt"
}

# Matrices in a drawn order: what is done in time is a sample of all.
measure_side_by_side() {
  local cases=() common=()
  if lacks_data "$name"; then return; fi
  common_arguments "$name"
  side_by_side_cases "$name"
  if ((rehearse)); then common+=(--rehearse); fi
  bench side_by_side_bench --gpu 0 "${common[@]}" "${cases[@]}" --max-minutes "$share" \
    "${append[@]}"
}

# Three ways of six are killed for larger matrices: 1/14 of the time for each leaves room for all.
measure_search_cost() {
  local arguments=(--json "$out/search-cost-$device.json" --max-minutes "$share")
  if ((rehearse)); then
    arguments+=(--rehearse --targets sm_90)
  else
    arguments+=(--targets "sm_$(query_gpu compute_cap | tr -d .)"
                --limit "$(awk -v minutes="$share" 'BEGIN { printf "%.3g", minutes * 60 / 14 }')")
  fi
  if [[ -n $data ]]; then arguments+=(--data "$data/dlmc"); fi
  python3 "$ROOT/bench/python/search_cost_bench.py" --program "$build/bench/search_way" \
    "${arguments[@]}"
}

# Why there is nothing to do for `torch`; nothing where there is.
why_no_torch() {
  [[ -f $build/bindings/python/libspjit_python.so ]] ||
    { say "no $build/bindings/python/libspjit_python.so; run the step 'build'"; return; }
  "$PYTHON" - "$rehearse" <<'PYTHON' 2>&1 | tail -n 1
import importlib, sys
rehearse = sys.argv[1] == "1"
for name in ("numpy", "scipy", "pytest", "torch", *([] if rehearse else ["transformers"])):
    try:
        importlib.import_module(name)
    except ImportError:
        sys.exit(f"{sys.executable} has no {name}")
import torch
if not rehearse and not torch.cuda.is_available():
    sys.exit(f"torch {torch.__version__} of {sys.executable} has no CUDA device")
PYTHON
}

# The package's tests on the GPU, then examples/bert_gpu. A rehearsal takes the tests on the
# emulated driver, and small networks on the CPU.
measure_torch() {
  local why folder status=0 tests=("$ROOT/bindings/python/tests") example=()
  why=$(why_no_torch) || why=${why:-"$PYTHON cannot be run"}
  if [[ -n $why ]]; then say "$why: nothing to do"; return; fi
  folder=$(mktemp -d)
  cp -r "$ROOT/bindings/python/src/spjit" "$build/bindings/python/libspjit_python.so" "$folder"
  mv "$folder/libspjit_python.so" "$folder/spjit"
  export PYTHONPATH=$folder${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
  if ((rehearse)); then
    tests=("$ROOT"/bindings/python/tests/test_{gpu,torch_gpu,torch_cuda}.py)
    example=(--networks resnet50 --device cpu --tiny --seconds 0.05)
    export SPJIT_TEST_CUDA_DRIVER=$SPJIT_CUDA_DRIVER
  else
    tests+=(-m cuda)
    example=(--sparsity 90 70 --seconds 1)
  fi
  "$PYTHON" -m pytest -q -p no:cacheprovider -c "$ROOT/bindings/python/pyproject.toml" \
    --rootdir "$ROOT/bindings/python" "${tests[@]}" || status=$?
  timeout "$(awk -v minutes="$share" 'BEGIN { printf "%.0f", 1 + minutes * 60 }')" \
    "$PYTHON" "$ROOT/examples/bert_gpu/bert_gpu.py" --out "$out" \
    --json "$out/torch-$device.jsonl" "${example[@]}" || status=$?
  rm -rf "$folder"
  return "$status"
}

# keep_going NAME COMMAND: a step whose failure is told at the end. COMMAND is run in a shell of its
# own, in which `set -e` holds.
keep_going() {
  set +e
  (set -e; "$2")
  local status=$?
  set -e
  ((status == 0)) && return
  failed+=("$1")
  say "==> $1: FAILED with exit status $status" >&2
}

# measure_step NAME: with its share of the time, if there is any.
measure_step() {
  local name=$1 share
  share=$(share_of "$name")
  if [[ $share == -* || $share == 0.00 ]]; then
    left_out+=("$name")
    return
  fi
  case $name in
    paper | side-by-side) step "$name" keep_going "$name" measure_side_by_side ;;
    tokens) step "$name" keep_going "$name" measure_tokens ;;
    samples) step "$name" keep_going "$name" measure_samples ;;
    search-cost) step "$name" keep_going "$name" measure_search_cost ;;
    torch) step "$name" keep_going "$name" measure_torch ;;
    *) step "$name" keep_going "$name" measure_ranks ;;
  esac
}
