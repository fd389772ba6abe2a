#!/usr/bin/env bash
# Runs the cases of a bundle (scripts/gpu-bundle.sh) on a GPU and prints one table.
#
#   ./run.sh [--device cuda] [--benchmark] [--sanitize] [NAME...]
#
# NAME: cases to run, all by default. --benchmark times decode and prefill of the mini model and of measured/*.kmod, too.
# --sanitize runs the mini model under compute-sanitizer (memcheck, racecheck, synccheck), which must be on the path.
# f32 modules must be within rtol 1e-3, atol 1e-4 of the expected outputs; bf16, fp16 and tf32 ones within 1e-2 of their
# norm, unless a case has a file `tolerance` with flags of its own. Greedy text must be equal in f32. Logs go to logs/.
# Exit status: 0 all pass, 1 something failed, 2 wrong usage.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
run=${KIMI_RUN:-$here/bin/kimi-run}
device=cuda
benchmark=
sanitize=
names=()
while [ $# -gt 0 ]; do
  case $1 in
    --device) device=$2; shift 2 ;;
    --benchmark) benchmark=1; shift ;;
    --sanitize) sanitize=1; shift ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) names+=("$1"); shift ;;
  esac
done
[ -x "$run" ] || { echo "run.sh: no $run" >&2; exit 2; }
[ ${#names[@]} -gt 0 ] || names=($(ls "$here/cases" 2> /dev/null))
logs=$here/logs
mkdir -p "$logs"
"$run" --list-devices
printf '\n%-44s %-5s %-9s %s\n' case type result "worst difference, or why not"

passed=0 failed=0 start=$SECONDS
report() { # NAME PRECISION STATUS DETAIL
  local result=passed
  if [ "$3" -eq 0 ]; then
    passed=$((passed + 1))
  else
    result=FAILED
    failed=$((failed + 1))
  fi
  printf '%-44s %-5s %-9s %s\n' "$1" "$2" "$result" "${4:0:160}"
}

for name in "${names[@]}"; do
  case_dir=$here/cases/$name
  [ -d "$case_dir" ] || { report "$name" - 1 "there is no such case"; continue; }
  for module in "$case_dir"/*.kmod; do
    [ -e "$module" ] || { report "$name" - 1 "has no module"; continue; }
    precision=$(basename "$module" .kmod)
    tolerance=(--rtol 1e-3 --atol 1e-4)
    [ "$precision" = f32 ] || tolerance=(--rnorm 1e-2)
    [ ! -e "$case_dir/tolerance" ] || read -ra tolerance < "$case_dir/tolerance"
    log=$logs/$name.$precision.log
    timeout 120 "$run" --onnx-test "$case_dir" --module "$module" --device "$device" "${tolerance[@]}" > "$log" 2>&1
    status=$?
    detail=$(grep -m1 FAILED "$log" || grep -v ' passed, [0-9]* failed' "$log" | tail -1)
    report "$name" "$precision" $status "${detail#"$case_dir"/}"
    [ "$precision" = f32 ] || continue
    for prompt in "$case_dir"/prompt*.txt; do
      [ -e "$prompt" ] || continue
      index=$(basename "$prompt" .txt)
      index=${index#prompt}
      log=$logs/$name.$precision.text$index.log
      text=$logs/$name.$precision.text$index.txt
      timeout 120 "$run" "$module" --prompt-file "$prompt" --tokens "$(cat "$case_dir/tokens$index")" --ignore-eos \
        --tokenizer "$case_dir" --device "$device" > "$text" 2> "$log"
      status=$?
      detail=$(tail -1 "$log")
      if [ $status -eq 0 ] && ! cmp -s "$text" "$case_dir/expected$index.txt"; then
        status=1
        detail="other text: $(head -c 100 "$text" | tr '\n' ' ')"
      fi
      report "$name prompt $index" "$precision" $status "${detail#kimi-run: }"
    done
  done
done

if [ -n "$sanitize" ]; then
  mini=$here/cases/gpt2_mini
  for module in "$mini"/*.kmod; do
    [ -e "$module" ] || { report sanitize - 1 "the bundle has no mini model"; continue; }
    for check in memcheck racecheck synccheck; do
      log=$logs/sanitize.$(basename "$module" .kmod).$check.log
      flags=(--tool "$check" --error-exitcode 9)
      [ $check != memcheck ] || flags+=(--report-api-errors no) # calls that probe what the driver can do may fail
      timeout 300 compute-sanitizer "${flags[@]}" "$run" "$module" --device "$device" --tokenizer "$mini" \
        --prompt "Once upon a time" --tokens 4 --ignore-eos > "$log" 2>&1
      report "sanitize $check" "$(basename "$module" .kmod)" $? "$(grep -m1 SUMMARY "$log" || tail -1 "$log")"
    done
  done
fi
if [ -n "$benchmark" ]; then
  for module in "$here"/cases/gpt2_mini/*.kmod "$here"/measured/*.kmod; do
    [ -e "$module" ] || continue
    printf '\n%s\n' "${module#"$here"/}"
    timeout 300 "$run" "$module" --device "$device" --benchmark --runs 50 ||
      report "${module#"$here"/}" - 1 "the benchmark failed"
  done
fi
printf '\n%d passed, %d failed, %d s\n' $passed $failed $((SECONDS - start))
[ $failed -eq 0 ] && [ $passed -gt 0 ]
