#!/usr/bin/env bash
# Configures and builds one preset (release by default): scripts/build.sh [preset] [ninja targets...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true
if [ ! -f "build/$preset/build.ninja" ]; then
  cmake --fresh --preset "$preset" > "/tmp/kimi-configure-$$.log" 2>&1 || { cat "/tmp/kimi-configure-$$.log" >&2; exit 1; }
  rm -f "/tmp/kimi-configure-$$.log"
fi
exec ninja -C "build/$preset" "$@"
