#!/usr/bin/env python3
"""Writes the Kimi checkpoints of ../shared/cases as folders in ONNX's test layout, for scripts/gpu-bundle.sh.

  test/gpu/kimi_cases.py OUT
  scripts/gpu-bundle.sh --precisions f32 OUT/f32/*      # whole models: fp64 logits of 1, 5, 17 and 70 tokens, within 1e-4
  scripts/gpu-bundle.sh --precisions bf16 OUT/blocks/*  # mixers and feed-forwards: the reference's activations, 1e-2 by norm
"""
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from kimi_blocks import Blocks  # noqa: E402
from kimi_models import CHECKPOINTS, FAMILY, LENGTHS, export, golden  # noqa: E402


def write_set(folder, number, inputs, outputs):
    """inputs, outputs: {name: array} in the order of the model's."""
    place = folder / f"test_data_set_{number}"
    place.mkdir(parents=True)
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for i, (name, array) in enumerate(arrays.items()):
            (place / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.ascontiguousarray(array), name).SerializeToString())


def write_model(name, folder):
    export(FAMILY[name], folder, "--checkpoint", CHECKPOINTS / name, "--cache", "none")
    (folder / "tolerance").write_text("--rtol 0 --atol 1e-4\n")
    for number, length in enumerate(LENGTHS):
        ids, logits = golden(name, length)
        write_set(folder, number, {"input_ids": ids[None].astype(np.int64)}, {"logits": logits[None].astype(np.float32)})


def write_blocks(name, out, scratch):
    """KDA and dense, KDA and experts, MLA and experts. Tokens whose experts depend on the rounding are left out."""
    blocks = Blocks(name, scratch)
    for layer in (0, 1, 3):
        for kind in ("attention", "feed_forward"):
            feed, output, want = getattr(blocks, kind)(layer)
            if kind == "feed_forward":
                kept = blocks.same_routes(layer)
                feed, want = {key: value[:, kept] for key, value in feed.items()}, want[kept]
            folder = out / f"{name}_{layer}_{kind}"
            folder.mkdir(parents=True)
            block = blocks.extractor.extract_model(list(feed), [output])
            onnx.save(block, folder / "model.onnx")
            write_set(folder, 0, {i.name: feed[i.name] for i in block.graph.input}, {output: want[None].astype(np.float32)})


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    if not CHECKPOINTS.exists():
        sys.exit(f"the checkpoints are not at {CHECKPOINTS}")
    for name in FAMILY:
        write_model(name, out / "f32" / name)
        with tempfile.TemporaryDirectory() as scratch:
            write_blocks(name, out / "blocks", pathlib.Path(scratch))


if __name__ == "__main__":
    main()
