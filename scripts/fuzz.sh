#!/usr/bin/env bash
# Fuzzes the readers of files that may come from a stranger, under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   scripts/fuzz.sh [--seconds N] [TARGET...]   N seconds each (60); targets: import convert module tokenizer arrays
#
# Starts from test/fuzz/corpus/TARGET and what earlier runs found (build/fuzz/corpus/TARGET). An input that ends a target
# is left in build/fuzz/findings/TARGET-*, and the status is 1: fix the reader, then keep the input in the corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=60 targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift 2 ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) targets+=("$1"); shift ;;
  esac
done
if [ ${#targets[@]} -eq 0 ]; then targets=(import convert module tokenizer arrays); fi
scripts/build.sh fuzz "${targets[@]/#/kimi-fuzz-}" >&2
mkdir -p build/fuzz/findings
# Allocators of LLVM's headers poison memory that libLLVM, which is not instrumented, then uses.
export ASAN_OPTIONS=allow_user_poisoning=0:detect_leaks=0
status=0
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus"
  if ! build/fuzz/test/fuzz/"kimi-fuzz-$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=4096 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$target-" "$corpus" "test/fuzz/corpus/$target" \
    >"build/fuzz/$target.log" 2>&1; then
    status=1
    tail -n 40 "build/fuzz/$target.log"
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$target.log")
  echo "fuzz: $target: ${runs:-?} inputs in $seconds s, $(find build/fuzz/findings -name "$target-*" | wc -l) findings"
done
exit $status
