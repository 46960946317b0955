#!/usr/bin/env python3
"""Puts a section of results, read from standard input, into a file, in place of what a former run left there.

    put_section.py FILE
    put_section.py --selftest

The section's first and last lines are comments that mark it. A new one goes before the GPU's section, or to the end.
"""

import pathlib
import re
import sys

GPU = "<!-- gpu: begin -->"


def put(text, section):
    lines = section.splitlines()
    old = re.compile(re.escape(lines[0]) + ".*?" + re.escape(lines[-1]), re.S)
    if old.search(text):
        return old.sub(lambda _: section, text)
    if GPU in text:
        return text.replace(GPU, section + "\n\n" + GPU, 1)
    return text.rstrip("\n") + "\n\n" + section + "\n"


def selftest():
    first, again = "<!-- begin: x -->\na \\1\n<!-- end: x -->", "<!-- begin: x -->\nb \\2\n<!-- end: x -->"
    assert put("# Results\n", first) == f"# Results\n\n{first}\n"
    assert put(f"# Results\n\n{first}\n\ntext\n", again) == f"# Results\n\n{again}\n\ntext\n"
    assert put(f"# Results\n\n{GPU}\nrows\n", first) == f"# Results\n\n{first}\n\n{GPU}\nrows\n"
    other = "<!-- begin: y -->\nc\n<!-- end: y -->"
    assert put(f"{first}\n\n{other}\n", again) == f"{again}\n\n{other}\n", "others stay"


if __name__ == "__main__":
    if sys.argv[1:] == ["--selftest"]:
        sys.exit(selftest())
    file = pathlib.Path(sys.argv[1])
    new = sys.stdin.read().strip("\n")
    file.write_text(put(file.read_text() if file.exists() else "# Results\n", new))
