#!/usr/bin/env bash
# Runs the benchmarks of a bundle (scripts/gpu-bundle.sh --benchmarks) on a GPU, each beside PyTorch in the same run:
# single kernels beside cuBLAS and cuDNN, GPT-2 124M beside torch.compile under a CUDA graph, Kimi Delta Attention beside
# flash-linear-attention (where `fla` can be imported), mixtures of experts beside grouped_mm (20 GB of disk). Needs python3
# with numpy, onnx and a torch for CUDA.
#
#   ./bench.sh [kernels|kernels:CASE,...|elementwise|decode|prefill|delta|moe ...]      # all but moe without an argument
#
# Tables go to standard output and to logs/*.txt, figures to logs/*.json. Exit status: 0, or 1 where one failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
run=${KIMI_RUN:-$here/bin/kimi-run}
bench=$here/benchmarks/gpu
logs=$here/logs
mkdir -p "$logs"
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(kernels decode prefill delta)
status=0
weights() { # of GPT-2 124M, as the modules expect them
  [ -e "$here/gpt2/done" ] && return
  mkdir -p "$here/gpt2"
  python3 "$here/models/gpt2/export.py" --how build --size small --out "$here/gpt2" && touch "$here/gpt2/done"
}
for part in "${parts[@]}"; do
  case $part in
    kernels | kernels:*)
      command=(bench_kernels.py --models "$here/kernels")
      [ "$part" = kernels ] || command+=($(tr , ' ' <<< "${part#kernels:}"))
      part=kernels ;;
    elementwise) command=(bench_kernels.py --models "$here/kernels" --kind elementwise) ;; # part of kernels as well
    decode) weights && command=(bench_gpt2.py --module "$here/gpt2.bf16.kmod" --weights "$here/gpt2" --cases decode:1:256 decode:64:256) ;;
    prefill) weights && command=(bench_gpt2.py --module "$here/gpt2.bf16-logits.kmod" --weights "$here/gpt2" --cases prefill:1:1024 prefill:8:1024) ;;
    delta) command=(bench_delta.py --models "$here/kda") ;;
    moe) command=(bench_moe.py --models "$here/moe") ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  python3 "$bench/${command[0]}" --run "$run" --json "$logs/$part.json" "${command[@]:1}" 2> "$logs/$part.err" | tee "$logs/$part.txt"
  [ "${PIPESTATUS[0]}" -eq 0 ] || { echo "bench.sh: $part failed, see $logs/$part.err" >&2; status=1; }
done
exit $status
