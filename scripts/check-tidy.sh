#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy; any finding fails.
#   scripts/check-tidy.sh                  files that differ from the branch main (or from $KIMI_TIDY_BASE), committed or not
#   scripts/check-tidy.sh --all            every .cpp of the build
#   scripts/check-tidy.sh FILE.cpp...      these
# Needs a configured and built preset (its compile_commands.json and generated headers): build/release, or $KIMI_BUILD.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${KIMI_BUILD:-build/release}
database=$build/compile_commands.json
[ -f "$database" ] || { echo "check-tidy: error: $database is missing; run scripts/build.sh first" >&2; exit 2; }
case "${1:-}" in
  --all) mapfile -t files < <(git ls-files '*.cpp') ;;
  "") base=$(git merge-base "${KIMI_TIDY_BASE:-main}" HEAD)
      mapfile -t files < <({ git diff --name-only --diff-filter=d "$base" -- '*.cpp'; git ls-files -o --exclude-standard '*.cpp'; } | sort -u) ;;
  *) files=("$@") ;;
esac
known=()
for file in "${files[@]}"; do
  if grep -qF "/$file\"" "$database"; then known+=("$file"); else echo "check-tidy: $file is not part of $build, skipped" >&2; fi
done
if [ ${#known[@]} = 0 ]; then echo "check-tidy: nothing to check"; exit 0; fi
printf '%s\0' "${known[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-22 -p "$build" --quiet
echo "check-tidy: ${#known[@]} files, no findings"
