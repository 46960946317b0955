"""The public entries of the kernel library: functions with a defaulted `where`, or that a table of their header declares."""
import re

import tree

ENTRY = re.compile(r"\b(\w+)\((?:[^()]|\([^()]*\))*?SourceLocation where = SourceLocation::current\(\)\s*\)\s*\{")
TABLE = re.compile(r"^TESSERA_(UNARY|BINARY|REDUCTION)\((\w+),", re.M)
NOT_ENTRIES = {"scale_for", "name", "_all", "row_"}  # a member of the options; the parameter of the tables


def entries():
    """{name: header}"""
    found = {}
    for path in tree.files():
        if path.startswith("include/tessera/kernels/") and path.endswith(".hpp"):
            text = re.sub(r"//[^\n]*", "", tree.read(path))
            names = set(ENTRY.findall(text)) - NOT_ENTRIES
            for kind, name in TABLE.findall(text):
                names |= {f"row_{name}", f"{name}_all"} if kind == "REDUCTION" else {name}
            found |= dict.fromkeys(names, path)
    return found
