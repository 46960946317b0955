"""Public headers include no standard header that is slow to compile; user code with one kernel has to stay cheap."""
import re

import tree

# Seconds that each adds with g++ 12 are in the order of 0.1 to 0.6.
HEAVY = {"iostream", "istream", "ostream", "fstream", "sstream", "iomanip", "functional", "regex", "filesystem", "format", "map",
         "set", "thread", "future", "random", "ranges", "chrono", "locale", "complex", "valarray"}
# Headers that need one by their nature: path -> names.
ALLOWED = {}

problems = []
ENTRY = re.compile(r"SourceLocation where = SourceLocation::current\(\)\s*\)\s*\{")
everything = tree.read("include/tessera/kernels.hpp") + tree.read("include/tessera/mesh.hpp")
for path in tree.files(".hpp", ".def"):
    if not path.startswith("include/"):
        continue
    text = tree.read(path)
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r"\s*#\s*include\s*<([^>]+)>", line)
        if match and match.group(1) in HEAVY - ALLOWED.get(path, set()):
            problems.append(f"{path}:{number}: <{match.group(1)}>")
    if path.startswith("include/tessera/kernels/") and ENTRY.search(text) and f'"{path[len("include/"):]}"' not in everything:
        problems.append(f"{path}: neither include/tessera/kernels.hpp nor mesh.hpp includes it")
    if path.endswith(".hpp") and "#pragma once" not in text:
        problems.append(f"{path}: no #pragma once")
tree.finish(problems, "Move what needs the header into a source file, or declare it forward.")
