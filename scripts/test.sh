#!/usr/bin/env bash
# From a bare Debian 12 machine to all tests: installs, configures, builds, then runs format check, lit, unit and
# end-to-end tests. Larger cases are used where KIMI_SHARED names their folder (default: ../shared); absent, the tests
# that need them are skipped and say so.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh release
scripts/check-format.sh
exec .venv/bin/python scripts/run-tests.py --build build/release "$@"
