#!/usr/bin/env python3
"""Writes lib/Import/InputCounts.inc: how many inputs the operators of ai.onnx take, from the schemas of the onnx package.

  scripts/gen-input-counts.py [--check]

One line for each version of an operator in which that changed: name, the version, the least and the greatest number of
inputs (no greatest: -1), and the inputs that may not be left out, as bits; those behind the 62nd count as the 63rd bit.
--check compares instead, and fails where the file is out of date.
"""
import argparse
import pathlib
import sys

import onnx

PATH = pathlib.Path(__file__).resolve().parents[1] / "lib" / "Import" / "InputCounts.inc"
BITS = 63


def counts(schema):
    option = onnx.defs.OpSchema.FormalParameterOption
    variadic = any(formal.option == option.Variadic for formal in schema.inputs)
    required = [formal.option != option.Optional for formal in schema.inputs]
    if variadic:  # the last one; if anything follows the others, it is one of these
        required += [required[-1]] * (BITS - len(required))
    mask = sum(1 << i for i, needed in enumerate(required[:BITS]) if needed)
    return schema.min_input, -1 if variadic else schema.max_input, mask


def text():
    schemas = sorted((s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""), key=lambda s: (s.name, s.since_version))
    lines, last = [], None
    for schema in schemas:
        row = (schema.name, *counts(schema))
        if row != last:
            least, most, mask = row[1:]
            lines.append(f'KIMI_INPUTS("{schema.name}", {schema.since_version}, {least}, {most}, {mask:#x})')
        last = row
    head = [f"// Written by scripts/gen-input-counts.py from onnx {onnx.__version__}: name, since, least, most, required.", ""]
    return "\n".join(head + lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PATH.write_text(text())
    elif PATH.read_text() != text():
        sys.exit(f"{PATH} is out of date: run scripts/gen-input-counts.py")


if __name__ == "__main__":
    main()
