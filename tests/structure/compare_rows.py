"""Every public entry of the kernel library is among the functions that scripts/gpu-compare.sh compares (bench/compare/cases.py)."""
import re

import kernel_entries
import tree

TABLE = "bench/compare/cases.py"
library = re.search(r"^LIBRARY = \{$(.*?)^\}$", tree.read(TABLE), re.M | re.S)
named = set(re.findall(r'^    "(\w+)": \(', library.group(1), re.M)) if library else set()
entries = kernel_entries.entries()
problems = [f"{path}: {name} is not in LIBRARY of {TABLE}" for name, path in sorted(entries.items()) if name not in named]
problems += [f"{TABLE}: {name} is no entry of the kernel library" for name in sorted(named - set(entries))]
if len(entries) < 40:
    problems.append(f"only {len(entries)} entries were found in include/tessera/kernels")
tree.finish(problems, "A case is a function of random shapes, and one of compare_bench (bench/compare/*.cpp).")
