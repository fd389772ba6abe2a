"""refuse.py FOLDER: every hostile model is refused with exit code 1, quickly, and with its message."""
import os
import subprocess
import sys

import hostile

MESSAGES = {
    "empty": "not an ONNX model: the file is empty",
    "garbage": "not a readable ONNX model: bad protobuf tag at byte 0",
    "truncated": "field longer than what holds it (truncated file?)",
    "no_graph": "not an ONNX model: it holds no graph",
    "petabyte": "initializer 'w': raw_data has 4 bytes where its type takes 1125899906842624",
    "overflow": "initializer 'w': more than 72057594037927936 elements",
    "overflow_of_nothing": "initializer 'w': more than 72057594037927936 elements",
    "negative": "initializer 'w': extent -3 is negative",
    "deep_rank": "initializer 'w': rank 65 is more than 64",
    "raw_short": "raw_data has 12 bytes where its type takes 16",
    "raw_long": "raw_data has 20 bytes where its type takes 16",
    "raw_short_bulk": "raw_data has 16000 bytes where its type takes 16384",
    "typed_short": "float_data has 2 entries where its type takes 4",
    "typed_wrong": "int64_data cannot hold elements of type float32",
    "two_encodings": "has both raw_data and a typed data field",
    "no_data": "float_data has 0 entries where its type takes 3",
    "segment": "a tensor in segments",
    "strings": "elements of type string are not supported",
    "complex_numbers": "elements of type complex64 are not supported",
    "unknown_dtype": "data type 99 is no element type",
    "huge_port": "input 'x': more than 72057594037927936 elements",
    "huge_value_info": "value 'a': more than 72057594037927936 elements",
    "negative_port": "input 'x': extent -1 is negative",
    "recursion": "functions call each other in a cycle: A -> B -> C -> A",
    "self_recursion": "functions call each other in a cycle: Self -> Self",
    "doubling": "nodes after functions are inlined",
    "deep_calls": "function calls are nested more than 256 deep (--max-depth), from 'F0' to 'F256'",
    "deep_subgraphs": "subgraphs nested too deep",
    "sparse_outside": "index 0 of the sparse tensor lies outside its shape",
    "sparse_large": "a sparse tensor of 4398046511104 bytes",
    "opset_low": "imports opset 0 of ai.onnx; opsets 1 to 28 are accepted",
    "opset_high": "imports version 2 of com.microsoft; version 1 is accepted",
    "opset_missing": "node 'relu' (Relu): the model imports no opset of ai.onnx",
    "opset_twice": "imports domain 'ai.onnx' in versions 20 and 21",
    "ir_high": "IR version 99; versions 3 to 14 are accepted",
    "no_outputs": "the graph has no outputs",
    "wrong_output": "output 'x' is declared as 'tensor<?x3xf32>' but its value is 'tensor<?x2xf32>'",
    "many_errors": "10 more problems are not shown",
}

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
failed = 0
for name, message in MESSAGES.items():
    path = os.path.join(folder, name + ".onnx")
    made = getattr(hostile, name)()
    with open(path, "wb") as file:
        file.write(made if isinstance(made, bytes) else made.SerializeToString())
    run = subprocess.run(["kimi-compile", "--emit=onnx", path, "-o", os.path.join(folder, "out.mlir")],
                         capture_output=True, text=True, timeout=60)
    good = run.returncode == 1 and message in run.stderr and not os.path.exists(os.path.join(folder, "out.mlir"))
    if not good:
        failed += 1
        print(f"{name}: exit code {run.returncode}, stderr: {run.stderr[:500]}")
print(len(MESSAGES) - failed, "refused")
sys.exit(failed != 0)
