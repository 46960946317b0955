"""The navigation of the documentation site: sections, and the pages or folders in each.

A folder stands for all of its pages, in the order of their names. A page may stand in one place only: what is named by
itself is left out of its folder. tests/structure/nav.py fails for a page of docs/ that stands nowhere, and for a name of
this list that is no page, unless it is in COMING.
"""
import os

NAV = [  # (title, pages); one page alone is a link of its own
    ("Home", ["index.md"]),
    ("Why Tessera", ["why.md"]),
    ("Install", ["install.md"]),
    ("Quickstart", ["quickstart.md"]),
    ("Editors and agents", ["ides.md", "agents.md"]),
    ("Guide", ["guide/"]),
    ("Performance", ["tools.md", "tuning.md", "learning.md", "gpu.md"]),
    ("Cookbook", ["cookbook.md"]),
    ("Language and library", ["language.md", "host.md", "kernels.md", "torch.md", "python.md", "glossary.md"]),
    ("Semantics", ["semantics.md"]),
    ("Reference", ["reference/README.md", "reference/language.md", "reference/host.md", "reference/kernels.md",
                   "reference/command-line.md", "reference/environment.md", "reference/cmake.md", "reference/errors.md"]),
    ("Safety", ["safety.md"]),
    ("Mortar", ["mortar/"]),
    ("Benchmarks", ["benchmarks.md"]),
    ("Internals", ["internals/", "layers.md", "tracing.md", "ir.md", "jit.md", "machine.md", "flows.md", "graphs.md", "runtime.md", "cuda.md", "cpu.md", "mesh.md", "mesh-transports.md",
                   "tileiras.md", "packaging.md", "testing.md"]),
    ("Compiler", ["compiler/"]),
    ("FAQ", ["faq.md"]),
    ("Stability", ["stability.md"]),
    ("Changelog", ["../CHANGELOG.md"]),
]
# Named above and not written yet. A page that is there now goes out of this list.
COMING = set()


def pages_of(docs):
    """Every page under the folder docs, as paths relative to it. Its README.md is the index for readers of the repository; the
    site has index.md in its place, once that is there."""
    found = []
    for folder, folders, names in os.walk(docs):
        folders.sort()
        found += [os.path.relpath(os.path.join(folder, name), docs) for name in names if name.endswith(".md")]
    return sorted(p for p in found if p != "README.md" or "index.md" not in found)


def resolved(docs, nav=None):
    """[(title, [paths])] of the pages that exist, and the names of the list that do not."""
    nav = NAV if nav is None else nav
    pages = pages_of(docs)
    by_itself = {p for _, entries in nav for p in entries}
    out, missing = [], []
    for title, entries in nav:
        found = []
        for entry in entries:
            if entry.endswith("/"):
                inside = [p for p in pages if p.startswith(entry) and p not in by_itself]
                inside.sort(key=lambda p: (os.path.basename(p) not in ("README.md", "index.md"), p))
            elif entry == "index.md" and entry not in pages and "README.md" in pages:
                inside = ["README.md"]
            else:
                inside = [entry] if entry in pages or (entry.startswith("../") and os.path.isfile(os.path.join(docs, entry))) else []
            if not inside or (entry == "index.md" and inside == ["README.md"]):
                missing.append(entry)
            found += inside
        if found:
            out.append((title, found))
    return out, missing


def problems(docs, nav=None, coming=None):
    """What is wrong with the navigation, as sentences."""
    out, missing = resolved(docs, nav)
    coming = COMING if coming is None else coming
    placed = [p for _, pages in out for p in pages]
    wrong = [f"docs/{p}: stands nowhere in the navigation" for p in pages_of(docs) if p not in placed]
    wrong += [f"docs/{p}: stands twice in the navigation" for p in sorted(set(placed)) if placed.count(p) > 1]
    wrong += [f"scripts/docs/nav.py: there is no docs/{p}" for p in missing if p not in coming]
    return wrong
