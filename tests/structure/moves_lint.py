"""Runs clang-tidy (the checks in .clang-tidy: use after move) over files of this project, several at a time (batches.py).

    moves_lint.py --fixtures                      check that a marked line is found, in a batch too
    moves_lint.py --database BUILD FILE...        check the files, with their commands in the compile database of BUILD

Exit codes as in clang_query.py.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile

import batches
import clang_query
import tree

# What a batch includes are headers to clang-tidy; of other headers those of the library are looked at (HeaderFilterRegex).
HEADERS = r"(/include/tessera/.*|\.cpp$)"


def looker(program):
    def look(source, flags, directory):
        # Warnings are errors of the build already.
        run = subprocess.run([program, "--quiet", f"--config-file={tree.ROOT}/.clang-tidy", f"--header-filter={HEADERS}", source, "--", *flags,
                              "-w"], capture_output=True, text=True, cwd=directory)
        output = run.stdout + run.stderr
        failed = run.returncode != 0 and "[bugprone-" not in output or "clang-diagnostic-error" in output or "Error while processing" in output
        return run.stdout, output if failed else ""
    return look


def problems_of(results):
    """The findings, each once: a header's are found with every file that includes it."""
    found = [f for text, errors in results for f in re.findall(r"^\S+:\d+:\d+: (?:error|warning): .*", errors or text, re.M)]
    unreadable = [errors[-4000:] for _, errors in results if errors and not re.search(r": error: ", errors)]
    return sorted(set(found)) + unreadable


def fixtures(program):
    """The marked lines of two files in one batch, next to one that cannot stand beside them."""
    folder = os.path.join(tree.ROOT, "tests/structure/fixtures")
    files = [os.path.join(folder, f"{name}_in_moves.cpp") for name in ("use", "second_use", "same_name")]
    with tempfile.TemporaryDirectory() as database:
        with open(os.path.join(database, "compile_commands.json"), "w", encoding="utf-8") as f:
            json.dump([{"directory": folder, "file": p, "arguments": ["c++", "-std=c++20", "-DTHIS_FILE=", "-c", p]} for p in files], f)
        results = batches.run(files, database, 1, looker(program))
    found = sorted({f"{os.path.basename(p)}:{n}" for f in problems_of(results) for p, n in re.findall(r"^(\S+?):(\d+):.*use-after-move", f)})
    expected = sorted(f"{os.path.basename(p)}:{n}" for p in files for n, line in enumerate(tree.read(p).split("\n"), 1) if "// found" in line)
    if len(results) != 2:
        return [f"{len(results)} batches were looked at, expected 2: the file with a name of another apart from the others"]
    return tree.unequal(found, expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures", action="store_true")
    parser.add_argument("--database", default="build/clang")
    parser.add_argument("--clang-tidy")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--share", type=int, default=1, metavar="N", help="looks at an N-th of the files, another one every day")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    program = clang_query.find_program(options.clang_tidy, "clang-tidy", "clang-tidy-16")
    if options.fixtures:
        tree.finish(fixtures(program), "clang-tidy no longer finds what it did, or batches.py leaves files out.")
    # A file that moves nothing cannot use what was moved. What headers move is seen in the files that do.
    files = tree.of_today([os.path.realpath(f) for f in options.files if re.search(r"\bstd::(?:move|forward)\b", tree.read(f))], options.share)
    print(f"{len(files)} files to check, of {len(options.files)}")
    tree.finish(problems_of(batches.run(files, os.path.abspath(options.database), options.jobs, looker(program))),
                "Name what is used after the move, or assign it anew first.")


if __name__ == "__main__":
    main()
