#!/usr/bin/env python3
"""Checks cmake/compile_with_ccache.sh: a clone in another folder finds the objects that were made with a precompiled header,
and does not find them once a file of that header has changed.

    compile_cache.py COMPILER...

Compilers and ccache that are not installed are left out; exit status 77 if nothing remains.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "compile_with_ccache.sh"


class Clone:
    """A source tree with a header, a precompiled header of it and a source, compiled as CMake compiles them with Ninja."""

    def __init__(self, root, compiler, cache):
        self.root, self.compiler = root, compiler
        self.clang = "clang" in compiler
        own = {k: v for k, v in os.environ.items() if not k.startswith("CCACHE_")}  # the caller's settings, CCACHE_DISABLE too, do not matter here
        self.environment = own | {"CCACHE_DIR": str(cache), "CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1"}
        (root / "include").mkdir(parents=True)
        (root / "build").mkdir()
        (root / "include" / "part.hpp").write_text("#pragma once\ninline int part() { return 1; }\n")
        (root / "source.cpp").write_text('#include "part.hpp"\nint whole() { return part(); }\n')
        self.header = root / "build" / "cmake_pch.hxx"
        self.header.write_text("#include <part.hpp>\n")

    def run(self, *words):
        subprocess.run(["bash", SCRIPT, "ccache", self.root, self.compiler, f"-I{self.root}/include", "-std=c++20", *words], cwd=self.root / "build",
                       env=self.environment, check=True)

    def compile(self):
        """Whether the object came from the cache."""
        compiled = self.header.with_suffix(".hxx.pch" if self.clang else ".hxx.gch")
        make = ["-Xclang", "-emit-pch", "-Xclang", "-fno-pch-timestamp"] if self.clang else ["-fpch-preprocess"]
        use = ["-Xclang", "-include-pch", "-Xclang", compiled, "-Xclang", "-fno-pch-timestamp", "-Xclang", "-include", "-Xclang", self.header]
        if not self.clang:
            use = ["-Winvalid-pch", "-fpch-preprocess", "-include", self.header]
        self.run(*make, "-x", "c++-header", "-MD", "-MT", "pch", "-MF", "pch.d", "-o", compiled.name, "-c", self.header)
        before = self.hits()
        self.run(*use, "-MD", "-MT", "source.o", "-MF", "source.o.d", "-o", "source.o", "-c", self.root / "source.cpp")
        return self.hits() > before

    def hits(self):
        text = subprocess.run(["ccache", "--print-stats"], env=self.environment, check=True, capture_output=True, text=True).stdout
        return sum(int(n) for n in re.findall(r"^(?:direct|preprocessed)_cache_hit\t(\d+)", text, re.MULTILINE))


def check(compiler, folder):
    first, second = (Clone(folder / name, compiler, folder / "cache") for name in ("first", "second"))
    assert not first.compile(), "the first object cannot be in the cache"
    assert second.compile(), "a clone in another folder does not find the object that was made with the same header"
    (second.root / "include" / "part.hpp").write_text("#pragma once\ninline int part() { return 2; }\n")
    assert not second.compile(), "the header has changed, and an object made with the old one was taken"
    assert first.compile(), "the first clone no longer finds its object"


def main():
    compilers = [c for c in sys.argv[1:] if shutil.which(c)]
    if not compilers or not shutil.which("ccache"):
        return 77
    for compiler in compilers:
        with tempfile.TemporaryDirectory() as folder:
            check(compiler, pathlib.Path(folder).resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
