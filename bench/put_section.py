#!/usr/bin/env python3
"""Puts a section of results, read from standard input, into a file, in place of what a former run left there.

    put_section.py FILE

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


if __name__ == "__main__":
    file = pathlib.Path(sys.argv[1])
    new = sys.stdin.read().strip("\n")
    file.write_text(put(file.read_text() if file.exists() else "# Results\n", new))
