#!/usr/bin/env python3
"""Writes a Kimi K3 (text model) of any size as ONNX: standard operators of opset 27, states in and out.

The weights are those of a checkpoint in the released format, or seeded random numbers for a configuration by name or
file, or absent (--no-data). MXFP4 experts stay MXFP4: FLOAT4E2M1 and FLOAT8E8M0 through DequantizeLinear.
models/k3/README.md describes inputs, outputs and states.

Examples:
  models/k3/export.py --checkpoint K3 --dtype bf16 --out /tmp/k3     # a released checkpoint
  models/k3/export.py --config k3-tiny --out /tmp/k3-tiny            # small, complete, random weights
  models/k3/export.py --config k3 --no-data --dtype bf16 --out /tmp/k3-full
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from kimi import cli, presets  # noqa: E402

if __name__ == "__main__":
    sys.exit(cli.main(presets.K3_PRESETS, "k3", __doc__))
