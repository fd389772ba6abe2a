#!/usr/bin/env python3
"""Writes a Kimi Linear of any size as ONNX: standard operators of opset 27, states in and out.

The weights are those of a checkpoint in the released format, or seeded random numbers for a configuration by name or
file, or absent (--no-data). models/kimi_linear/README.md describes inputs, outputs and states.

Examples:
  models/kimi_linear/export.py --checkpoint Kimi-Linear-48B-A3B --dtype bf16 --out /tmp/kl
  models/kimi_linear/export.py --config kl-tiny --out /tmp/kl-tiny          # small, complete, random weights
  models/kimi_linear/export.py --config kimi-linear-48b --no-data --out /tmp/kl-full
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from kimi import cli, presets  # noqa: E402

if __name__ == "__main__":
    sys.exit(cli.main(presets.KIMI_LINEAR_PRESETS, "kimi_linear", __doc__))
