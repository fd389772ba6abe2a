"""import_all.py FOLDER TMP.mlir: every FOLDER/*/model.onnx imports, and kimi-opt reads what is printed."""
import glob
import subprocess
import sys

models = sorted(glob.glob(sys.argv[1] + "/*/model.onnx"))
for model in models:
    subprocess.run(["kimi-compile", "--emit=onnx", "--locations", model, "-o", sys.argv[2]], check=True)
    subprocess.run(["kimi-opt", sys.argv[2], "-o", "/dev/null"], check=True)
print(len(models), "models")
