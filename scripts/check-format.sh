#!/usr/bin/env bash
# Fails where a source file is not as clang-format would write it. `scripts/check-format.sh --fix` rewrites them.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
if [ "${1:-}" = "--fix" ]; then mode=(-i); fi
git ls-files '*.cpp' '*.h' '*.c' | xargs -r clang-format-22 "${mode[@]}"
