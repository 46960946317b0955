"""Every C++ file is as clang-format 16 writes it (other versions differ in details, so only 16 is asked)."""
import os
import shutil
import subprocess
import sys

import tree


def formatter():
    for name in ("clang-format-16", "clang-format"):
        path = shutil.which(name)
        if path and "version 16." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return path
    print("skipped: clang-format 16 is not installed (apt-get install clang-format-16)")
    sys.exit(tree.SKIPPED)


program = formatter()
# TESSERA_FORMATTING_SHARE=N looks at an N-th of the files, another one every day: scripts/test.sh --full sets 4.
sources = tree.of_today(tree.files(".hpp", ".cpp"), int(os.environ.get("TESSERA_FORMATTING_SHARE", "1")))
problems = []
for start in range(0, len(sources), 40):
    run = subprocess.run([program, "--dry-run", "--Werror", "--ferror-limit=1", *sources[start:start + 40]], cwd=tree.ROOT,
                         capture_output=True, text=True)
    problems += [line for line in run.stderr.split("\n") if "error:" in line]
tree.finish(problems, "Run scripts/format.sh.")
