"""Every page of docs/ stands once in the navigation of the site (scripts/docs/nav.py), and what that names is there.

    nav.py             check the project
    nav.py --selftest  check that what is wrong is found
"""
import os
import sys
import tempfile

import tree

sys.path.insert(0, os.path.join(tree.ROOT, "scripts", "docs"))
import nav  # noqa: E402


def selftest():
    with tempfile.TemporaryDirectory() as root:
        docs = os.path.join(root, "docs")
        for page in ("README.md", "index.md", "guide/README.md", "guide/1.md", "twice.md", "nowhere.md"):
            os.makedirs(os.path.dirname(os.path.join(docs, page)), exist_ok=True)
            with open(os.path.join(docs, page), "w", encoding="utf-8") as file:
                file.write("# x\n")
        listed = [("Home", ["index.md"]), ("Guide", ["guide/"]), ("A", ["twice.md"]), ("B", ["twice.md", "gone.md", "later.md"])]
        return tree.unequal(nav.problems(docs, listed, {"later.md"}),
                            ["docs/nowhere.md: stands nowhere in the navigation", "docs/twice.md: stands twice in the navigation",
                             "scripts/docs/nav.py: there is no docs/gone.md"])


tree.finish(selftest() if "--selftest" in sys.argv else nav.problems(os.path.join(tree.ROOT, "docs")),
            "Put the page into NAV of scripts/docs/nav.py.")
