"""Links and pictures of the Markdown files lead to something: the file is there, and so is the anchor (as GitHub makes them).
Paths such as docs/semantics.md#loops in comments and messages do too.

    links.py             check the project
    links.py --selftest  check that what is wrong is found
"""
import os
import re
import sys

import tree

sys.path.insert(0, os.path.join(tree.ROOT, "scripts", "docs"))
import md  # noqa: E402

SOURCES = (".hpp", ".cpp", ".def", ".inl", ".py", ".sh", ".cmake", ".txt")
IN_SOURCE = re.compile(r"(?<![\w/.-])(docs/(?:[\w-]+/)*[\w-]+\.md)(?:#([\w-]+))?")


def check(files, exists):
    """Problems of `files`, path -> text; `exists` says whether a path of the project is a file or folder."""
    anchors, problems = {}, []

    def lacks_anchor(path, anchor):
        if path not in anchors:
            anchors[path] = md.anchors(files[path])
        return anchor not in anchors[path]

    for path, text in sorted(files.items()):
        if path.endswith(".md"):
            found = [(n, t) for n, t in md.links(text) if not md.is_external(t)]
            found = [(n, t, os.path.normpath(os.path.join(os.path.dirname(path), t.split("#")[0])) if t.split("#")[0] else path)
                     for n, t in found]
        else:
            found = [(text.count("\n", 0, m.start()) + 1, m.group(), m.group(1)) for m in IN_SOURCE.finditer(text)]
        for number, target, there in found:
            anchor = target.partition("#")[2]
            if not exists(there):
                problems.append(f"{path}:{number}: {target} does not exist")
            elif anchor and there in files and there.endswith(".md") and lacks_anchor(there, anchor):
                problems.append(f"{path}:{number}: {there} has no heading #{anchor}")
    return problems


def selftest():
    files = {
        "docs/a.md": "# One `two`: three\n## Again\n## Again\n[x](b.md#part) [y](#one-two-three) [z](#again-1) <a href=\"b.md\">b</a>\n"
                     "```\n[no link](nowhere.md)\n```\n`[no](nowhere.md)` [web](https://example.org/x) ![p](images/p.svg)\n",
        "docs/b.md": "## Part\n[gone](c.md)\n[here](a.md#two)\n![p](images/q.svg)\n[twice](a.md#again-2)\n",
        "src/x.cpp": "// docs/b.md#part is there, docs/b.md#parts is not,\n// nor is docs/c.md\n",
    }
    there = {*files, "docs/images/p.svg"}
    expected = ["docs/b.md:2: c.md does not exist", "docs/b.md:3: docs/a.md has no heading #two",
                "docs/b.md:4: images/q.svg does not exist", "docs/b.md:5: docs/a.md has no heading #again-2",
                "src/x.cpp:1: docs/b.md has no heading #parts", "src/x.cpp:2: docs/c.md does not exist"]
    return tree.unequal(check(files, there.__contains__), expected)


def project():
    files = {p: tree.read(p) for p in tree.files(".md", *SOURCES) if not p.startswith("tests/structure/")}  # whose self-tests are wrong
    return check(files, lambda p: os.path.exists(os.path.join(tree.ROOT, p)))


tree.finish(selftest() if "--selftest" in sys.argv else project(), "Correct the link, or write the page or the heading.")
