"""Every public entry of the kernel library, a function with a defaulted `where` or one that a table of its header declares, has a
row in tests/kernels/misuse."""
import re

import tree

ENTRY = re.compile(r"\b(\w+)\((?:[^()]|\([^()]*\))*?SourceLocation where = SourceLocation::current\(\)\s*\)\s*\{")
TABLE = re.compile(r"^TESSERA_(UNARY|BINARY|REDUCTION)\((\w+),", re.M)
ROW = re.compile(r'(?:misuse\(\s*"|TESSERA_MISUSE_(?:UNARY|BINARY)\()(\w+)')
NOT_ENTRIES = {"scale_for", "name", "_all", "row_"}  # a member of the options; the parameter of the tables

entries, rows = {}, set()
for path in tree.files():
    if path.startswith("include/tessera/kernels/") and path.endswith(".hpp"):
        text = re.sub(r"//[^\n]*", "", tree.read(path))
        found = set(ENTRY.findall(text)) - NOT_ENTRIES
        for kind, name in TABLE.findall(text):
            found |= {f"row_{name}", f"{name}_all"} if kind == "REDUCTION" else {name}
        for name in found:
            entries[name] = path
    elif path.startswith("tests/kernels/misuse/") and path.endswith("_test.cpp"):
        rows |= set(ROW.findall(tree.read(path)))
problems = [f"{path}: {name} has no row in tests/kernels/misuse" for name, path in sorted(entries.items()) if name not in rows]
problems += [f"tests/kernels/misuse: {name} is no entry of the kernel library" for name in sorted(rows - set(entries) - {"name"})]
if len(entries) < 40:
    problems.append(f"only {len(entries)} entries were found in include/tessera/kernels")
tree.finish(problems, "A row is one legal call; tests/kernels/misuse/misuse.hpp says what is made of it.")
