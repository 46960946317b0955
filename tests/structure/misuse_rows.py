"""Every public entry of the kernel library has a row in tests/kernels/misuse."""
import re

import kernel_entries
import tree

ROW = re.compile(r'(?:misuse\(\s*"|TESSERA_MISUSE_(?:UNARY|BINARY)\()(\w+)')

entries, rows = kernel_entries.entries(), set()
for path in tree.files():
    if path.startswith("tests/kernels/misuse/") and path.endswith("_test.cpp"):
        rows |= set(ROW.findall(tree.read(path)))
problems = [f"{path}: {name} has no row in tests/kernels/misuse" for name, path in sorted(entries.items()) if name not in rows]
problems += [f"tests/kernels/misuse: {name} is no entry of the kernel library" for name in sorted(rows - set(entries) - {"name"})]
if len(entries) < 40:
    problems.append(f"only {len(entries)} entries were found in include/tessera/kernels")
tree.finish(problems, "A row is one legal call; tests/kernels/misuse/misuse.hpp says what is made of it.")
