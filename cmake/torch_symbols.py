#!/usr/bin/env python3
"""Fails if a library of operators needs a symbol of PyTorch that is not part of its stable ABI.

    torch_symbols.py LIBRARY...

Allowed are the C functions aoti_torch_* and torch_*, and what the C and C++ runtimes export, which have versions
(name@GLIBC_2.34). C++ symbols of PyTorch have none.
"""

import re
import subprocess
import sys

STABLE = re.compile(r"(aoti_torch|torch)_[a-z0-9_]+")
RUNTIME = re.compile(r"\S+@@?(GLIBC|GLIBCXX|CXXABI|GCC)_[A-Z0-9_.]*")
WEAK = {"__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize"}


def foreign_symbols(library):
    """The undefined symbols that are not allowed, demangled."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True)
    if listed.returncode != 0:
        raise SystemExit(f"nm cannot read {library}: {listed.stderr.strip()}")
    names = [line.split()[-1] for line in listed.stdout.splitlines()]
    if not any(STABLE.fullmatch(name) for name in names):
        raise SystemExit(f"{library} uses nothing of PyTorch: is it a library of operators?")
    found = [n for n in names if not (STABLE.fullmatch(n) or RUNTIME.fullmatch(n) or n in WEAK)]
    return subprocess.run(["c++filt"], input="\n".join(found), capture_output=True, text=True).stdout.split("\n") if found else []


def main(libraries):
    failed = False
    for library in libraries:
        for symbol in foreign_symbols(library):
            failed = True
            print(f"{library}: needs {symbol}, which is not part of PyTorch's stable ABI", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
