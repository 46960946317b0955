"""Prose of Markdown files is at most 100 columns wide: not code, tables, or a line that is one word (a long link).

    prose_width.py             check the project
    prose_width.py --selftest  check that what is wrong is found
"""
import os
import re
import sys

import tree

sys.path.insert(0, os.path.join(tree.ROOT, "scripts", "docs"))
import md  # noqa: E402

COLUMNS = 100


def check(path, text):
    problems = []
    for number, line in md.outside_fences(text):
        one_word = re.match(r"[\s>*+-]*(?:\d+\. )?(?:\[[^\]]*\]: )?\S+$", line)
        table, code = re.match(r"[\s>]*\|", line), re.match(r"(?: {4}|\t)", line)
        if len(line) > COLUMNS and not (one_word or table or code):
            problems.append(f"{path}:{number}: {len(line)} columns")
    return problems


def selftest():
    long = "word " * 24
    text = f"# Title\n{long}\n\n| {long} |\n```text\n{long}\n```\n- https://example.org/{'x' * 120}\n    {long}\n> {long}\n- {long}\n"
    return tree.unequal(check("a.md", text), ["a.md:2: 120 columns", "a.md:10: 122 columns", "a.md:11: 122 columns"])


def project():
    return [p for path in tree.files(".md") for p in check(path, tree.read(path))]


tree.finish(selftest() if "--selftest" in sys.argv else project(), f"Break prose at {COLUMNS} columns.")
