#!/usr/bin/env python3
"""The machine code of a compiled kernel has the user's lines, which profilers show beside instructions.

    lines.py BUNDLE SOURCE

Every cubin in BUNDLE has a line table (.debug_line, as DWARF 5 section 6.2 has it, read by binutils' readelf). In it the
statement of the kernel in SOURCE, the line with y.store, must stand for instructions, and every instruction must stand
for a line of SOURCE that exists.
"""
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

if not (READELF := shutil.which("readelf")):
    print("readelf was not found: apt-get install binutils")
    sys.exit(0)
bundle, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
if not bundle.exists():
    print("no bundle: is the assembler here?")
    sys.exit(0)


def cubins(data):
    """The ELF images in it: each reaches to the end of its section headers, and may hold others."""
    found, at = [], data.find(b"\x7fELF")
    while at >= 0:
        (headers,) = struct.unpack_from("<Q", data, at + 40)
        size, count = struct.unpack_from("<HH", data, at + 58)
        end = at + headers + size * count
        found.append(data[at:end])
        at = data.find(b"\x7fELF", end)
    return found


def line_table(cubin):
    """[(file, line)] of each instruction at which a statement begins."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([READELF, "--debug-dump=decodedline", file.name], capture_output=True, text=True, timeout=60)
    return [(m[1], int(m[2])) for m in re.finditer(r"^(\S+) +(\d+) +(?:0x[0-9a-f]+|0) ", done.stdout, re.M)]


text = source.read_text().splitlines()
kernel = [number for number, line in enumerate(text, 1) if "y.store" in line]
assert len(kernel) == 1, f"{source} has {len(kernel)} kernels"
images = cubins(bundle.read_bytes())
assert images, f"no cubin in {bundle}"
for image in images:
    table = line_table(image)
    assert table, "a cubin without a line table"
    own = [line for file, line in table if file == source.name]
    assert kernel[0] in own, f"line {kernel[0]} of {source.name} is not in the table: {table}"
    assert len(own) == len(table), f"lines of other files: {table}"
    assert all(1 <= line <= len(text) for line in own), f"lines that do not exist: {own}"
print(f"{len(images)} cubins name line {kernel[0]} of {source.name}")
