#!/usr/bin/env bash
# Writes the op and pass reference (docs/reference/) from TableGen, and docs/onnx-support.md from the operator table.
#   scripts/gen-docs.sh [OUT]    OUT is the repository's root by default; the tests give a scratch folder and compare
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-.}
tblgen=/usr/lib/llvm-22/bin/mlir-tblgen
mkdir -p "$out/docs/reference"
flags=(-I . -I /usr/lib/llvm-22/include)
"$tblgen" "${flags[@]}" -gen-dialect-doc -dialect=onnx dialects/Onnx/OnnxDialect.td > "$out/docs/reference/onnx-dialect.md"
"$tblgen" "${flags[@]}" -gen-dialect-doc -dialect=kimi dialects/Kimi/KimiOps.td > "$out/docs/reference/kimi-dialect.md"
"$tblgen" "${flags[@]}" -gen-dialect-doc -dialect=tile dialects/Tile/TileDialect.td > "$out/docs/reference/tile-dialect.md"
{
  echo "# Passes"
  for phase in OnnxRaise OnnxToKimi Kimi KimiToTile TileToLlvm TileToNvvm; do
    printf '\n## passes/%s\n\n' "$phase"
    "$tblgen" "${flags[@]}" -gen-pass-doc "passes/$phase/Passes.td" | sed 's/^### /### /'
  done
} > "$out/docs/reference/passes.md"
tool=${KIMI_BUILD:-build/release}/tools/kimi-compile/kimi-compile
if [ -x "$tool" ]; then
  { "$tool" --list-ops=markdown; echo; cat test/data/onnx-node/families.md; } > "$out/docs/onnx-support.md"
fi
