#!/usr/bin/env python3
"""Says which systems programs run on: reads the symbol versions that ELF files need of shared libraries.

    needs.py [--limit VERSION]... [--glibc] FILE...

For each name of versions (GLIBC, GLIBCXX, CXXABI, ...) it prints the newest that any FILE needs, and the symbols that ask for
it. VERSION is such as GLIBC_2.34: a file that needs a newer one of that name fails the run, with its symbols. --glibc prints
the newest version of GLIBC alone, as 2.34.
"""
import re
import struct
import sys

DYNSYM, VERNEED, VERSYM = 11, 0x6FFFFFFE, 0x6FFFFFFF


class NotElf(Exception):
    pass


def text_at(data, at):
    return data[at:data.index(b"\0", at)].decode()


def sections(data):
    """[(type, offset, size, linked section)] of an ELF file of 64 bits, little-endian."""
    if data[:4] != b"\x7fELF" or data[4:6] != b"\x02\x01":
        raise NotElf("no ELF file of 64 bits, little-endian")
    start, = struct.unpack_from("<Q", data, 40)
    each, count = struct.unpack_from("<HH", data, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * each) for i in range(count)]
    return [(r[1], r[4], r[5], r[6]) for r in rows]


def needs(data):
    """Version ("GLIBC_2.34") -> the symbols that ask for it."""
    table = sections(data)
    by_type = {s[0]: s for s in table}
    if VERNEED not in by_type:
        return {}
    _, at, _, linked = by_type[VERNEED]
    strings = table[linked][1]
    names = {}  # number of a version -> its name
    while True:
        _, count, _, aux, following = struct.unpack_from("<HHIII", data, at)
        one = at + aux
        for _ in range(count):
            _, _, number, name, step = struct.unpack_from("<IHHII", data, one)
            names[number & 0x7FFF] = text_at(data, strings + name)
            one += step
        if following == 0:
            break
        at += following
    found = {name: [] for name in names.values()}
    _, symbols, size, linked = by_type[DYNSYM]
    versions, strings = by_type[VERSYM][1], table[linked][1]
    for i in range(size // 24):
        number, = struct.unpack_from("<H", data, versions + 2 * i)
        if number & 0x7FFF in names:
            name, = struct.unpack_from("<I", data, symbols + 24 * i)
            found[names[number & 0x7FFF]].append(text_at(data, strings + name))
    return found


def parts(version):
    """("GLIBC", (2, 34)) of "GLIBC_2.34"; None for names without a number, such as GLIBC_PRIVATE."""
    match = re.fullmatch(r"([A-Z]+)_(\d+(?:\.\d+)*)", version)
    return match and (match[1], tuple(int(n) for n in match[2].split(".")))


def main():
    words, limits, files, glibc = sys.argv[1:], {}, [], False
    while words:
        word = words.pop(0)
        if word == "--limit" and words and parts(words[0]):
            name, number = parts(words.pop(0))
            limits[name] = number
        elif word == "--glibc":
            glibc = True
        elif word.startswith("-"):
            sys.exit(__doc__)
        else:
            files.append(word)
    if not files:
        sys.exit(__doc__)
    newest, failed = {}, []
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        try:
            found = needs(data)
        except NotElf as problem:
            sys.exit(f"{path}: {problem}")
        for version, symbols in found.items():
            if not parts(version):
                continue
            name, number = parts(version)
            if number > newest.get(name, ((0,),))[0]:
                newest[name] = number, {}
            if number == newest[name][0]:
                newest[name][1].setdefault(path, symbols)
            if name in limits and number > limits[name]:
                failed.append(f"{path} needs {version}, more than {name}_{'.'.join(map(str, limits[name]))}: {', '.join(sorted(symbols))}")
    if glibc:
        print(".".join(map(str, newest["GLIBC"][0])))
    else:
        for name, (number, users) in sorted(newest.items()):
            print(f"{name}_{'.'.join(map(str, number))}")
            for path, symbols in users.items():
                print(f"    {path}: {', '.join(sorted(symbols)[:6])}{', ...' if len(symbols) > 6 else ''}")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
