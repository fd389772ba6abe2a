#!/usr/bin/env bash
# Runs the tests with binaries of a sanitizer.
#
#   scripts/sanitize.sh asan [SUITE...]   AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer: everything
#   scripts/sanitize.sh tsan [SUITE...]   ThreadSanitizer: the runtime and kimi-run
#
# A SUITE is lit, unit, e2e or a file of test/e2e (all of them). What a sanitizer sees is in SECURITY.md.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-} suites=("${@:2}")
case "$kind" in
  asan) ;;
  tsan) if [ ${#suites[@]} -eq 0 ]; then suites=(unit e2e); fi ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
if [ ${#suites[@]} -eq 0 ]; then suites=(lit unit e2e); fi

# Allocators of LLVM's headers poison memory that libLLVM, which is not instrumented, then uses.
export ASAN_OPTIONS=allow_user_poisoning=0 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/test/tsan.supp"
tests=(--build "build/$kind")
if [ "$kind" = tsan ]; then
  # The threads of the compiler are those of libMLIR and libLLVM, which are not instrumented: kimi-compile is the
  # release's, and what is tested is the runtime.
  scripts/build.sh release kimi-compile kimi-opt >&2
  scripts/build.sh tsan kimi-run runtime-tests kimi-run-tests text-tests >&2
  for tool in kimi-compile kimi-opt; do
    ln -sfn "$PWD/build/release/tools/$tool/$tool" "build/tsan/tools/$tool/$tool"
  done
  tests+=(--unit '^(runtime-tests|kimi-run|text-tests)$')
else
  scripts/build.sh asan >&2
fi
for suite in "${suites[@]}"; do
  case "$suite" in
    lit | unit | e2e) tests+=(--suite "$suite") ;;
    *) tests+=(--suite e2e --e2e "$suite") ;;
  esac
done
exec .venv/bin/python scripts/run-tests.py "${tests[@]}"
