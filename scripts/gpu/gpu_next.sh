#!/usr/bin/env bash
# scripts/gpu/gpu_next.sh PART OUT --build FOLDER [--vendor FOLDER] [--seconds N] [--seed N]
#                     [--rehearse]
#
# What bench/gpu/queue.md asks a card next, for a machine that is lent for a quarter of an hour and
# has 16 cores. Programs are built beforehand, on a machine without a GPU:
#
#   scripts/build/vendor.sh && scripts/gpu/gpu.sh --steps build --rehearse   # into build/gpu
#
# PART:
#   measure   families at few tokens, the rest of the paper's kernels, hot, some of them cold, and
#             samples of tiles: --seconds of it (default: 540). Cubins are compiled on twelve cores
#             while four time others
#   networks  encoders whose layers are one CUDA graph beside cuBLAS and cuSPARSE, in the same
#             --seconds: fourteen cores compile a network while two time the one before
#
# Writes into OUT; `measure` and `networks` go on with the files of bench/results that are of this
# card.
#
#   --build FOLDER   has bench/side_by_side_bench, bench/gpu_network_bench and tools/spjit
#   --vendor FOLDER  what scripts/build/vendor.sh made (default: .vendor, if it is there)
#   --seed N         of the first samples (default: 32)
#   --rehearse       `measure` and `networks` without a GPU, on the emulated driver: a few small cases,
#                    no times

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
# shellcheck source=scripts/gpu/gpu_steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/gpu_steps.sh"

part=
out=
build=
vendor=$ROOT/.vendor
seconds=540
seed=32
rehearse=0
while (($# > 0)); do
  case $1 in
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --vendor) vendor=${2:?--vendor needs a folder}; shift 2 ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --seed) seed=${2:?--seed needs a number}; shift 2 ;;
    --rehearse) rehearse=1; shift ;;
    -h | --help) print_help; exit 0 ;;
    -*) die "unknown argument '$1'; see --help" ;;
    *) if [[ -z $part ]]; then part=$1; else out=$1; fi; shift ;;
  esac
done
[[ $part =~ ^(measure|networks)$ && -n $out ]] ||
  die "expected PART, which is measure or networks, and the folder OUT; see --help"
[[ -x $build/bench/side_by_side_bench ]] || die "--build '$build' has no bench/side_by_side_bench"
mkdir -p "$out"
out=$(realpath "$out") build=$(realpath "$build")
lib=$vendor/usr/lib/x86_64-linux-gnu
if [[ -d $lib ]]; then
  LD_LIBRARY_PATH=$(realpath "$lib")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
fi

# A library that is missing here would cost the whole run.
for program in bench/side_by_side_bench bench/gpu_network_bench tools/spjit; do
  missing=$(ldd "$build/$program" | awk '/not found/ && !/libcuda/ {print $1}' | sort -u | xargs)
  [[ -z $missing ]] || die "$build/$program needs $missing, which neither this machine nor --vendor \
'$vendor' has"
done

left() { say $((seconds - SECONDS)); }  # of --seconds

# minutes_until N: minutes left until N seconds before the end; never 0, which is no limit.
minutes_until() { awk -v s="$(($(left) - $1))" 'BEGIN { printf "%.2f", s < 1 ? 0.01 : s / 60 }'; }

more=()
gpu_cores=0-3 compile_cores=(4 5 6 7 8 9 10 11 12 13 14 15)
if ((rehearse)); then
  export SPJIT_CUDA_DRIVER=$build/tests/emulated_driver/libspjit_emulated_cuda.so
  device=rehearsal more=(--rehearse) gpu_cores=0 compile_cores=(0 1)
else
  device=$(device_slug)
fi
target=sm_90:h100
if [[ $device == *h200* ]]; then target=sm_90:h200; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# time_network NETWORK N: what is not compiled yet is compiled there.
time_network() {
  taskset -c "$gpu_cores" timeout "$(($(left) > 15 ? $(left) - 10 : 5))" "$build/bench/gpu_network_bench" \
    --networks "$1" --n "$2" --cache "$work/cache" --out "$out/gpu-networks-$device.jsonl" \
    "${more[@]}" 2>&1 | tee -a "$out/networks.log" || say "$1 n=$2: see $out/networks.log"
}

if [[ $part == networks ]]; then
  networks=(minilm-90:512 bert-95:512 minilm-90:128 bert-90:512 minilm-80:512 bert-95:128
            bert-90:128 minilm-90:2048 bert-95:2048)
  gpu_cores=0-1 parts=14 timing=
  if ((rehearse)); then
    networks=(tiny-50:5 tiny-90:3) more=(--check-only --peers 'spjit,row-split') gpu_cores=0 parts=2
  fi
  cp "$ROOT/bench/results/gpu-networks-$device.jsonl" "$out" 2>/dev/null || true
  for each in "${networks[@]}"; do
    (($(left) > 30)) || { say "no time is left for $each and what follows"; break; }
    compilers=()
    for ((i = 0; i < parts; i++)); do
      timeout "$(left)" taskset -c "$((rehearse ? 0 : i + 2))" "$build/bench/gpu_network_bench" \
        --networks "${each%:*}" --n "${each#*:}" --cache "$work/cache" --parts "$parts" --part "$i" \
        >>"$out/networks.log" 2>&1 &
      compilers+=($!)
    done
    for i in "${compilers[@]}"; do wait "$i" || say "$each: a compiler failed; see $out/networks.log"; done
    say "$each: compiled at $SECONDS s"
    if [[ -n $timing ]]; then wait "$timing"; fi
    time_network "${each%:*}" "${each#*:}" &
    timing=$!
  done
  wait
  say "results: $out; $SECONDS s"
  exit
fi

cp "$ROOT/bench/results/"{paper,paper-cold,tokens-hot,tokens-cold}-"$device".json "$out" 2>/dev/null ||
  true
paper=(--set paper --paper-set "$ROOT/bench/paper_set.json" --all --shuffle 1 --target "$target")

# measure NAME ARGUMENT...: goes on with NAME's file; with a new one where libraries are others now.
measure() {
  local name=$1 file=$out/$1-$device.json try
  for try in 1 2; do
    timeout "$(($(left) > 30 ? $(left) - 25 : 5))" taskset -c "$gpu_cores" "$build/bench/side_by_side_bench" \
      --gpu 0 --json "$file" --append --budget-ms 100 "${more[@]}" "${@:2}" >>"$out/$name.log" 2>&1 &&
      return
    if ((try == 2)) || ! grep -q 'made on another machine' "$out/$name.log"; then break; fi
    mv "$file" "${file%.json}-before.json"
  done
  say "$name: see $out/$name.log"
}

# Names of the paper's kernels without a time, the dearest first, at most 110 spread over all.
python3 - "$ROOT/bench/paper_set.json" "$out/paper-$device.json" >"$work/todo" <<'PYTHON'
import json, os, sys
document = json.load(open(sys.argv[1]))
done = set()
if os.path.exists(sys.argv[2]):
    done = {case["matrix"] for case in json.load(open(sys.argv[2]))["cases"]}
left = {f"{s['id']:02}-{s['m']}x{s['k']}/{zeros}": s["m"] * s["k"] * (1 - zeros)
        for zeros in document["sparsities"] for s in document["shapes"]}
names = sorted(set(left) - done)
names = names[::1 + len(names) // 110]
print("\n".join(sorted(names, key=left.get, reverse=True)))
PYTHON
say "kernels of the paper's to do: $(wc -l <"$work/todo")"
if ((rehearse)); then tail -n 2 "$work/todo" >"$work/two"; mv "$work/two" "$work/todo"; fi
split -n "r/${#compile_cores[@]}" "$work/todo" "$work/todo."

compilers=()
for list in "$work"/todo.*; do
  mapfile -t names <"$list"
  taskset -c "${compile_cores[0]}-${compile_cores[-1]}" "$build/bench/side_by_side_bench" --precompile "$work/cubins.${list##*.}" \
    "${paper[@]}" --only "${names[@]}" >"$work/${list##*.}.log" 2>&1 &
  compilers+=($!)
done
tokens=(--set tokens --max-minutes 0.6 --peers "${TOKEN_PEERS[@]}")
if ((rehearse)); then
  tokens=("${paper[@]}" --only 36-64x192/0.98 --peers row-split dense)
  more+=(--peers spjit row-split)
fi
measure tokens-hot "${tokens[@]}"
measure tokens-cold "${tokens[@]}" --cold
for each in "${compilers[@]}"; do wait "$each" || say "a compiler failed"; done
say "tokens are timed, cubins compiled: $SECONDS s"

compile_s=$(($(left) - 170))
compile_s=$((compile_s > 150 ? 150 : compile_s))
for ((i = 0; i < ${#compile_cores[@]} && compile_s > 0; i++)); do
  compile_samples "$work/samples.$i" $((seed + i)) "${compile_cores[i]}" &
done
for list in "$work"/todo.*; do
  mapfile -t names <"$list"
  cubins=$work/cubins.${list##*.}
  measure paper "${paper[@]}" --cubins "$cubins" --only "${names[@]}" \
    --max-minutes "$(minutes_until 170)"
  measure paper-cold "${paper[@]}" --cubins "$cubins" --only "${names[@]:0:3}" --cold \
    --peers spjit row-split sputnik-style cublas cublas-tf32 cusparse-csr1 cusparse-csr2 \
    cusparse-csr3 --max-minutes "$(minutes_until 150)"
done
wait
say "the paper's kernels are timed, samples compiled: $SECONDS s"
for ((i = 0; i < ${#compile_cores[@]} && $(left) > 20; i++)); do
  timeout "$(($(left) - 10))" "$build/tools/spjit" collect --time "$work/samples.$i" \
    --out "$out/samples-$device.jsonl" >>"$out/samples.log" 2>&1 || true
done
say "results: $out; $SECONDS s"
