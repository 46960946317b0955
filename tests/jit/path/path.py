"""The files that a launch goes through on its way to code, compared with the list in docs/jit.md.

    path.py <launch_path>            compare
    path.py <launch_path> --write    write the list

A file is entered where one of its functions is called from another file. The .cpp files of src/jit and src/host count, but
for SHA-256, which is arithmetic. What headers define belongs to the file that calls it, and so does what the compiler makes
for variables of threads, which it puts into whichever file it compiles.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PAGE = os.path.join(ROOT, "docs", "jit.md")
BEGIN, END = "<!-- path of a launch: tests/jit/path/path.py --write -->\n", "<!-- end of the path -->\n"
COUNTED = re.compile(r"src/(jit/(?!code/sha256)|host/).*\.cpp$")
GENERATED = {"__tls_init"}
MOST_FILES = 20
WAYS = (("known", "launched before"), ("warm", "cached on disk"), ("cold", "compiled"))


def calls(program, way, folder):
    env = dict(os.environ, TESSERA_PATH_FOLDER=folder)
    for name in ("TESSERA_BUNDLE", "TESSERA_DUMP", "TESSERA_TUNING", "TESSERA_RECORDS", "TESSERA_COLLECT"):
        env.pop(name, None)
    done = subprocess.run([program, way], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"launch_path {way}: {done.stderr}")
    return [(int(depth), offset) for depth, offset in (line.split() for line in done.stdout.splitlines())]


def files_of(program, offsets):
    offsets = sorted(set(offsets))
    done = subprocess.run(["addr2line", "-f", "-e", program], input="\n".join("0x" + o for o in offsets), capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    found = {}
    for offset, function, place in zip(offsets, lines[::2], lines[1::2]):
        match = re.search(r"((?:src|include)/[^:]+):\d+", os.path.normpath(place.split(" ")[0]))
        found[offset] = match.group(1) if match and function not in GENERATED else ""
    return found


def entries(trace, file_of):
    """[(file, times entered)] in the order of first entry."""
    stack, order, count = [], [], {}
    for depth, offset in trace:
        del stack[depth:]
        while len(stack) < depth:
            stack.append("")
        file = file_of[offset]
        above = next((f for f in reversed(stack) if f), "")
        if not COUNTED.match(file):
            file = ""  # it belongs to who calls it
        elif file != above:
            if file not in count:
                order.append(file)
            count[file] = count.get(file, 0) + 1
        stack.append(file)
    return [(file, count[file]) for file in order]


def table(program):
    with tempfile.TemporaryDirectory() as folder:
        traces = {}
        with tempfile.TemporaryDirectory() as other:
            traces["known"] = calls(program, "known", other)
        traces["cold"] = calls(program, "cold", folder)
        traces["warm"] = calls(program, "warm", folder)
    file_of = files_of(program, [o for trace in traces.values() for _, o in trace])
    columns = {way: entries(trace, file_of) for way, trace in traces.items()}
    order = []
    for way in ("cold", "warm", "known"):
        order += [file for file, _ in columns[way] if file not in order]
    counts = {way: dict(rows) for way, rows in columns.items()}
    lines = ["| file | " + " | ".join(title for _, title in WAYS) + " |", "|---|" + "---|" * len(WAYS)]
    lines += [f"| `{file[len('src/'):]}` | " + " | ".join(str(counts[way].get(file, "")) for way, _ in WAYS) + " |" for file in order]
    sums = [f"{len(counts[way])} files, {sum(counts[way].values())} entries" for way, _ in WAYS]
    for way, _ in WAYS:
        if len(counts[way]) > MOST_FILES:
            sys.exit(f"A launch ({way}) goes through {len(counts[way])} files, more than {MOST_FILES}: " + ", ".join(counts[way]))
    lines.append("| all | " + " | ".join(sums) + " |")
    return "\n".join(lines) + "\n"


def main():
    found = table(sys.argv[1])
    with open(PAGE, encoding="utf-8") as f:
        text = f.read()
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        sys.exit("docs/jit.md has no place for the list: " + BEGIN)
    begin += len(BEGIN)
    if "--write" in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(text[:begin] + "\n" + found + "\n" + text[end:])
        return
    if text[begin:end].strip() == found.strip():
        return
    print(found)
    sys.exit("A launch goes through other files than docs/jit.md lists. If that is meant: tests/jit/path/path.py <launch_path> --write")


main()
