"""Names of compiled code are made in one file: SHA-256 of what a launch compiles is computed nowhere else in the jit.

    code_names.py             check the project
    code_names.py --selftest  check that what is wrong is found
"""
import re
import sys

import tree

NAMES = {"code_key.cpp"}
# Checksums of files, and names of tuning records: not of what a launch compiles.
OTHERS = {"cache_file.cpp", "bundle.cpp", "tuning_record.cpp", "tuning_journal.cpp", "tuning_use.cpp"}
HASH = re.compile(r"\bSha256\b|\bsha256\(")


def problems_of(path, text):
    name = path.split("/")[-1]
    if name in NAMES | OTHERS or name.startswith("sha256"):
        return []
    return [f"{path}:{number}: a name of its own: {line.strip()}" for number, line in enumerate(text.split("\n"), 1)
            if HASH.search(line.split("//")[0])]


def check():
    return [p for path in tree.files(".hpp", ".cpp") if path.startswith(("src/jit/", "include/tessera/jit/"))
            for p in problems_of(path, tree.read(path))]


def selftest():
    wrong = [("src/jit/specialise/kernel.cpp", "  Sha256 hash;"), ("src/jit/a/b.cpp", "return sha256(bytes);")]
    right = [("src/jit/store/code_key.cpp", "  Sha256 hash;"), ("src/jit/specialise/kernel.cpp", "// by SHA-256, Sha256"), ("src/jit/x.hpp", '#include "jit/sha256.hpp"')]
    return [f"accepted: {w}" for w in wrong if not problems_of(*w)] + [f"rejected: {r}" for r in right if problems_of(*r)]


tree.finish(selftest() if "--selftest" in sys.argv else check(), "Add the name to src/jit/**/code_key.hpp (docs/jit.md, \"Names of code\").")
