#!/usr/bin/env bash
# parallel.sh BUNDLE FILE... OPTIONS: the bundle of a model, its kernels made by GNU parallel, one a
# job. OPTIONS are those of spjit compile.
#
#   HOSTS    machines for --sshlogin, such as 4/tuner1,4/tuner2; each has spjit and this folder
#            (default: this machine)

set -euo pipefail

(($# >= 3)) || { echo "usage: parallel.sh BUNDLE FILE... OPTIONS" >&2; exit 2; }
bundle=$1
shift
spjit plan "$@" >"$bundle.jsonl"
seq "$(wc -l <"$bundle.jsonl")" |
  parallel --sshlogin "${HOSTS:-:}" --workdir "$PWD" --retries 3 --halt soon,fail=1 \
    spjit work "$bundle.jsonl" --out "$bundle.work" --line
spjit work "$bundle.jsonl" --out "$bundle.work" --bundle "$bundle"
