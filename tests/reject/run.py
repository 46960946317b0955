#!/usr/bin/env python3
"""Compiles every row of the reject table: the bad program must fail with the expected sentence in its first error, its
accept twin must compile. A row whose twin does not compile proves nothing, so it fails too. The twins are compiled together,
each in a namespace of its own, and one by one only if that fails.

usage: run.py --compiler g++ --include DIR [--include DIR] [--jobs N] [--only TEXT] [--turn K/N] ROWS...

With --turn K/N the bad program of a row is compiled on one day of N, the day after by the next K: where two compilers have a turn each, every row is
compiled by one of them each day. Rows that only one compiler has, and all twins, are compiled every day; all rows with TESSERA_TEST_ROUNDS=all.

A rows file is a sequence of

    === name of the row
    expect: text that the first error must contain
    flags: extra compiler flags                       (optional)
    only: g++ | clang++                               (optional: a check that only one compiler has)
    --- bad
    C++
    --- good
    C++
"""
import argparse
import datetime
import os
import re
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

PRELUDE = "#include <tessera/tessera.hpp>\n"
FORBIDDEN = ["tessera::lang::ints", "ir::Builder", "Tracer::"]  # internals that no first error may speak of


@dataclass
class Row:
    file: str
    line: int
    name: str
    expect: str = ""
    flags: list = field(default_factory=list)
    only: str = ""
    bad: str = ""
    good: str = ""


def parse(path):
    rows, part = [], None
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if line.startswith("=== "):
            rows.append(Row(Path(path).name, number, line[4:].strip()))
            part = "head"
        elif line.strip() in ("--- bad", "--- good"):
            part = line.strip()[4:]
        elif part in ("bad", "good"):
            setattr(rows[-1], part, getattr(rows[-1], part) + line + "\n")
        elif part == "head" and line.strip():
            key, _, value = line.partition(":")
            if key not in ("expect", "flags", "only"):
                sys.exit(f"{path}:{number}: unknown key '{key}'")
            setattr(rows[-1], key, value.split() if key == "flags" else value.strip())
    for row in rows:
        if not (row.expect and row.bad and row.good):
            sys.exit(f"{path}:{row.line}: row '{row.name}' needs expect, bad and good")
    return rows


class Compiler:
    def __init__(self, command, includes, folder):
        self.name = "clang++" if "clang" in Path(command).name else "g++"
        no_caret = "-fno-caret-diagnostics" if self.name == "clang++" else "-fno-diagnostics-show-caret"
        self.base = [command, "-std=c++20", "-Wall", "-Wextra", "-Wno-unused", no_caret]
        self.base += [f"-I{i}" for i in includes]
        self.folder = Path(folder)
        header = self.folder / "prelude.hpp"
        header.write_text(PRELUDE)
        out = self.folder / ("prelude.hpp.pch" if self.name == "clang++" else "prelude.hpp.gch")
        done = subprocess.run(self.base + ["-x", "c++-header", str(header), "-o", str(out)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"the header itself does not compile:\n{done.stderr}")
        self.prelude = ["-include-pch", str(out)] if self.name == "clang++" else ["-include", str(header)]

    def compile(self, code, flags):
        handle, path = tempfile.mkstemp(suffix=".cpp", dir=self.folder)
        os.write(handle, ("using namespace tessera;\n" + code).encode())
        os.close(handle)
        done = subprocess.run(self.base + self.prelude + flags + ["-fsyntax-only", path], capture_output=True, text=True, timeout=120)
        os.unlink(path)
        return done.returncode, done.stderr


def first_error(text):
    """The first error with the notes that explain it, as one line in a list; empty if there is none."""
    found = []
    for line in text.splitlines():
        is_error = re.search(r"\b(error|fatal error):", line)
        if is_error and found:
            break
        if is_error or (found and " note: " in line):
            found.append(line)
    return [" ".join(found)] if found else []


def check_bad(compiler, row):
    """Returns None, or what is wrong with the program that must not compile."""
    status, text = compiler.compile(row.bad, row.flags)
    if status == 0:
        return "the bad program compiles"
    errors = first_error(text)
    if not errors or row.expect not in errors[0]:
        return "the first error is\n      " + (errors[0] if errors else text[:500]) + f"\n    expected it to contain\n      {row.expect}"
    internals = [f for f in FORBIDDEN if f in errors[0]]
    if internals:
        return f"the first error speaks of internals ({internals[0]}): {errors[0]}"
    return None


def check_good(compiler, rows):
    """For rows with the same flags: a list of None, or what is wrong with the program that must compile."""
    included, programs = [], []  # headers stand before the namespaces
    for i, row in enumerate(rows):
        lines = row.good.splitlines()
        included += [line for line in lines if line.startswith("#include") and line not in included]
        programs.append("\n".join([f"namespace row_{i} {{", *(line for line in lines if not line.startswith("#include")), "}"]))
    together = "\n".join(included + programs) + "\n"
    status, _ = compiler.compile(together, rows[0].flags)
    if status == 0:
        return [None] * len(rows)
    problems = []
    for row in rows:
        status, text = compiler.compile(row.good, row.flags)
        lines = "\n".join("      " + l for l in text.splitlines()[:12])
        problems.append("the accept twin does not compile:\n" + lines if status else None)
    return problems


def batches(rows, count):
    """The rows in lists of rows with the same flags, about `count` lists."""
    of_flags = {}
    for row in rows:
        of_flags.setdefault(tuple(row.flags), []).append(row)
    size = -(-len(rows) // count)
    return [same[i:i + size] for same in of_flags.values() for i in range(0, len(same), size)]


def has_turn(row, turn):
    """Whether the bad program of the row is compiled today."""
    number, of = (int(part) for part in turn.split("/"))
    if row.only or os.environ.get("TESSERA_TEST_ROUNDS"):
        return True
    return (zlib.crc32(row.name.encode()) + datetime.date.today().toordinal()) % of == number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    parser.add_argument("--turn", default="0/1")
    parser.add_argument("rows", nargs="+")
    args = parser.parse_args()
    rows = [r for f in args.rows for r in parse(f) if args.only in r.name]
    names = [r.name for r in rows]
    repeated = {n for n in names if names.count(n) > 1}
    if repeated:
        sys.exit(f"rows with one name: {sorted(repeated)}")
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(args.compiler, args.include, folder)
        rows = [r for r in rows if not r.only or r.only == compiler.name]
        with ThreadPoolExecutor(args.jobs) as pool:
            good = [(batch, pool.submit(check_good, compiler, batch)) for batch in batches(rows, args.jobs)]
            today = [r for r in rows if has_turn(r, args.turn)]
            bad = list(pool.map(lambda r: check_bad(compiler, r), today))
            found = [(row, problem) for batch, done in good for row, problem in zip(batch, done.result())]
    failed = set()
    for row, problem in [*zip(today, bad), *found]:
        if problem:
            failed.add(row.name)
            print(f"{row.file}:{row.line}: {row.name}\n    {problem}")
    print(f"{len(rows)} rows, {len(today)} of them with the program that must not compile")
    print(f"{len(today) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed or not rows else 0)


if __name__ == "__main__":
    main()
