"""Where weights come from: a folder in the released format, a seeded generator, or nowhere (shapes only).

A source answers `form(name)` ("plain" or "mxfp4") for a matrix that may be packed, and `load(name)` with an array whose
shape is that of tensors.py. `load` may be called late and more than once: nothing is kept in memory.
"""
import functools
import json
import os
import zlib

import ml_dtypes
import numpy as np

from . import mxfp4, tensors
from .errors import ExportError
from .safetensors import SafeTensors

PREFIX = "language_model."
SKIPPED = ("vision_tower.", "mm_projector.")
INDEX = "model.safetensors.index.json"
FLOATS = ("BF16", "F16", "F32")
SHOWN = 10  # problems or names in one message


def _listing(lines):
    more = f"\n  ... and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "".join(f"\n  {line}" for line in lines[:SHOWN]) + more


class Checkpoint:
    """A folder with *.safetensors, whole or in shards with an index. `later_layers` follow those of the configuration in
    the files and are left out."""

    def __init__(self, folder, config, allow_unknown=False, later_layers=0):
        self.folder, self.files, self.later_layers = folder, {}, config.mtp_layers + later_layers
        self.where = self._index() if os.path.exists(os.path.join(folder, INDEX)) else self._scan()
        self.prefix = PREFIX if any(name.startswith(PREFIX) for name in self.where) else ""
        self.skipped = [name for name in self.where if name.startswith(SKIPPED)]
        self.padded = {}
        self._check(config, allow_unknown)

    def _file(self, name):
        if name not in self.files:
            self.files[name] = SafeTensors(os.path.join(self.folder, name))
        return self.files[name]

    def _index(self):
        path = os.path.join(self.folder, INDEX)
        try:
            with open(path, encoding="utf-8") as file:
                where = json.load(file)["weight_map"]
        except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
            raise ExportError(f"{path}: not an index of shards with a 'weight_map' ({error})") from None
        if not isinstance(where, dict):
            raise ExportError(f"{path}: 'weight_map' is not a JSON object")
        for name, shard in where.items():
            if not isinstance(shard, str) or os.path.basename(shard) != shard or not shard.endswith(".safetensors"):
                raise ExportError(f"{path}: tensor '{name}' is said to be in {json.dumps(shard)}, which is not a file of this folder")
        for name, shard in where.items():
            if name not in self._file(shard).entries:
                raise ExportError(f"{path}: tensor '{name}' is said to be in {shard}, which does not hold it")
        return where

    def _scan(self):
        where = {}
        try:
            names = sorted(n for n in os.listdir(self.folder) if n.endswith(".safetensors"))
        except OSError as error:
            raise ExportError(f"{self.folder}: {error.strerror}") from None
        if not names:
            raise ExportError(f"{self.folder}: holds no *.safetensors file")
        for file in names:
            for name in self._file(file).entries:
                if name in where:
                    raise ExportError(f"tensor '{name}' is in both {where[name]} and {file} of {self.folder}")
                where[name] = file
        return where

    def _entry(self, name):
        """(dtype name, shape) of a tensor by its name without prefix; None where it is absent."""
        file = self.where.get(self.prefix + name)
        return None if file is None else self.files[file].entries[self.prefix + name][:2]

    def _check(self, config, allow_unknown):
        problems, expected = [], set()

        def check(name, shape, dtypes):
            expected.add(self.prefix + name)
            entry = self._entry(name)
            if entry is None:
                problems.append(f"'{self.prefix}{name}' is missing; it should be {'/'.join(dtypes)} {list(shape)}")
            elif entry[0] not in dtypes:
                problems.append(f"'{self.prefix}{name}' is {entry[0]}; it should be {' or '.join(dtypes)}")
            elif entry[1] != shape:
                problems.append(f"'{self.prefix}{name}' is {list(entry[1])}; the configuration makes it {list(shape)}")

        for spec in tensors.all_tensors(config):
            if spec.kind == tensors.EXPERT and self.form(spec.name) == "mxfp4":
                rows, columns = spec.shape
                check(spec.name + "_packed", (rows, columns // 2), ["U8"])
                check(spec.name + "_scale", (rows, columns // mxfp4.GROUP), ["U8"])
                if columns % mxfp4.GROUP:
                    problems.append(f"'{self.prefix}{spec.name}' is MXFP4, but its {columns} columns are not a multiple of {mxfp4.GROUP}")
                expected.add(f"{self.prefix}{spec.name}_shape")  # compressed-tensors may note the unpacked shape
            elif spec.kind == tensors.A_LOG:
                self._check_a_log(spec, expected, problems)
            else:
                check(spec.name, spec.shape, FLOATS)
        if problems:
            raise ExportError(f"{self.folder}: {len(problems)} tensor(s) do not fit {config.name}:{_listing(problems)}")
        extra = tuple(f"{self.prefix}model.layers.{config.layers + i}." for i in range(self.later_layers))
        tied = [self.prefix + "lm_head.weight"] if config.tied else []
        self.skipped += [name for name in self.where if extra and name.startswith(extra) or name in tied]
        unknown = sorted(set(self.where) - expected - set(self.skipped))
        if unknown and not allow_unknown:
            raise ExportError(f"{self.folder}: {len(unknown)} tensor(s) are not part of the model that {config.name} describes "
                              f"(--allow-unknown leaves them out):{_listing(unknown)}")
        self.unknown = unknown

    def _check_a_log(self, spec, expected, problems):
        """[H], or flattened [1, 1, H, 1], or padded with zeros at the end, as the released K3 is: 96 heads in [128]."""
        heads, full = spec.shape[0], self.prefix + spec.name
        expected.add(full)
        entry = self._entry(spec.name)
        if entry is None:
            problems.append(f"'{full}' is missing; it should be F32 [{heads}], or longer and padded with zeros")
        elif entry[0] not in FLOATS:
            problems.append(f"'{full}' is {entry[0]}; it should be F32")
        elif max(entry[1], default=0) != np.prod(entry[1], dtype=np.int64) or max(entry[1], default=0) < heads:
            problems.append(f"'{full}' is {list(entry[1])}; it should hold one value for each of {heads} heads, and zeros after them")
        elif np.any(self._raw(spec.name).reshape(-1)[heads:] != 0):
            problems.append(f"'{full}' is {list(entry[1])} for {heads} heads, and what should be padding is not zero")
        else:
            self.padded[spec.name] = heads

    def _raw(self, name):
        return self.files[self.where[self.prefix + name]].array(self.prefix + name)

    def form(self, name):
        packed = [self.prefix + name + end in self.where for end in ("_packed", "_scale")]
        return "mxfp4" if any(packed) else "plain"

    def dtype(self, name):
        """The numpy type that `load` will give."""
        return self._raw(name).dtype

    def load(self, name):
        array = self._raw(name)
        return array.reshape(-1)[:self.padded[name]] if name in self.padded else array


class Random:
    """Seeded weights, each from the seed and its own name, so that they do not depend on the order of the graph. Scales are
    such that every term matters: gates are spread, SiTU saturates now and then, residual streams stay near 1."""

    def __init__(self, config, seed=0):
        self.config, self.seed = config, seed
        self.specs = {spec.name: spec for spec in tensors.all_tensors(config)}
        self.packed = functools.lru_cache(maxsize=1)(lambda name: mxfp4.quantize(self._draw(self.specs[name])))

    def form(self, name):
        return "mxfp4" if self.config.mxfp4 and self.specs[name].kind == tensors.EXPERT else "plain"

    def dtype(self, name):
        kind = self.specs[name].kind
        return np.dtype(np.float32 if kind in (tensors.PARAMETER, tensors.A_LOG) else ml_dtypes.bfloat16)

    def load(self, name):
        for end, part in (("_packed", 0), ("_scale", 1)):
            if name.endswith(end):
                return self.packed(name.removesuffix(end))[part]
        return self._draw(self.specs[name]).astype(self.dtype(name))

    def _draw(self, spec):
        rng = np.random.default_rng([self.seed, zlib.crc32(spec.name.encode())])
        last = spec.name.removesuffix(".weight").rsplit(".", 1)[-1]
        normal = rng.standard_normal(spec.shape, dtype=np.float32)
        if spec.kind == tensors.NORM or last == "o_norm":
            return 1 + 0.1 * normal
        if spec.kind == tensors.A_LOG:
            return 0.5 * normal if self.config.lower_bound is not None else np.log(rng.uniform(1, 16, spec.shape)).astype(np.float32)
        if last == "dt_bias":
            return normal if self.config.lower_bound is not None else np.log(np.expm1(rng.uniform(1e-3, 0.1, spec.shape))).astype(np.float32)
        if last == "e_score_correction_bias":
            return 0.1 * normal
        if last == "embed_tokens":
            return normal
        gain = {"gate_proj": 2, "w1": 2, "up_proj": 10, "w3": 10, "down_proj": 1 / 8, "w2": 1 / 8}.get(last, 1) if self.config.act == "situ" else 1
        return gain / np.sqrt(spec.shape[-1]) * normal


class ShapesOnly:
    """No weights: the types that a released checkpoint has, and nothing to load."""

    def __init__(self, config):
        self.types = Random(config)

    def form(self, name):
        return self.types.form(name)

    def dtype(self, name):
        return self.types.dtype(name)

    def load(self, name):
        raise ExportError(f"tensor '{name}' has no data")
