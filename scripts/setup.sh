#!/usr/bin/env bash
# Installs everything the project needs on Debian 12: compilers and libraries from the distribution, Python packages
# into .venv. Safe to run twice; the second time it only looks.
#
#   scripts/setup.sh            build, test and run
#   scripts/setup.sh --minimal  build and run only (no formatters, no test packages)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  build-essential cmake ninja-build ccache pkg-config python3 python3-venv
  clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools liblld-22-dev   # Debian's security suite
  libzstd-dev zlib1g-dev
  protobuf-compiler libprotobuf-dev         # 3.21: reads .onnx
  flatbuffers-compiler libflatbuffers-dev   # 2.0: .kmod
  libpcre2-dev nlohmann-json3-dev libcli11-dev
  libgtest-dev libbenchmark-dev
)
if [ "${1:-}" != "--minimal" ]; then
  packages+=(clang-format-22 clang-tidy-22 libclang-rt-22-dev)
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi
  echo "setup: installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ ! -x .venv/bin/python ]; then
  python3 -m venv .venv
fi
# The stamp makes a second run free of network traffic.
stamp=.venv/.requirements
if ! cmp -s scripts/requirements.txt "$stamp"; then
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt
  cp scripts/requirements.txt "$stamp"
fi
echo "setup: ready" >&2
