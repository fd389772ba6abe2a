"""each_case.py FOLDER COMMAND...: runs the command on each model of FOLDER (the argument @ is its .onnx file).

Prints what the command prints without the kernels that do not spill, then one line a case. Ends with 1 if a command fails.
"""
import pathlib
import subprocess
import sys

folder, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
models = sorted(folder.glob("*/model.onnx"))
status = 0
for model in models:
    result = subprocess.run([str(model) if word == "@" else word for word in command], capture_output=True, text=True)
    sys.stderr.write(result.stderr)
    lines = result.stdout.splitlines()
    spilling = [line for line in lines if line.startswith("kernel=") and "spill_stores=0 spill_loads=0" not in line]
    print("\n".join(spilling), end="\n" if spilling else "")
    done = result.returncode == 0 and any(line.startswith("kernel=") for line in lines)
    status |= not done
    print(f"case {model.parent.name}: {'done' if done else 'FAILED'}")
sys.exit(status)
