#!/usr/bin/env bash
# Sets up, builds, and prints text by a GPT-2 that comes in as an ONNX file.
#   scripts/demo.sh ["a prompt"]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --minimal
scripts/build.sh release kimi-run kimi-compile
bin=build/release/tools
prompt=${1:-"It is a truth universally acknowledged, that"}
"$bin/kimi-run/kimi-run" models/gpt2/mini/gpt2_mini.onnx --prompt "$prompt" --tokens 60
