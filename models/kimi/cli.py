"""The command line of models/k3/export.py and models/kimi_linear/export.py."""
import argparse
import json
import os
import shutil
import sys
import tempfile

from . import config as configs
from .data_file import DataFile
from .errors import ExportError
from .graph import Graph
from .model import build
from .sources import Checkpoint, Random, ShapesOnly
from .states import CACHES

MODEL, DATA, CONFIG = "model.onnx", "model.onnx.data", "config.json"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "tiktoken.model")


def parser(presets, family, doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, metavar="DIR", help=f"folder to write {MODEL}, {DATA} and {CONFIG} into; made if it is not there")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--checkpoint", metavar="DIR", help="folder of a released checkpoint: config.json and *.safetensors, in one file or in "
                      "shards with model.safetensors.index.json. Its tokenizer files are copied along")
    what.add_argument("--config", metavar="NAME|FILE", help=f"a configuration without weights: {', '.join(presets)}, or a config.json file")
    p.add_argument("--seed", type=int, default=0, help="of the random weights of --config (default 0)")
    p.add_argument("--layers", type=int, metavar="N", help="only the first N layers, with the head after them")
    p.add_argument("--no-data", action="store_true", help=f"write the graph alone: its weights have offsets in {DATA}, but that file is not made")
    p.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="type of activations and matrices (default f32). bf16 keeps in fp32 "
                   "what the reference does: states of KDA, gates, norms' statistics, router, SiTU, mixes over depth; logits are fp32")
    p.add_argument("--bf16-weights", action="store_true", help="with --dtype f32: matrices that the checkpoint has in bf16 stay bf16 in the "
                   "file, half the size, and the graph casts them, which is exact")
    p.add_argument("--cache", choices=CACHES, default="latent", help="state of the full-attention layers: the latent row of a token (default), "
                   "expanded keys and values, or none: a graph for whole sequences, without any state")
    p.add_argument("--unpack-experts", action="store_true", help="write MXFP4 experts as plain matrices, for engines without FLOAT4E2M1")
    p.add_argument("--allow-unknown", action="store_true", help="leave out tensors of the checkpoint that the configuration does not imply, "
                   "instead of refusing it")
    p.set_defaults(family=family)
    return p


def main(presets, family, doc, argv=None):
    """Exports as the command line says; gives the exit status: 0, or 1 after an error that was printed."""
    args = parser(presets, family, doc).parse_args(argv)
    try:
        export(args, presets)
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename or args.out}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _configuration(args, presets):
    """(name, the object of config.json)"""
    if args.config in presets:
        return args.config, presets[args.config]
    path = os.path.join(args.checkpoint, CONFIG) if args.checkpoint else args.config
    if args.config and not os.path.exists(path):
        raise ExportError(f"--config {args.config}: neither a file nor one of {', '.join(presets)}")
    return os.path.basename(path), configs.read(path)


def export(args, presets):
    if args.bf16_weights and args.dtype != "f32":
        raise ExportError("--bf16-weights is for --dtype f32: with bf16 the weights are bf16 already")
    name, described = _configuration(args, presets)
    config, later = configs.parse(described, name), 0
    if args.layers is not None:
        described, later = configs.first_layers(described, args.layers, name), config.layers - args.layers
        config = configs.parse(described, name)
    kind = "k3" if config.block else "kimi_linear"
    if kind != args.family:
        print(f"note: this is a configuration of models/{kind}; it is exported all the same", file=sys.stderr)
    if args.checkpoint:
        source = Checkpoint(args.checkpoint, config, args.allow_unknown, later)
        for what, names in (("not part of the text model", source.skipped), ("unknown", source.unknown)):
            if names:
                print(f"note: {len(names)} tensor(s) left out, {what}: {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}", file=sys.stderr)
    else:
        source = ShapesOnly(config) if args.no_data else Random(config, args.seed)
    data = DataFile(DATA)
    graph = Graph(source, data, args.dtype, args.bf16_weights)
    build(graph, config, args.cache, args.unpack_experts)
    model = graph.model(kind, {"kimi.cache": args.cache, "kimi.dtype": args.dtype})
    os.makedirs(args.out, exist_ok=True)
    _write(args, model, data, described)
    path = os.path.join(args.out, MODEL)
    print(f"{path}: {len(graph.nodes)} nodes, {len(data.parts)} weights, {data.size:,} bytes of data{' (not written)' if args.no_data else ''}",
          file=sys.stderr)


def _write(args, model, data, described):
    """All files under temporary names first, so that an export that fails leaves nothing half-written behind."""
    with tempfile.TemporaryDirectory(prefix=".export-", dir=args.out) as work:
        if not args.no_data:
            data.write(os.path.join(work, DATA))
        with open(os.path.join(work, MODEL), "wb") as file:
            file.write(model.SerializeToString(deterministic=True))
        if not args.checkpoint or not os.path.samefile(args.checkpoint, args.out):
            with open(os.path.join(work, CONFIG), "w", encoding="utf-8") as file:
                json.dump(described, file, indent=1)
                file.write("\n")
            for name in TOKENIZER:
                if args.checkpoint and os.path.isfile(os.path.join(args.checkpoint, name)):
                    shutil.copyfile(os.path.join(args.checkpoint, name), os.path.join(work, name))
        for name in sorted(os.listdir(work), key=lambda n: n == MODEL):  # the model last: it names the data
            os.replace(os.path.join(work, name), os.path.join(args.out, name))
