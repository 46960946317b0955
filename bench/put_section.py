#!/usr/bin/env python3
"""Puts a section of results, read from standard input, into a file, replacing the section of a former run.

    put_section.py FILE
    put_section.py --selftest

The section's first and last lines are comments that mark it. A new one goes before the GPU's section, or to the end. Prose is
broken into lines of at most 99 columns; tables and code stay as they are.
"""

import pathlib
import re
import sys
import textwrap

GPU = "<!-- gpu: begin -->"


def wrapped(section):
    lines, code = [], False
    for line in section.splitlines():
        code ^= line.startswith("```")
        prose = not code and not line.startswith("|")
        lines += textwrap.wrap(line, 99, break_long_words=False, break_on_hyphens=False) or [""] if prose else [line]
    return "\n".join(lines)


def put(text, section):
    section = wrapped(section)
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
    long = "word " * 30
    assert wrapped(f"{long}\n\n| {long}|\n```\n{long}\n```").splitlines() == [
        ("word " * 20)[:-1], ("word " * 10)[:-1], "", f"| {long}|", "```", long, "```"]
    assert put(f"{first}\n\n{other}\n", again) == f"{again}\n\n{other}\n", "others stay"


if __name__ == "__main__":
    if sys.argv[1:] == ["--selftest"]:
        sys.exit(selftest())
    file = pathlib.Path(sys.argv[1])
    new = sys.stdin.read().strip("\n")
    file.write_text(put(file.read_text() if file.exists() else "# Results\n", new))
