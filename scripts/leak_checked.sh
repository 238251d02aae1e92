#!/usr/bin/env bash
# scripts/leak_checked.sh PROGRAM [ARGUMENT...]: runs a program built with AddressSanitizer.
#
# LeakSanitizer of gcc 12 itself crashes now and then when a program ends ("Tracer caught signal
# 11", https://github.com/google/sanitizers/issues/1353): no leak has been looked for then, and the
# program is run again, three times in all. Any other failure is one at once.

set -uo pipefail

readonly CRASH='LeakSanitizer has encountered a fatal error'
readonly RUNS=3

output=$(mktemp)
trap 'rm -f "$output"' EXIT
for ((run = 1; run <= RUNS; ++run)); do
  "$@" 2>&1 | tee "$output"
  status=${PIPESTATUS[0]}
  # Of what failed besides, the program's own report says so.
  if ((status == 0)) || ! grep -qF "$CRASH" "$output" ||
     grep -qE '\[  FAILED  \]|ERROR: (Address|Leak)Sanitizer|runtime error:' "$output"; then
    exit "$status"
  fi
  printf '%s\n' "leak_checked.sh: LeakSanitizer crashed in run $run of at most $RUNS"
done
exit "$status"
