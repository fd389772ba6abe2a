#!/usr/bin/env bash
# Packs what a machine with an NVIDIA driver, and nothing else, needs to test compiled modules: a static kimi-run, modules
# with their weights inside, inputs, expected outputs, and the runner.
#
#   scripts/gpu-bundle.sh [-o FILE.tar.gz] [--target cuda:sm_90a] [--precisions f32,bf16] [--benchmarks] [CASE...]
#
# CASE: a folder in ONNX's test layout (model.onnx, test_data_set_*), or a .kmod that goes in as it is, to be measured.
# Without cases: those of test/data/gpt2 and the trained mini model (greedy tokens and logits). A precision that a case
# does not compile for is listed as a failure on the spot. --benchmarks adds the modules and scripts of benchmarks/gpu
# (bench.sh; PyTorch is needed there). On the machine: tar xzf FILE.tar.gz && gpu-bundle/run.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/gpu-bundle.tar.gz
target=cuda:sm_90a
precisions=f32,bf16
limit_mib=60
benchmarks=
cases=()
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=$2; shift 2 ;;
    --target) target=$2; shift 2 ;;
    --precisions) precisions=$2; shift 2 ;;
    --benchmarks) benchmarks=1; shift ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "gpu-bundle: unknown option $1" >&2; exit 2 ;;
    *) cases+=("$1"); shift ;;
  esac
done
compiler=${KIMI_COMPILE:-$root/build/release/tools/kimi-compile/kimi-compile}
runner=${KIMI_RUN:-$root/build/static/tools/kimi-run/kimi-run}
for tool in "$compiler:release kimi-compile" "$runner:static kimi-run"; do
  [ -x "${tool%%:*}" ] || { echo "gpu-bundle: no ${tool%%:*}; build it with scripts/build.sh ${tool#*:}" >&2; exit 1; }
done
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/gpu-bundle
mkdir -p "$bundle/bin" "$bundle/cases"
cp "$runner" "$bundle/bin/kimi-run"
cp "$root/test/gpu/run.sh" "$bundle/run.sh"
chmod +x "$bundle/run.sh"

failures=0
# compile MODEL OUT PRECISION
compile() {
  if "$compiler" "$1" -o "$2" --target="$target" --precision="$3" --bake 2> "$work/log"; then
    return 0
  fi
  echo "gpu-bundle: $1 does not compile for $target in $3:" >&2
  sed 's/^/  /' "$work/log" | head -5 >&2
  failures=$((failures + 1))
  return 1
}

add_folder() { # an ONNX test folder
  local folder=$1 name
  name=$(basename "$folder")
  mkdir -p "$bundle/cases/$name"
  cp -r "$folder"/test_data_set_* "$bundle/cases/$name/"
  [ ! -e "$folder/tolerance" ] || cp "$folder/tolerance" "$bundle/cases/$name/"
  chmod -R u+w "$bundle/cases/$name"
  for precision in ${precisions//,/ }; do
    compile "$folder/model.onnx" "$bundle/cases/$name/$precision.kmod" "$precision" || continue
  done
}

add_mini() { # greedy tokens as text, and logits of the reference lowering for each prompt
  local mini=$root/models/gpt2/mini name=gpt2_mini
  local case=$bundle/cases/$name
  mkdir -p "$case"
  cp "$mini"/tokenizer.json "$mini"/tokenizer_config.json "$mini"/vocab.json "$mini"/merges.txt "$mini"/config.json "$case/"
  "$python" - "$mini" "$case" <<'PYTHON'
import json, pathlib, sys
import numpy as np
import onnx
from onnx import numpy_helper
mini, case = map(pathlib.Path, sys.argv[1:])
for i, prompt in enumerate(json.loads((mini / "golden.json").read_text())["prompts"]):
    (case / f"prompt{i}.txt").write_text(prompt["prompt"])
    (case / f"expected{i}.txt").write_text(prompt["greedy_text"].rstrip("\n") + "\n")
    (case / f"tokens{i}").write_text(str(len(prompt["greedy_ids"])))
    folder = case / f"test_data_set_{i}"
    folder.mkdir()
    np.save(folder / "ids.npy", np.array([prompt["ids"]], dtype=np.int64))
    tensor = numpy_helper.from_array(np.array([prompt["ids"]], dtype=np.int64), "input_ids")
    (folder / "input_0.pb").write_bytes(tensor.SerializeToString())
PYTHON
  local cpu_run=$root/build/release/tools/kimi-run/kimi-run
  "$compiler" "$mini/gpt2_mini.onnx" -o "$work/reference.kmod" --target=cpu --reference --bake
  for folder in "$case"/test_data_set_*; do
    "${KIMI_CPU_RUN:-$cpu_run}" "$work/reference.kmod" --input "input_ids=$folder/ids.npy" --output "$work/logits.npz" 2> /dev/null
    "$python" - "$work/logits.npz" "$folder/output_0.pb" <<'PYTHON'
import sys
import numpy as np
from onnx import numpy_helper
logits = np.load(sys.argv[1])["logits"]
open(sys.argv[2], "wb").write(numpy_helper.from_array(logits, "logits").SerializeToString())
PYTHON
    rm "$folder/ids.npy"
  done
  for precision in ${precisions//,/ }; do
    compile "$mini/gpt2_mini.onnx" "$case/$precision.kmod" "$precision" || continue
  done
}

if [ ${#cases[@]} -eq 0 ]; then
  for folder in "$root"/test/data/gpt2/*/; do
    add_folder "${folder%/}"
  done
  add_mini
else
  for case in "${cases[@]}"; do
    case $case in
      *.kmod) mkdir -p "$bundle/measured"; cp "$case" "$bundle/measured/" ;;
      mini) add_mini ;;
      *) add_folder "${case%/}" ;;
    esac
  done
fi

add_benchmarks() { # modules without weights, which are drawn where they run
  mkdir -p "$bundle/benchmarks" "$bundle/models/gpt2" "$bundle/kernels" "$work/gpt2" "$work/gpt2-logits"
  cp -r "$root/benchmarks/gpu" "$bundle/benchmarks/"
  rm -rf "$bundle/benchmarks/gpu/__pycache__"
  cp "$root/models/gpt2/export.py" "$bundle/models/gpt2/"
  cp "$root/benchmarks/gpu/bench.sh" "$bundle/bench.sh"
  "$python" "$root/benchmarks/gpu/models.py" --graphs --out "$work/graphs"
  for graph in "$work"/graphs/*/; do
    mkdir -p "$bundle/kernels/$(basename "$graph")"
    inside=(--bake) # vectors that the graph holds itself
    [ ! -e "$graph/model.onnx.data" ] || inside=()
    "$compiler" "$graph/model.onnx" -o "$bundle/kernels/$(basename "$graph")/model.kmod" --target="$target" "${inside[@]}"
  done
  mkdir -p "$bundle/kda"
  "$python" "$root/benchmarks/gpu/bench_delta.py" --graph --out "$work/kda"
  for graph in prefill decode; do
    "$compiler" "$work/kda/$graph.onnx" -o "$bundle/kda/$graph.kmod" --target="$target" --precision=bf16 --bake
  done
  mkdir -p "$bundle/moe"
  "$python" "$root/benchmarks/gpu/bench_moe.py" --graph --out "$work/moe"
  for graph in "$work"/moe/*.onnx; do
    "$compiler" "$graph" -o "$bundle/moe/$(basename "$graph" .onnx).kmod" --target="$target" --precision=bf16
  done
  "$python" "$root/models/gpt2/export.py" --how build --size small --out "$work/gpt2"
  "$compiler" "$work/gpt2/model.onnx" -o "$bundle/gpt2.bf16.kmod" --target="$target" --precision=bf16
  "$python" "$root/models/gpt2/export.py" --how build --size small --logits bf16 --out "$work/gpt2-logits"
  "$compiler" "$work/gpt2-logits/model.onnx" -o "$bundle/gpt2.bf16-logits.kmod" --target="$target" --precision=bf16
}
[ -z "$benchmarks" ] || add_benchmarks

cat > "$bundle/README" <<EOF
Compiled for $target. On a machine with an NVIDIA GPU and driver: ./run.sh
It runs every case on the GPU against its expected outputs and prints one table; the exit status is 0 where all pass.
./run.sh --help says more.
EOF
mkdir -p "$(dirname "$out")"
tar -C "$work" -czf "$out" gpu-bundle
size=$(($(stat -c %s "$out") / 1048576))
echo "$out: $size MiB, $(find "$bundle" -name '*.kmod' | wc -l) modules, $failures did not compile"
[ "$size" -le "$limit_mib" ] || { echo "gpu-bundle: more than $limit_mib MiB" >&2; exit 1; }
[ "$failures" -eq 0 ]
