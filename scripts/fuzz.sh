#!/usr/bin/env bash
# Fuzzes the readers of files that may come from a stranger, under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   scripts/fuzz.sh [--seconds N] [--jobs N] [TARGET...]
#
# N seconds each (60), some at a time (1); targets: import convert module tokenizer arrays. Starts from
# test/fuzz/corpus/TARGET and what earlier runs found (build/asan/fuzz/corpus/TARGET); import and convert, where there
# are ten minutes or more, from the models of ONNX's node tests too (KIMI_SHARED, default: ../shared) and from some that
# scripts/hostile-nodes.py draws. An input that ends a target is left in build/asan/fuzz/findings/TARGET-*, and the status
# is 1: fix the reader, then keep the input in the corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=60 jobs=1 targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) targets+=("$1"); shift ;;
  esac
done
if [ ${#targets[@]} -eq 0 ]; then targets=(import convert module tokenizer arrays); fi
scripts/build.sh asan "${targets[@]/#/kimi-fuzz-}" >&2
out=build/asan/fuzz
mkdir -p "$out/findings" "$out/models"
cases=${KIMI_SHARED:-../shared}/onnx-node-1.22.0.tar.xz
if [ "$seconds" -ge 600 ] && [ -f "$cases" ] && [ ! -e "$out/models/node" ]; then
  tar -C "$out/models" -xf "$cases" --wildcards '*/model.onnx'
fi
if [ "$seconds" -ge 600 ]; then .venv/bin/python scripts/hostile-nodes.py "$out/models/hostile" --each 5 >&2; fi
# Allocators of LLVM's headers poison memory that libLLVM, which is not instrumented, then uses.
export ASAN_OPTIONS=allow_user_poisoning=0:detect_leaks=0

fuzz() {
  local target=$1 status=0 more=()
  mkdir -p "$out/corpus/$target"
  if [ "$seconds" -ge 600 ] && { [ "$target" = import ] || [ "$target" = convert ]; }; then more=("$out/models"); fi
  "build/asan/test/fuzz/kimi-fuzz-$target" -max_total_time="$seconds" -timeout=30 \
    -report_slow_units=30 -rss_limit_mb=4096 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="$out/findings/$target-" "$out/corpus/$target" "test/fuzz/corpus/$target" \
    "${more[@]}" >"$out/$target.log" 2>&1 || status=1
  if [ $status -ne 0 ]; then tail -n 40 "$out/$target.log"; fi
  echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$target.log") inputs in $seconds s," \
    "$(find "$out/findings" -name "$target-*" | wc -l) findings"
  return $status
}

status=0 running=()
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 1; done
  fuzz "$target" &
  running+=($!)
done
for job in "${running[@]}"; do wait "$job" || status=1; done
exit $status
