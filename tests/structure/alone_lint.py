#!/usr/bin/env python3
"""Whether sources include what they use: each is compiled by itself and without a precompiled header, as users' builds may do it. Builds of
the tests join the files of a folder (cmake/TesseraJoin.cmake), where one file sees what those before it have included.

    alone_lint.py --fixtures                    checks that a file without an include is found
    alone_lint.py --database BUILD [--share N]  compiles the sources of src, mortar/src and tools, or an N-th of them, another one every day
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import batches
import tree

FOLDERS = ("src", "mortar/src", "tools")


def problems_of(compiler, source, flags, directory):
    """The first error of each file that is named."""
    run = subprocess.run([compiler, "-fsyntax-only", "-w", *flags, source], capture_output=True, text=True, cwd=directory)
    if run.returncode == 0:
        return []
    found = re.search(r"^\S+:\d+:\d+: (?:fatal )?error: .*", run.stderr, re.M)
    return [f"{os.path.relpath(source, tree.ROOT)}: {found[0] if found else run.stderr[-2000:]}"]


def fixtures(compiler):
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, text in (("legal", "#include <vector>\nstd::vector<int> x;\n"), ("wrong", "std::vector<int> x;\n")):
            source = os.path.join(folder, name + ".cpp")
            with open(source, "w", encoding="utf-8") as f:
                f.write(text)
            found += [name] if problems_of(compiler, source, ["-std=c++20"], folder) else []
    return tree.unequal(found, ["wrong"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures", action="store_true")
    parser.add_argument("--database", default="build/lint")
    parser.add_argument("--compiler", default="clang++-16")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--share", type=int, default=1, metavar="N", help="an N-th of the files, another one every day")
    options = parser.parse_args()
    if shutil.which(options.compiler) is None:
        print(f"skipped: {options.compiler} is not installed")
        sys.exit(tree.SKIPPED)
    if options.fixtures:
        tree.finish(fixtures(options.compiler), "A file that lacks an include is no longer found.")
    database = os.path.abspath(options.database)
    inside = tuple(os.path.join(tree.ROOT, folder) + os.sep for folder in FOLDERS)
    files = [f for f in sorted(batches.entries(database)) if f.startswith(inside)]
    if len(files) < 100:
        sys.exit(f"only {len(files)} files of {', '.join(FOLDERS)}: the compile database is not whole")
    today = tree.of_today(files, options.share)
    print(f"{len(today)} files to compile, of {len(files)}")

    def look(source, flags, directory):
        return problems_of(options.compiler, source, flags, directory), ""
    results = batches.run(today, database, options.jobs, look, 1)
    tree.finish([p for problems, _ in results for p in problems], "Include what the file uses.")


if __name__ == "__main__":
    main()
