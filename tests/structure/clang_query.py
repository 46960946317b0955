"""What the lints share that find mistakes in the syntax tree (clang-query): their queries, their fixtures, and the choice of files.

A lint is definitions and queries; each query is a check with a name and a message. A line that means what a check finds carries the comment
NOLINT(name of the check).

    X_lint.py --fixtures               check the checks on the lines marked in tests/structure/fixtures
    X_lint.py --database BUILD         check every file of a compile database: compile_commands.json in the folder BUILD
    X_lint.py --database BUILD --tree  the same for this project: it fails where a part of the project is missing

The files of the library itself (its src, tests, ...) are looked at with --tree only, so a project that builds Tessera as a part of itself is
checked without them; these files are looked at several at a time (batches.py), those of other projects each alone. Exit codes: 0 nothing was found, 1 something was, or a file could not be parsed, 77 there is no clang-query.
"""
import argparse
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass

import batches
import tree


@dataclass
class Lint:
    definitions: str  # clang-query's `let`, one after the other
    queries: dict     # check -> (query, message)
    opens: re.Pattern  # what a file contains that has something to check: others need no parsing
    place: str        # the fixtures are fixtures/<check>_in_<place>.cpp
    covers: tuple     # folders of this project that --tree must reach
    advice: str


def from_file(path):
    """(definitions, queries) out of the file that the tessera command is compiled with."""
    text = tree.read(path)
    lines = re.sub(r"\n[ ]+", " ", text[text.index('R"query(') + 8:text.index(')query"')]).strip().split("\n")
    queries = {lines[i].split(" ", 2)[1]: (lines[i + 1], lines[i].split(" ", 2)[2]) for i, line in enumerate(lines) if line.startswith("check ")}
    return "\n".join(line for line in lines if line.startswith("let ")), queries


def find_program(wanted, program="clang-query", package="clang-tools-16"):
    # By version first: older ones cannot read C++20's captured bindings.
    for name in [wanted] if wanted else [f"{program}-{v}" for v in range(20, 15, -1)] + [program]:
        if path := shutil.which(name):
            return path
    print(f"skipped: {program} is not installed (apt-get install {package})")
    sys.exit(tree.SKIPPED)


def commands(lint):
    """The definitions (one `let` a line) and queries as options of clang-query."""
    lets = re.sub(r"\n(?!let )\s*", " ", lint.definitions.strip()).split("\n")
    return [word for text in lets + [q for q, _ in lint.queries.values()] for word in ("-c", " ".join(text.split()))]


def findings(lint, program, source, flags, directory):
    """{(check, file, line)} of what the queries find, and "", or, if clang-query could not parse the source, its output."""
    run = subprocess.run([program, *commands(lint), source, "--", *flags, "-w"], capture_output=True, text=True, cwd=directory)
    # Each query ends with a line "3 matches."; a query that could not be read has none.
    parts = re.split(r"^\d+ match(?:es)?\.$", run.stdout, flags=re.M)
    if run.returncode != 0 or re.search(r"\berror:", run.stdout + run.stderr) or len(parts) != len(lint.queries) + 1:
        return set(), f"{source}\n{run.stdout}\n{run.stderr}"
    return {(check, os.path.normpath(os.path.join(directory, path)), int(line))
            for check, part in zip(lint.queries, parts)
            for path, line in re.findall(r'^(\S+?):(\d+):\d+: note: "root" binds here', part, re.M)}, ""


def all_of(results):
    """The findings of all results together; exits if a file could not be parsed."""
    for _, errors in results:
        if errors:
            print(errors[-8000:])
            sys.exit(1)
    return set().union(*(found for found, _ in results))


def fixtures(lint, program):
    problems = []
    for check in lint.queries:
        path = f"tests/structure/fixtures/{check}_in_{lint.place}.cpp"
        expected = {n for n, line in enumerate(tree.read(path).split("\n"), 1) if "// found" in line}
        flags = ["-std=c++20", "-I" + os.path.join(tree.ROOT, "include")]
        found = {n for c, _, n in all_of([findings(lint, program, path, flags, tree.ROOT)]) if c == check}
        problems += [f"{path}:{n}: not found" for n in sorted(expected - found)]
        problems += [f"{path}:{n}: found, but it is legal" for n in sorted(found - expected)]
        problems += [] if expected else [f"{path}: no line is marked"]
    return problems


@functools.lru_cache(maxsize=None)
def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def include_folders(entry):
    """The folders that the command of a compile database searches for headers."""
    words = entry.get("arguments") or shlex.split(entry["command"])
    found = [w[2:] or following for w, following in zip(words, words[1:] + [""]) if w.startswith("-I")]
    found += [following for w, following in zip(words, words[1:]) if w == "-iquote"]
    return [os.path.join(entry["directory"], f) for f in found]


def has_code(lint, path, folders, library, seen):
    """True if the file, or a header of the program that it includes, has something to check. `library`: the library's kernels count."""
    if path in seen:
        return False
    seen.add(path)
    text = text_of(path)
    if lint.opens.search(text):
        return True
    for name in re.findall(r'^[ \t]*#[ \t]*include ["<]([^">]+)[">]', text, re.M):
        if name.startswith("tessera/") and not (library and "/kernels/" in name):
            continue
        header = next((h for h in (os.path.join(f, name) for f in [os.path.dirname(path), *folders]) if os.path.isfile(h)), "")
        header = header and os.path.realpath(header)
        of_library = header.startswith(os.path.join(tree.ROOT, "src") + os.sep)
        if header and not of_library and has_code(lint, header, folders, library, seen):
            return True
    return False


def chosen(lint, database, of_tree):
    """The files to look at. The library's kernels are seen where they are made: in their own tests."""
    entries = batches.entries(database)
    missing = [f for f in entries if not os.path.isfile(f)]
    if missing:
        sys.exit(f"not generated yet: {missing[0]} (build the project first; in Tessera's own tree: ninja -C {database} guide_sources)")
    # src is what records, not what is recorded; bench makes the library's kernels over and over, which takes minutes each.
    left_out = ("src", "bench") if of_tree else ("src", "bench", "tests", "tools", "examples", "kernels")
    left_out = tuple(os.path.join(tree.ROOT, folder) + os.sep for folder in left_out)
    return [path for path, entry in sorted(entries.items()) if not path.startswith(left_out)
            and has_code(lint, path, include_folders(entry), "/tests/kernels/" in path, set())]


def whole_database(lint, program, database, jobs, of_tree, share):
    files = chosen(lint, database, of_tree)
    for folder in lint.covers if of_tree else ():
        if not any(f"/{folder}/" in f or folder == "tests/guide" and "/guide_" in f for f in files):
            sys.exit(f"no file of {folder} is looked at: the compile database is not whole")
    looked_at = tree.of_today(files, share)
    print(f"{len(looked_at)} files to check" + (f", a share of {len(files)}" if share > 1 else ""))

    def look(source, flags, directory):  # without what the guide shows as wrong
        return findings(lint, program, source, (*flags, "-DTESSERA_LINT"), directory)
    found = all_of(batches.run(looked_at, database, jobs, look, batches.SIZE if of_tree else 1))
    base = tree.ROOT if of_tree else os.getcwd()
    # A snippet of the guide calls itself app.cpp, which is no file.
    return [f"{os.path.relpath(p, base)}:{n}: {lint.queries[check][1]} [{check}]" for check, p, n in sorted(found)
            if not os.path.isfile(p) or f"NOLINT({check})" not in text_of(p).split("\n")[n - 1]]


def main(lint, doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures", action="store_true")
    parser.add_argument("--database", default="build/clang")
    parser.add_argument("--tree", action="store_true")
    parser.add_argument("--clang-query")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--share", type=int, default=1, metavar="N", help="looks at an N-th of the files, another one every day")
    options = parser.parse_args()
    query = find_program(options.clang_query)
    tree.finish(fixtures(lint, query) if options.fixtures
                else whole_database(lint, query, os.path.abspath(options.database), options.jobs, options.tree, options.share), lint.advice)
