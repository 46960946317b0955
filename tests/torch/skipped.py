"""What the tests torch.* do where there is no PyTorch, or with a sanitizer, which Python is not built with."""
import os
import sys

print("skipped: needs a Python with PyTorch 2.10 or newer and a build without sanitizers; scripts/test.sh --torch installs "
      "one, and TESSERA_TORCH_PYTHON names one")
sys.exit(1 if os.environ.get("TESSERA_REQUIRE_TORCH") == "1" else 77)
