#!/usr/bin/env python3
"""Turns a page of the guide into a program: its ```cpp blocks at file scope, its ```cpp main blocks as the body of main.

usage: extract.py PAGE.md OUT.cpp
"""
import re
import sys
from pathlib import Path

page, out = Path(sys.argv[1]), Path(sys.argv[2])
file_scope, body, block, kind = [], [], None, None
for number, line in enumerate(page.read_text().splitlines(), 1):
    fence = re.match(r"```(.*)$", line)
    if block is None and fence:
        kind, block = fence.group(1).strip(), []
        if kind not in ("", "cpp", "cpp main", "sh", "text"):
            sys.exit(f"{page}:{number}: unknown kind of block '{kind}'")
        start = number + 1
    elif fence:
        target = {"cpp": file_scope, "cpp main": body}.get(kind)
        if target is not None:
            target.append(f'#line {start} "{page.name}"\n' + "\n".join(block) + "\n")
        block = None
    elif block is not None:
        block.append(line)
if block is not None:
    sys.exit(f"{page}: a code block is not closed")
if not file_scope:
    sys.exit(f"{page}: no code to test")
main = "int main() {\n" + "".join(body) + "  return 0;\n}\n"
text = "".join(file_scope) + main
if not out.exists() or out.read_text() != text:
    out.write_text(text)
