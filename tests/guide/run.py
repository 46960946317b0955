#!/usr/bin/env python3
"""Compares what a page of the guide shows with its program: what each block prints or throws, what the compiler says of those that must
not compile, and what `tessera explain` says.

usage: run.py PAGE.md PROGRAM [--update] [--compiler CXX --include DIR] [--tessera COMMAND]

PROGRAM is what extract.py made, compiled. With --compiler only the compile errors are looked at, with --tessera only the commands.
--update writes into the page what is found. Output is the CPU's: TESSERA_DEVICE is set.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import extract
import pages

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("page", type=Path)
options.add_argument("program", type=Path)
options.add_argument("--update", action="store_true")
options.add_argument("--compiler")
options.add_argument("--include")
options.add_argument("--tessera", type=Path)
options = options.parse_args()


ASSEMBLER = "assembler 13.5,"  # whose registers the pages show


def lines_of(text):
    return [line.rstrip() for line in text.rstrip("\n").split("\n")]


def outputs():
    """The number of each block and what it printed."""
    knobs = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([options.program.resolve()], cwd=folder, capture_output=True, text=True, timeout=300,
                             env=knobs | {"TESSERA_DEVICE": "cpu", "GUIDE_TEST": "1"})
    if run.returncode != 0:
        sys.exit(f"{options.page.name}: the program ended with {run.returncode}\n{run.stdout}{run.stderr}")
    parts = re.split(r"\x1e(\d+)\n", run.stdout)
    return {int(n): text for n, text in zip(parts[1::2], parts[2::2])}


def message(text):
    """Of a compile error that the page shows, what every compiler says."""
    return re.sub(r"^error: (static assertion failed: )?", "", " ".join(text.split()))


def compile_problem(block, number):
    source = extract.source(options.page, until=number)
    run = subprocess.run([options.compiler, "-std=c++20", "-fsyntax-only", "-w", "-I", options.include, "-x", "c++", "-"],
                         input=source, capture_output=True, text=True, timeout=300)
    if run.returncode == 0:
        return f"{block.place}: this must not compile, and does"
    if message(block.says) not in " ".join(run.stderr.split()):
        return f"{block.place}: shown: {message(block.says)}\nfound: {run.stderr}"
    return None


def command_problem(block):
    """What the page shows are kernels, separated by blank lines: of each, the lines that are shown occur in this order in what the command
    says of some kernel, in the order of the page or another; `...` stands for any number of lines. Registers are those of one release of the
    assembler: with another one or none they are not compared."""
    words = shlex.split(block.text.split("\n")[0].removeprefix("$ "))
    words = [str(options.program.resolve()) if w.startswith("./") else w for w in words[1:]]
    run = subprocess.run([str(options.tessera), *words], capture_output=True, text=True, timeout=300,
                         env={k: v for k, v in os.environ.items() if not k.startswith("TESSERA_") or k == "TESSERA_TILEIRAS"})
    if run.returncode != 0:
        return f"{block.place}: {block.text} ended with {run.returncode}\n{run.stdout}{run.stderr}"
    kernels = [lines_of(part) for part in re.split(r"\n\n+", run.stdout)]
    for part in re.split(r"\n\n+", block.says):
        shown = [line for line in lines_of(part) if line != "..." and not (" registers" in line and ASSEMBLER not in run.stdout)]
        if not any(all(line in found for found in [iter(kernel)] for line in shown) for kernel in kernels):
            return f"{block.place}: the command says this of no kernel:\n" + "\n".join(shown) + f"\nit says:\n{run.stdout}"
    return None


try:
    blocks = list(enumerate(pages.blocks(options.page)))
except ValueError as error:
    sys.exit(str(error))
problems, changes = [], []
if options.compiler:
    problems += [p for n, b in blocks if b.compile_error for p in [compile_problem(b, n)] if p]
elif options.tessera:
    problems += [p for _, b in blocks if b.kind == "console" and b.label for p in [command_problem(b)] if p]
else:
    printed = outputs()
    for number, block in blocks:
        if block.kind != "cpp" or block.hidden or block.compile_error:
            continue
        shown, found = lines_of(block.says or ""), lines_of(printed.get(number, ""))
        if block.label == "Error" and found[-1] == "no error":
            problems.append(f"{block.place}: the block throws nothing, and the page shows an error")
            continue
        if shown != found:
            changes.append((block, found))
            problems.append(f"{block.place}: shown:\n" + "\n".join(shown) + "\nfound:\n" + "\n".join(found))
if options.update:
    lines = options.page.read_text(encoding="utf-8").split("\n")
    for block, found in reversed([c for c in changes if c[0].says_at]):
        lines[block.says_at[0]:block.says_at[1]] = found
    options.page.write_text("\n".join(lines), encoding="utf-8")
    problems = [p for p in problems if not any(c[0].says_at and p.startswith(c[0].place + ":") for c in changes)]
if problems:
    sys.exit("\n".join(problems) + "\nWhat the page shows is what its program prints: tests/guide/run.py --update writes it.")
