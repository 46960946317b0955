"""Finds `continue` inside tile_if. tile_if is a loop to the compiler, so `continue` compiles, but it only ends the arm: what
follows in the user's own loop is recorded all the same. Recording notices an arm that did nothing; this finds the rest. A line that
means it, in a test of what recording says, carries the comment NOLINT(continue).

    continue_lint.py --fixture                    check the checker on the lines marked in tests/structure/fixtures
    continue_lint.py --database build/clang       check every file of the compile database that says tile_if
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

import tree

# A `continue` whose innermost enclosing loop is the one that tile_if expands to.
QUERY = """
match continueStmt(
  hasAncestor(cxxForRangeStmt(hasRangeInit(hasDescendant(expr(anyOf(
      callExpr(callee(functionDecl(hasName("::tessera::detail::branch")))),
      declRefExpr(to(functionDecl(hasName("::tessera::detail::branch"))))))))).bind("arm")),
  unless(hasAncestor(stmt(anyOf(forStmt(), whileStmt(), doStmt(), cxxForRangeStmt(unless(equalsBoundNode("arm")))),
                          hasAncestor(cxxForRangeStmt(equalsBoundNode("arm")))))))
"""


def find_program(wanted):
    for name in [wanted] if wanted else ["clang-query"] + [f"clang-query-{v}" for v in range(20, 15, -1)]:
        if path := shutil.which(name):
            return path
    print("skipped: clang-query is not installed (apt-get install clang-tools-16)")
    sys.exit(tree.SKIPPED)


def matches(program, arguments):
    """{(file, line)} of what the query finds; exits if clang-query could not parse a file."""
    run = subprocess.run([program, "-c", " ".join(QUERY.split()), *arguments], capture_output=True, text=True, cwd=tree.ROOT)
    if run.returncode != 0 or re.search(r"\berror:", run.stdout + run.stderr) or "matches" not in run.stdout and "match." not in run.stdout:
        print(run.stdout[-4000:], run.stderr[-4000:])
        sys.exit(1)
    found = re.findall(r'^(\S+?):(\d+):\d+: note: "root" binds here', run.stdout, re.M)
    return {(os.path.relpath(os.path.join(tree.ROOT, path), tree.ROOT), int(line)) for path, line in found}


def fixture(program):
    path = "tests/structure/fixtures/continue_in_tile_if.cpp"
    expected = {(path, n) for n, line in enumerate(tree.read(path).split("\n"), 1) if "// found" in line}
    found = matches(program, [path, "--", "-std=c++20", "-I" + os.path.join(tree.ROOT, "include")])
    return ([f"{p}:{n}: not found" for p, n in sorted(expected - found)] +
            [f"{p}:{n}: found, but it is legal" for p, n in sorted(found - expected)] + ([] if expected else ["no line is marked"]))


def whole_tree(program, database):
    with open(os.path.join(database, "compile_commands.json"), encoding="utf-8") as f:
        files = sorted({os.path.join(e["directory"], e["file"]) for e in json.load(f)})
    # Only these record kernels of their own; a header is seen through the files that include it.
    # Generated files (snippets of the guide) exist once they were built.
    files = [f for f in files if os.path.isfile(f) and re.search(r"\btile_if\b", open(f, encoding="utf-8").read())
             and "tests/structure/fixtures" not in f]
    print(f"{len(files)} files say tile_if")
    return [f"{p}:{n}: continue in tile_if only ends the arm; invert the condition instead"
            for p, n in sorted(matches(program, ["-p", database, *files]))
            if "LINT(continue)" not in tree.read(p).split("\n")[n - 1]] if files else []


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--fixture", action="store_true")
parser.add_argument("--database", default="build/clang")
parser.add_argument("--clang-query")
options = parser.parse_args()
query = find_program(options.clang_query)
tree.finish(fixture(query) if options.fixture else whole_tree(query, options.database), "See docs/guide on control flow.")
