"""The IR in docs/internals/one-kernel.md is what `tessera explain --after all` prints for examples/03_saxpy.cpp.

    one_kernel.py TESSERA PROGRAM            compares
    one_kernel.py TESSERA PROGRAM --write    writes the listings into the page

A listing is the code block after a mark `<!-- after: PASS -->`; PASS `recording` is the input of the passes. After
`<!-- changes: PASS -->` stand only the lines that the pass changes, and after `<!-- passes -->` a table of all passes. A pass that
changes the kernel has a listing or its changes on the page.
"""
import difflib
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(ROOT, "docs", "internals", "one-kernel.md")
BLOCK = re.compile(r"(<!-- (after|changes): (\w+) -->\n\n```(?:text|diff)\n)(.*?)(```\n)", re.S)
TABLE = re.compile(r"(<!-- passes -->\n\n)(.*?)(\n<!-- end -->)", re.S)
COLUMNS = 100


def wrapped(line):
    """A long line is continued with deeper indentation."""
    indent = len(line) - len(line.lstrip()) + 6
    out = []
    while len(line) > COLUMNS:
        cut = line.rfind(" ", indent, COLUMNS)
        if cut < 0:
            break
        out.append(line[:cut])
        line = " " * indent + line[cut + 1:]
    return out + [line.rstrip()]


def stages(tessera, program):
    """Pass -> text of the kernel after it, in the order of the passes."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TESSERA_")}
    environment["TESSERA_CACHE"] = "0"
    run = subprocess.run([tessera, "explain", "--after", "all", "--kernel", "saxpy", "--gpu", "sm_90", "--", program, "--n", "4096"],
                         capture_output=True, text=True, env=environment, check=False)
    found = {}
    for part in re.split(r"^// ", run.stdout, flags=re.M)[1:]:
        head, text = part.split("\n", 1)
        name = re.search(r"\.\d+-(\w+)$", head)
        if name and name.group(1) not in found:
            found[name.group(1)] = "".join(l + "\n" for line in text.rstrip().split("\n") for l in wrapped(line))
    if not found:
        sys.exit(f"no stages in the output of tessera explain:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return found


def changes_of(found):
    """Pass -> the lines that it removes and adds, as `- line` and `+ line`."""
    before, changes = None, {}
    for name, text in found.items():
        lines = text.split("\n")
        changes[name] = [] if before is None else [line for line in difflib.ndiff(before, lines) if line[0] in "+-"]
        before = lines
    return changes


def table(changes):
    rows = ["| pass | lines removed | lines added |", "|---|---|---|"]
    unchanged = []
    for name, lines in [*changes.items(), ("", ["-"])]:
        if not lines:
            unchanged.append(f"`{name}`")
            continue
        if unchanged:
            rows.append(f"| {', '.join(unchanged)} | 0 | 0 |")
            unchanged = []
        if name:
            removed = sum(line[0] == "-" for line in lines)
            rows.append(f"| `{name}` | {removed} | {len(lines) - removed} |")
    return "\n".join(rows) + "\n"


def main():
    found = stages(*sys.argv[1:3])
    changes = changes_of(found)
    found["recording"] = next(iter(found.values()))  # the first pass for GPUs leaves this kernel as it was recorded
    page = open(PAGE, encoding="utf-8").read()
    names = [m.group(3) for m in BLOCK.finditer(page)]
    missing = [n for n in names if n not in found]
    if not names or missing or not TABLE.search(page):
        sys.exit(f"{PAGE}: no listings or no table, or passes that did not run: {missing}")
    unshown = [n for n, lines in changes.items() if lines and n not in names]
    if unshown:
        sys.exit(f"{PAGE}: passes that change the kernel and are not shown: {unshown}")

    def text_of(kind, name):
        return found[name] if kind == "after" else "".join(f"{line}\n" for line in changes[name] if line[1:].strip())
    made = BLOCK.sub(lambda m: m.group(1) + text_of(m.group(2), m.group(3)) + m.group(5), page)
    made = TABLE.sub(lambda m: m.group(1) + table(changes) + m.group(3), made)
    if "--write" in sys.argv:
        open(PAGE, "w", encoding="utf-8").write(made)
    elif made != page:
        sys.exit("docs/internals/one-kernel.md differs from what the compiler makes: run tests/tools/one_kernel.py --write")
    print(f"{len(names)} listings")


main()
