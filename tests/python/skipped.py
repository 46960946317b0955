"""What the tests python.* do where there is no NumPy, or with a sanitizer, which Python is not built with."""
import os
import sys

print("skipped: needs a Python with NumPy 2.1 or newer and a build without sanitizers; TESSERA_NUMPY_PYTHON names one")
sys.exit(1 if os.environ.get("TESSERA_REQUIRE_NUMPY") == "1" else 77)
