#!/usr/bin/env python3
"""The programs and outputs of docs/quickstart.md and docs/cookbook.md, held against the real ones.

    pages.py extract PAGE FOLDER                       writes the page's programs, FOLDER/1/app.cpp and so on
    pages.py check PAGE --programs FOLDER --examples FOLDER --tessera PROGRAM [--update]
    pages.py --selftest

A program is a ```cpp block with a main(); the other ```cpp blocks are parts of examples/*.cpp. An output is a ```text block after

    a ```cpp block and a line "Output:" or "Error:"   what the program, or the example, prints
    a ```sh block of one command                      build/app is the program above it (of section N, if the text in front of the command
                                                      says "program of section N"), build/demo/examples/X an example, tessera the command

A line `...` of an output stands for any lines.
Times differ from run to run, and so do the last digits of errors: of an example's RESULT line the time is not compared, and
the error within a factor of ten. --update writes the real outputs into the page, where they have no `...`.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)


class Block:
    def __init__(self, match, text):
        self.kind, self.body, self.span = match[1], match[2], match.span(2)
        self.line = text[: match.start()].count("\n") + 1
        sections = re.findall(r"^## (\d+)\.", text[: match.start()], re.M)
        self.section = int(sections[-1]) if sections else 0
        before = text[: match.start()].rstrip().rsplit("\n\n", 1)[-1]
        named = re.search(r"program of section (\d+)", " ".join(before.split()))
        self.named = int(named[1]) if named else None


def blocks_of(text):
    return [Block(m, text) for m in FENCE.finditer(text)]


def programs_of(blocks):
    return [b for b in blocks if b.kind == "cpp" and "int main" in b.body]


def extract(page, folder):
    for number, block in enumerate(programs_of(blocks_of(page.read_text(encoding="utf-8"))), 1):
        file = folder / str(number) / "app.cpp"
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != block.body:
            file.write_text(block.body)
        print(number)


def matches(expected, found):
    """Whether the lines agree; `...` is any number of lines."""
    if not expected:
        return not found
    if expected[0].strip() == "...":
        return any(matches(expected[1:], found[i:]) for i in range(len(found) + 1))
    return bool(found) and same(expected[0], found[0]) and matches(expected[1:], found[1:])


def same(expected, found):
    if expected.startswith("RESULT|") and found.startswith("RESULT|"):
        e, f = expected.split("|"), found.split("|")
        if len(e) != 5 or len(f) != 5 or e[:3] != f[:3]:
            return False
        a, b = float(e[3]), float(f[3])
        return a == b or (min(a, b) > 0 and max(a, b) < 10 * min(a, b))
    return expected.rstrip() == found.rstrip()


def outputs_of(text):
    """(command, its output's block, the number of the program that build/app is)"""
    blocks = blocks_of(text)
    programs = programs_of(blocks)
    for before, block in zip(blocks, blocks[1:]):
        between = text[before.span[1]: block.span[0]]
        own = [i for i, p in enumerate(programs, 1) if p.line < block.line and before.named in (None, p.section)]
        if block.kind != "text":
            continue
        if before.kind == "sh" and len(before.body.strip().split("\n")) == 1:
            yield before.body, block, own[-1] if own else 0
        elif before.kind == "cpp" and re.fullmatch(r"```\s*(?:Output|Error):\s*```text\s*", between):
            yield ("build/app" if before in programs else f"build/demo/examples/{example_of(before.body)}"), block, own[-1] if own else 0


def example_of(part):
    found = [p.stem for p in sorted((ROOT / "examples").glob("*.cpp")) if part in p.read_text(encoding="utf-8")]
    return found[0] if found else "none"


def run(command, program, options):
    """The lines that a command prints, as a user in the project's folder sees them; None if the assembler is missing."""
    words = command.strip().split()
    app = str(options.programs.resolve() / str(program) / "app") if options.programs else ""
    places = {"build/app": app, "tessera": str(options.tessera)}
    line = " ".join(f'"{places[w]}"' if w in places else
                    re.sub(r"^build/demo/examples/", f"{options.examples}/", w) if w.startswith("build/demo/") else w for w in words)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
    environment |= {"TESSERA_DEVICE": "cpu", "TESSERA_CPU_THREADS": "1"}
    if (cache := os.environ.get("TESSERA_CACHE_DIR")) is not None:
        environment["TESSERA_CACHE_DIR"] = cache
    done = subprocess.run(["bash", "-c", f"ulimit -c 0; exec env {line}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, timeout=300)
    text = re.sub(r"[^\s]*/(app\.cpp)", r"\1", done.stdout)
    return text.rstrip("\n").split("\n")


def check(page, options):
    text = page.read_text(encoding="utf-8")
    problems, changes, seen = [], [], 0
    sources = "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "examples").glob("*.cpp")))
    for block in blocks_of(text):
        if block.kind == "cpp" and "int main" not in block.body and block.body not in sources:
            problems.append(f"{page.name}:{block.line}: no example has this code")
    for command, output, program in outputs_of(text):
        seen += 1
        found = run(command, program, options)
        expected = output.body.rstrip("\n").split("\n")
        if not matches(expected, found):
            problems.append(f"{page.name}:{output.line}: the output of {command.strip()} is\n" + "\n".join("    " + line for line in found))
            if "..." not in expected:
                changes.append((output.span, "\n".join(found) + "\n"))
    if not seen:
        problems.append(f"{page.name}: no output to check")
    if options.update:
        for (start, end), new in sorted(changes, reverse=True):
            text = text[:start] + new + text[end:]
        page.write_text(text, encoding="utf-8")
    print("\n".join(problems) if problems else f"{page.name}: {seen} outputs are as shown")
    return 1 if problems else 0


def selftest():
    assert matches(["a", "...", "c"], ["a", "b", "b", "c"]) and matches(["..."], []) and not matches(["a", "...", "c"], ["a", "b"])
    assert not matches(["a"], ["a", "b"]) and not matches(["a", "b"], ["a"])
    assert same("RESULT|x|4|1.0e-07|9.1", "RESULT|x|4|2.0e-07|0.3") and not same("RESULT|x|4|1.0e-07|9.1", "RESULT|x|4|1.0e-05|9.1")
    assert not same("RESULT|x|4|0.0e+00|1", "RESULT|x|4|1.0e-09|1") and not same("RESULT|x|4|0.0e+00|1", "RESULT|x|5|0.0e+00|1")
    page = "## 1. A\n```cpp\nint main() {}\n```\n\nOutput:\n\n```text\n1\n```\n## 2. B\n```cpp\nint main() {}\n```\n" \
           "Of the program of\nsection 1:\n\n```sh\nX=1 build/app\n```\n```text\n2\n```\n"
    assert [(c.strip(), o.body, n) for c, o, n in outputs_of(page)] == [("build/app", "1\n", 1), ("X=1 build/app", "2\n", 1)]
    print("pages are read as written")
    return 0


def main():
    if sys.argv[1:] == ["--selftest"]:
        return selftest()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["extract", "check"])
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--examples", type=pathlib.Path)
    parser.add_argument("--tessera", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    if options.what == "extract":
        return extract(options.page, options.folder)
    return check(options.page, options)


if __name__ == "__main__":
    sys.exit(main())
