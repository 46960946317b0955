#!/usr/bin/env python3
"""Writes mortar/src/text/unicode_*.inc, the Unicode data of Mortar's tokenizer.

    python3 -m venv VENV && VENV/bin/pip install unicodedata2==16.0.0
    VENV/bin/python scripts/mortar/unicode_tables.py [--check]

The versions are those of Hugging Face `tokenizers` 0.23.3, whose results the tokenizer must equal:
- the classes \\p{L}, \\p{N}, \\p{M} and \\s: Unicode 16.0 (its regular expressions are Oniguruma 6.9.10);
- normalization (NFC): Unicode 9.0 (its crate unicode-normalization-alignments 0.1.12). Normalization is stable, so the
  data of 9.0 are those of 16.0 for the code points that 9.0 assigns; perl (5.24 or newer) knows which these are.
"""
import argparse
import pathlib
import subprocess
import sys

import unicodedata2 as unicode

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "mortar" / "src" / "text"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
WHITE_SPACE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def assigned_in_9():
    program = r'for (0..0x10FFFF) { next if $_ >= 0xD800 && $_ < 0xE000; print "$_\n" if chr($_) =~ /\p{Present_In: 9.0}/ }'
    return {int(line) for line in subprocess.check_output(["perl", "-e", program], text=True).split()}


def class_of(c):
    if c in WHITE_SPACE:
        return "S"
    category = unicode.category(chr(c))[0]
    return category if category in "LNM" else "O"


def ranges(values):
    """(first code point, value) wherever the value changes; surrogates count as what stands before them."""
    out, before = [], None
    for c in CODE_POINTS:
        value = values(c)
        if value != before:
            out.append((c, value))
            before = value
    return out


def lines(items, width=118):
    out, line = [], ""
    for item in items:
        if len(line) + len(item) + 1 > width:
            out.append(line)
            line = ""
        line += (" " if line else "") + item
    return out + [line]


def classes_file():
    rows = [f"{{{c:#x}, {k}}}," for c, k in ranges(class_of)]
    return ["// The first code point of every run of code points of one class: letter, mark, number, white space, other.",
            f"// Unicode {unicode.unidata_version}; made by scripts/mortar/unicode_tables.py.", *lines(rows)]


def decompositions(present, parts):
    """The canonical decompositions into so many parts, of code points that are no Hangul syllables."""
    for c in sorted(present):
        decomposition = unicode.decomposition(chr(c))
        if decomposition and not decomposition.startswith("<") and len(decomposition.split()) == parts:
            yield c, [int(p, 16) for p in decomposition.split()]


def pairs_file(present):
    rows = [f"{{{c:#x}, {a:#x}, {b:#x}, {int(unicode.normalize('NFC', chr(a) + chr(b)) == chr(c))}}},"
            for c, (a, b) in decompositions(present, 2)]
    return ["// The canonical decompositions in two: {code point, first, second, whether NFC puts them together again}.",
            "// Unicode 9.0; made by scripts/mortar/unicode_tables.py.", *lines(rows)]


def singletons_file(present):
    rows = [f"{{{c:#x}, {a:#x}}}," for c, (a,) in decompositions(present, 1)]
    return ["// The code points that are canonically the same as another one: {code point, that one}.",
            "// Unicode 9.0; made by scripts/mortar/unicode_tables.py.", *lines(rows)]


def combining_file(present):
    rows = [f"{{{c:#x}, {k}}}," for c, k in ranges(lambda c: unicode.combining(chr(c)) if c in present else 0)]
    return ["// The first code point of every run of code points of one canonical combining class.",
            "// Unicode 9.0; made by scripts/mortar/unicode_tables.py.", *lines(rows)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compares the files with what would be written")
    arguments = parser.parse_args()
    if unicode.unidata_version != "16.0.0":
        sys.exit(f"expected unicodedata2 16.0.0, found {unicode.unidata_version}")
    present = assigned_in_9()
    files = {"unicode_classes.inc": classes_file(), "unicode_pairs.inc": pairs_file(present),
             "unicode_singletons.inc": singletons_file(present), "unicode_combining.inc": combining_file(present)}
    differ = False
    for name, content in files.items():
        text = "\n".join(content) + "\n"
        if not arguments.check:
            (FOLDER / name).write_text(text)
        elif (FOLDER / name).read_text() != text:
            print(f"{name} is not what the script writes")
            differ = True
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
