"""lit configuration: .mlir tests beside the thing they test (test/Kimi/, test/Tile/, ...)."""
import glob
import os
import shutil
import sys

import lit.formats

config.name = "kimi"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["e2e", "unit", "gpu", "fuzz", "data", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.kimi_obj_root, "test")
tools = [os.path.dirname(p) for p in glob.glob(config.kimi_tools_dir + "/*/kimi-*") if os.access(p, os.X_OK)]
path = tools + [os.path.dirname(os.path.realpath(config.filecheck)), os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(path)
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%models", os.path.join(config.kimi_source_root, "models")))
config.substitutions.append(("%cases", os.path.join(config.kimi_source_root, "test", "data")))
if os.path.isdir(os.path.join(config.kimi_source_root, "test", "data", "gpt2")):
    config.available_features.add("gpt2-cases")
config.substitutions.append(("%mlir_lib", os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(config.filecheck))), "lib")))
# NVIDIA's assembler is optional; kimi-compile looks for it in the same places.
places = [os.environ.get("KIMI_PTXAS", ""), shutil.which("ptxas") or "", "/usr/local/cuda/bin/ptxas"]
places += [os.path.join(os.environ[root], "bin", "ptxas") for root in ("CUDA_HOME", "CUDA_PATH") if root in os.environ]
found = [place for place in places if os.access(place, os.X_OK)]
if found:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", found[0]))
# Allocators of LLVM's headers poison memory in instrumented code that libLLVM, which is not instrumented, then uses.
config.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "allow_user_poisoning=0")
for variable in ("KIMI_PTXAS", "CUDA_HOME", "CUDA_PATH"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
