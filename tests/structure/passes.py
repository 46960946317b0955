"""The table of passes in docs/compiler/README.md is that of src/passes/passes.def, and every page is there.

    passes.py            compares
    passes.py --write    writes the table into the page
"""
import os
import re
import sys

import tree

PAGE, FOLDER = "docs/compiler/README.md", "docs/compiler"
START, END = "<!-- passes.def -->\n", "<!-- end -->\n"
HEAD = "| pass | when | off with | what it does |\n|---|---|---|---|\n"
# name, when, switch, page, call, doc: the call is C++, the two texts beside it have no quotes in them
ROW = re.compile(r'^TESSERA_PASS\((\w+), (\w+), (\w+), "([^"]*)", (.*), "([^"]*)"\)$', re.M)


def words():
    """When -> in words, from text(When) in the pipeline."""
    return dict(re.findall(r'case When::(\w+): return "([^"]*)";', tree.read("src/passes/pipeline.cpp")))


def rows():
    return ROW.findall(tree.read("src/passes/passes.def"))


def table():
    text, when_words = HEAD, words()
    for name, when, switch, page, _, doc in rows():
        shown = f"[`{name}`]({page})" if page else f"`{name}`"
        text += f"| {shown} | {when_words[when]} | {'' if switch == 'none' else f'`{switch}=0`'} | {doc} |\n"
    return text


def main():
    problems = []
    declared = tree.read("src/passes/passes.def").count("\nTESSERA_PASS(")
    if declared != len(rows()) or declared == 0:
        problems.append(f"src/passes/passes.def: {declared} rows, of which {len(rows())} were understood")
    for name, _, _, page, _, _ in rows():
        file = page.split("#")[0]
        if file and not os.path.exists(os.path.join(tree.ROOT, FOLDER, file)):
            problems.append(f"src/passes/passes.def: {name}: there is no {FOLDER}/{file}")
    text = tree.read(PAGE)
    if text.count(START) != 1 or text.count(END) != 1:
        problems.append(f"{PAGE}: expected one pair of the marks {START.strip()} and {END.strip()}")
    else:
        before, rest = text.split(START)
        found, after = rest.split(END)
        if "--write" in sys.argv:
            with open(os.path.join(tree.ROOT, PAGE), "w", encoding="utf-8") as file:
                file.write(before + START + table() + END + after)
        elif found != table():
            problems.append(f"{PAGE}: the table differs from src/passes/passes.def")
    tree.finish(problems, "tests/structure/passes.py --write writes the table anew.")


main()
