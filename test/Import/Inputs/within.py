"""within.py SECONDS COMMAND...: the command must end within the time."""
import subprocess
import sys

sys.exit(subprocess.run(sys.argv[2:], timeout=float(sys.argv[1])).returncode)
