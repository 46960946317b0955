"""Every C++ block of the pages for newcomers says what it prints. The next thing behind the block is one of these:

    Output:              a line, then a ```text block with what the program prints
    Error:               a line, then a ```text block with the message
    <!-- no output -->   for a kernel, a declaration or a fragment that prints nothing

    snippets.py             check the project
    snippets.py --selftest  check that what is wrong is found
"""
import re
import sys

import tree

PAGES = re.compile(r"docs/(?:guide/(?!README)[^/]*|quickstart|cookbook)\.md")


def blocks(lines):
    """(first line's number, language, index behind the block) of each fenced block."""
    mark = None
    for k, line in enumerate(lines):
        fence = re.match(r" {0,3}(`{3,}|~{3,})\s*(\w*)", line)
        if mark is None and fence:
            mark, kind, start = fence.group(1), fence.group(2), k + 1
        elif mark is not None and line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            yield start, kind, k + 1
            mark = None


def behind(lines, k):
    """The next line that is not blank, from index k on: (line, its index)."""
    while k < len(lines) and not lines[k].strip():
        k += 1
    return (lines[k].strip(), k) if k < len(lines) else ("", k)


def check(path, text):
    lines, problems = text.split("\n"), []
    found = list(blocks(lines))
    texts = {start for start, kind, _ in found if kind == "text"}
    for start, kind, end in found:
        if kind != "cpp":
            continue
        line, k = behind(lines, end)
        if line in ("Output:", "Error:"):
            fence, at = behind(lines, k + 1)
            if at + 1 not in texts:
                problems.append(f"{path}:{k + 1}: no ```text block behind '{line}'")
        elif line != "<!-- no output -->":
            problems.append(f"{path}:{start}: a C++ block that does not say what it prints")
    return problems


def selftest():
    cpp = "```cpp\nint x;\n```\n"
    text = (cpp + "\n<!-- no output -->\n" + cpp + "Output:\n\n```text\n1\n```\n" + cpp + "\nError:\n```text\nno\n```\n"
            + cpp + "Some words.\n" + cpp + "Output:\n\nno block\n" + "```sh\nls\n```\n" + cpp)
    return tree.unequal(check("a.md", text), ["a.md:22: a C++ block that does not say what it prints", "a.md:29: no ```text block behind 'Output:'",
                                              "a.md:35: a C++ block that does not say what it prints"])


def project():
    return [p for path in tree.files(".md") if PAGES.fullmatch(path) for p in check(path, tree.read(path))]


tree.finish(selftest() if "--selftest" in sys.argv else project(), "Show the output, or say that there is none (CONTRIBUTING.md, Documentation).")
