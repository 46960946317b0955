"""Everything that the pages of PAGES name as holding a promise exists: a renamed or deleted test may not leave its promise behind.

    safety.py             check the pages
    safety.py --selftest  check that what is wrong is found

Read are the code spans of a page. `program:Suite.Test` (or `program:Suite.*`) is a test of GoogleTest, `kind:name` one of KINDS, and what
begins with a folder of the project is a path. In a table whose last column is "held by", the last cell of every row names at least one
of these, or says that the promise is *open*.
"""
import os
import re
import sys
import tomllib

import tree

PAGES = {  # and how many references each has at least; fewer mean that they are no longer recognised
    "docs/safety.md": 100,
    "docs/internals/known-holes.md": 200,
    "docs/agents.md": 10,
}
# Programs whose folder does not follow from their name as in tests/CMakeLists.txt (test_codegen_cpu: tests/codegen/cpu).
FOLDERS = {"test_jit_checked": "tests/jit/cuda", "test_jit_start": "tests/jit/cuda"}
TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+)\s*,\s*(\w+)\s*\)")
SPAN = re.compile(r"`([^`\n]+)`")
REFERENCE = re.compile(r"([a-z][a-z_0-9]*):([\w*][^`]*)$")
PATH = re.compile(r"(?:src|include|tests|scripts|docs|cmake)/[\w./*-]+$")


def folder_of(program):
    """The folder of the program's sources, or None. gpu_test_bounds has one source, tests/gpu/bounds_test.cpp."""
    if program in FOLDERS:
        return FOLDERS[program]
    folder = "tests/" + program.removeprefix("test_").replace("_", "/")
    return folder if program.startswith("test_") and os.path.isdir(os.path.join(tree.ROOT, folder)) else None


def tests_of(program):
    """{Suite.Test} of a test program; None if there is no such program."""
    if program.startswith("gpu_test_"):
        sources = [f"tests/gpu/{program.removeprefix('gpu_test_')}_test.cpp"]
    else:
        folder = folder_of(program)
        sources = [p for p in tree.files("_test.cpp") if folder and os.path.dirname(p) == folder]
    sources = [p for p in sources if os.path.isfile(os.path.join(tree.ROOT, p))]
    return {f"{suite}.{test}" for p in sources for suite, test in TEST.findall(tree.read(p))} if sources else None


def matches(pattern, files):
    return {name for path in files for name in re.findall(pattern, tree.read(path), re.M)}


def under(folder, *suffixes):
    return [p for p in tree.files(*suffixes) if p.startswith(folder)]


def structure_tests():
    text = tree.read("tests/structure/suite.cmake")
    lists = re.findall(r"^foreach\(check ([^)]*)\)", text, re.M)
    return set(re.findall(r"tessera_structure_test\((\w+) ", text)) | set(" ".join(lists).split())


KINDS = {
    "misuse": lambda: matches(r"^MISUSE\((\w+),", under("tests/misuse/", ".cpp")),
    "kernel_misuse": lambda: matches(r'(?:misuse\(\s*"|TESSERA_MISUSE_(?:UNARY|BINARY)\()(\w+)', under("tests/kernels/misuse/", "_test.cpp")),
    "reject": lambda: {name.strip() for name in matches(r"^=== (.*)$", under("tests/reject/", ".rows"))},
    "mutant": lambda: {m["id"] for p in under("tests/mutants/", ".toml") for m in tomllib.loads(tree.read(p))["mutant"]},
    "fuzz": lambda: matches(r"^TESSERA_FUZZ\((\w+),", ["tests/fuzz/targets.def"]),
    "structure": structure_tests,
    "lint": lambda: {re.sub(r"_in_\w+$", "", os.path.basename(p)[:-4]) for p in under("tests/structure/fixtures/", ".cpp")},
    "generate": lambda: {"found", "today"},  # tests/generate/suite.cmake
}


class Names:
    """What exists, read when it is first wanted."""

    def __init__(self):
        self.known = {}

    def of(self, kind):
        if kind not in self.known:
            self.known[kind] = KINDS[kind]() if kind in KINDS else tests_of(kind)
        return self.known[kind]


def wrong(span, names, exists):
    """None if the span is no reference; "" if what it names exists; otherwise the problem."""
    if PATH.fullmatch(span):
        return None if exists(span) else f"there is no {span}"
    reference = REFERENCE.fullmatch(span)
    if not reference or not (reference[1] in KINDS or reference[1].startswith(("test_", "gpu_test_"))):
        return None
    kind, name = reference.groups()
    known = names.of(kind)
    if known is None:
        return f"there is no test program {kind}"
    found = any(k.startswith(name[:-1]) for k in known) if name.endswith("*") else name in known
    return "" if found else f"{kind} has no {name}"


def check(page, text, names, exists):
    problems, references, held_by = [], 0, False
    for number, line in enumerate(text.split("\n"), 1):
        results = [wrong(span, names, exists) for span in SPAN.findall(line)]
        problems += [f"{page}:{number}: {r}" for r in results if r]
        references += results.count("")
        if not line.startswith("|"):
            held_by = False
            continue
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if cells[-1] == "held by":
            held_by = True
        elif held_by and set(cells[-1]) - set("-: "):
            of_cell = [wrong(span, names, exists) for span in SPAN.findall(cells[-1])]
            if "" not in of_cell and not re.search(r"\bopen\b", cells[-1]):
                problems.append(f"{page}:{number}: nothing holds this promise, and the row does not say that it is open")
    return problems, references


def selftest():
    names = Names()
    names.known = {"test_api": {"Errors.OneTensorTwice", "Errors.MovedFrom"}, "test_gone": None, "mutant": {"a-reader-joins"},
                   "reject": {"store into an In"}}
    text = "\n".join([
        "| promise | where | held by |", "|---|---|---|",
        "| a | `src/here.cpp` | `test_api:Errors.MovedFrom`, `mutant:a-reader-joins` |",
        "| b | `src/gone.cpp` | `test_api:Errors.*` |",
        "| c | | `test_api:Errors.Renamed`, `reject:store into an In` |",
        "| d | | `test_gone:A.B`, `mutant:a-writer`, `test_api:Error.*` |",
        "| e | | `set_check_mode(true)` |",
        "| f | | open: nothing tries it |",
        "", "| other | table |", "|---|---|", "| g | text |", "`reject:no such row`",
    ])
    expected = [f"page.md:{n}" for n in
                ("4: there is no src/gone.cpp", "5: test_api has no Errors.Renamed", "6: there is no test program test_gone",
                 "6: mutant has no a-writer", "6: test_api has no Error.*",
                 "6: nothing holds this promise, and the row does not say that it is open",
                 "7: nothing holds this promise, and the row does not say that it is open", "13: reject has no no such row")]
    problems, references = check("page.md", text, names, {"src/here.cpp"}.__contains__)
    return tree.unequal(problems, expected) + ([] if references == 4 else [f"{references} references, expected 4"])


def project():
    def exists(path):
        if "*" in path:
            return any(re.fullmatch(re.escape(path).replace(r"\*", r"[^/]*"), p) for p in tree.files())
        return os.path.exists(os.path.join(tree.ROOT, path))

    problems, names = [], Names()
    for page, least in PAGES.items():
        found, references = check(page, tree.read(page), names, exists)
        problems += found
        if references < least:
            problems.append(f"{page}: only {references} references were recognised")
    return problems


tree.finish(selftest() if "--selftest" in sys.argv else project(),
            "Write what holds the promise now, or that it is open.")
