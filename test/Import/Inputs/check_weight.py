"""check_weight.py MODULE.mlir FOLDER NAME V0 V1...: the bytes that a weight's source names begin with these floats."""
import re
import struct
import sys

module, folder, name, *expected = sys.argv[1:]
file, offset, length = re.search(rf'kimi.weight @{name} : .*#kimi.external<"([^"]+)", (\d+), (\d+)>',
                                 open(module).read()).groups()
with open(f"{folder}/{file}", "rb") as data:
    data.seek(int(offset))
    got = struct.unpack(f"<{len(expected)}f", data.read(4 * len(expected)))
assert list(got) == [float(x) for x in expected], got
