"""Finds two mistakes that C++ allows in recorded regions (the arms of tile_if, the bodies of tile_while, range and loops over
MutTiles), which are recorded once and run on the device:

    continue     `continue` whose innermost loop is the one that tile_if expands to: it only ends the arm, what follows in the
                 user's own loop is recorded all the same. (Recording notices an arm that did nothing; this finds the rest.)
    assignment   an assignment, ++ or -- of a host variable from outside the region: it happens once, while recording, whichever
                 arm the device takes and however often the loop runs. What assigns through functions and references is not seen.

A line that means it, in a test of what recording says, carries the comment NOLINT(continue) or NOLINT(assignment).

    regions_lint.py --fixtures                   check the checks on the lines marked in tests/structure/fixtures
    regions_lint.py --database build/clang       check every file of the compile database that has such regions
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tree

# Definitions, then the queries in order. Matchers are tried from left to right: the cheap ones come first.
DEFINITIONS = """
let branchCall callExpr(callee(functionDecl(hasName("::tessera::detail::branch"))))
let branchName declRefExpr(to(functionDecl(hasName("::tessera::detail::branch"))))
let arm cxxForRangeStmt(hasRangeInit(hasDescendant(expr(anyOf(branchCall, branchName)))))
let loopType hasUnqualifiedDesugaredType(recordType(hasDeclaration(
    namedDecl(matchesName("^::tessera::(lang::Branch|detail::Range|detail::ScheduledTiles|MutTiles)$")))))
let whileType hasUnqualifiedDesugaredType(recordType(hasDeclaration(cxxRecordDecl(hasName("::tessera::lang::While")))))
let region stmt(anyOf(cxxForRangeStmt(hasRangeInit(expr(hasType(loopType)))),
                      forStmt(hasLoopInit(declStmt(hasSingleDecl(varDecl(hasType(whileType)))))))).bind("region")
let hostType qualType(anyOf(
    isInteger(), isAnyPointer(), hasCanonicalType(realFloatingPointType()), hasCanonicalType(enumType()),
    hasDeclaration(cxxRecordDecl(hasAnyName("::tessera::tf32", "::tessera::f16", "::tessera::bf16", "::tessera::f8e4m3",
                                            "::tessera::f8e5m2")))))
let ownVariable declRefExpr(to(varDecl(hasAncestor(stmt(equalsBoundNode("region"))))))
let inProject stmt(unless(isExpansionInSystemHeader()))
let assigning stmt(anyOf(binaryOperator(isAssignmentOperator()), unaryOperator(hasAnyOperatorName("++", "--")),
                         cxxOperatorCallExpr(isAssignmentOperator())))
let target expr(hasType(hostType), unless(ownVariable), unless(hasDescendant(ownVariable)))
"""
QUERIES = {
    "continue": ("""
        match continueStmt(inProject, hasAncestor(stmt(arm).bind("arm")),
            unless(hasAncestor(stmt(anyOf(forStmt(), whileStmt(), doStmt(), cxxForRangeStmt(unless(equalsBoundNode("arm")))),
                                    hasAncestor(cxxForRangeStmt(equalsBoundNode("arm")))))))""",
                 "continue in tile_if only ends the arm; invert the condition instead"),
    "assignment": ("""
        match stmt(inProject, assigning, hasAncestor(region), anyOf(
            binaryOperator(isAssignmentOperator(), hasLHS(target)),
            unaryOperator(hasAnyOperatorName("++", "--"), hasUnaryOperand(target)),
            cxxOperatorCallExpr(isAssignmentOperator(), hasArgument(0, target))))""",
                   "a host variable assigned in a recorded region changes once, while recording; make it a Scalar or a Tile"),
}
# What opens a region, as text: files without it need no parsing.
REGION = re.compile(r"\btile_if\b|\btile_while\b|:\s*range\(|\bMutTiles\b")


def find_program(wanted):
    # By version first: older ones cannot read C++20's captured bindings.
    for name in [wanted] if wanted else [f"clang-query-{v}" for v in range(20, 15, -1)] + ["clang-query"]:
        if path := shutil.which(name):
            return path
    print("skipped: clang-query is not installed (apt-get install clang-tools-16)")
    sys.exit(tree.SKIPPED)


def commands():
    """The definitions (one `let` a line) and queries as options of clang-query."""
    lets = re.sub(r"\n(?!let )\s*", " ", DEFINITIONS.strip()).split("\n")
    return [word for text in lets + [q for q, _ in QUERIES.values()] for word in ("-c", " ".join(text.split()))]


def findings(program, arguments):
    """{(check, file, line)} of what the queries find; exits if clang-query could not parse the file."""
    run = subprocess.run([program, *commands(), *arguments], capture_output=True, text=True, cwd=tree.ROOT)
    # Each query ends with a line "3 matches."; a query that could not be read has none.
    parts = re.split(r"^\d+ match(?:es)?\.$", run.stdout, flags=re.M)
    if run.returncode != 0 or re.search(r"\berror:", run.stdout + run.stderr) or len(parts) != len(QUERIES) + 1:
        print(arguments, run.stdout[-4000:], run.stderr[-4000:])
        sys.exit(1)
    return {(check, os.path.relpath(os.path.join(tree.ROOT, path), tree.ROOT), int(line))
            for check, part in zip(QUERIES, parts)
            for path, line in re.findall(r'^(\S+?):(\d+):\d+: note: "root" binds here', part, re.M)}


def fixtures(program):
    problems = []
    for check in QUERIES:
        path = f"tests/structure/fixtures/{check}_in_region.cpp"
        expected = {(path, n) for n, line in enumerate(tree.read(path).split("\n"), 1) if "// found" in line}
        found = {(p, n) for c, p, n in findings(program, [path, "--", "-std=c++20", "-I" + os.path.join(tree.ROOT, "include")])
                 if c == check}
        problems += [f"{p}:{n}: not found" for p, n in sorted(expected - found)]
        problems += [f"{p}:{n}: found, but it is legal" for p, n in sorted(found - expected)]
        problems += [] if expected else [f"{path}: no line is marked"]
    return problems


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def has_regions(path, library, seen):
    """True if the file, or a header of the tree that it includes, opens a region. `library`: the library's kernels count."""
    if path in seen:
        return False
    seen.add(path)
    text = text_of(path)
    if REGION.search(text):
        return True
    for name in re.findall(r'^#include ["<]([^">]+)[">]', text, re.M):
        folders = [os.path.dirname(path), os.path.join(tree.ROOT, "tests"), os.path.join(tree.ROOT, "include")]
        header = next((h for h in (os.path.join(f, name) for f in folders) if os.path.isfile(h)), None)
        in_library = header and os.path.realpath(header).startswith(os.path.join(tree.ROOT, "include") + os.sep)
        if header and (not in_library or library and "/kernels/" in header) and has_regions(header, library, seen):
            return True
    return False


def chosen(database):
    """The files to look at. The library's kernels are seen where they are made: in their own tests."""
    with open(os.path.join(database, "compile_commands.json"), encoding="utf-8") as f:
        files = sorted({os.path.realpath(os.path.join(e["directory"], e["file"])) for e in json.load(f)})
    missing = [f for f in files if not os.path.isfile(f)]
    if missing:
        sys.exit(f"not generated yet: {missing[0]} (ninja -C {database} guide_sources)")
    # src is what records, not what is recorded; bench makes the library's kernels over and over, which takes minutes each.
    others = tuple(os.path.join(tree.ROOT, folder) + os.sep for folder in ("src", "bench"))
    return [f for f in files if not f.startswith(others) and has_regions(f, "/tests/kernels/" in f, set())]


def whole_tree(program, database, jobs):
    files = chosen(database)
    for folder in ("examples", "tests/kernels", "tests/lang", "tests/guide"):
        if not any(f"/{folder}/" in f or folder == "tests/guide" and "/guide_" in f for f in files):
            sys.exit(f"no file of {folder} is looked at: the compile database is not whole")
    print(f"{len(files)} files have recorded regions")
    with ThreadPoolExecutor(jobs) as pool:
        arguments = ["-p", database, "--extra-arg=-w", "--extra-arg=-DTESSERA_LINT"]  # without what the guide shows as wrong
        found = set().union(*pool.map(lambda f: findings(program, [*arguments, f]), files))
    # A snippet of the guide calls itself app.cpp, which is no file.
    return [f"{p}:{n}: {QUERIES[check][1]}" for check, p, n in sorted(found)
            if not os.path.isfile(os.path.join(tree.ROOT, p))
            or f"NOLINT({check})" not in text_of(os.path.join(tree.ROOT, p)).split("\n")[n - 1]]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--fixtures", action="store_true")
parser.add_argument("--database", default="build/clang")
parser.add_argument("--clang-query")
parser.add_argument("--jobs", type=int, default=os.cpu_count())
options = parser.parse_args()
query = find_program(options.clang_query)
tree.finish(fixtures(query) if options.fixtures else whole_tree(query, options.database, options.jobs),
            "See docs/guide on control flow.")
