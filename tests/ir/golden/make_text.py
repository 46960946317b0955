#!/usr/bin/env python3
"""Disassembles the newest bytecode of every case in golden.txt with NVIDIA's tileirdisasm: the reference of print_test.cpp.

    make_text.py [--disassembler PATH] [--check FILE] [--output FILE]

The disassembler is taken from the command line, from TESSERA_TILEIRAS (beside the assembler), or from the Python package
nvidia-cuda-tileiras. Exit codes: 0 written or equal, 1 --check found a difference, 77 there is no disassembler.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def find_disassembler(given):
    candidates = [pathlib.Path(given)] if given else []
    if os.environ.get("TESSERA_TILEIRAS"):
        candidates.append(pathlib.Path(os.environ["TESSERA_TILEIRAS"]).with_name("tileirdisasm"))
    for root in {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}:
        candidates += sorted(pathlib.Path(root).glob("nvidia/*/bin/tileirdisasm"))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    print("tileirdisasm was not found; `tessera get-tileiras` brings it", file=sys.stderr)
    sys.exit(77)


def newest(path):
    """Case -> hex of its newest bytecode."""
    files = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        case, version, data = line.split()
        if data.startswith("="):
            data = files[case, data[1:]]
            data = data[:18] + f"{int(version.split('.')[1]):02x}" + data[20:]
        if data != "unsupported":
            files[case, version] = data
    return {case: data for (case, _), data in files.items()}


def text(disassembler):
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_HOME"}
    out = ["# Written by make_text.py from golden.txt with NVIDIA's tileirdisasm; not to be edited."]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "case.tilebc"
        for case, data in newest(HERE / "golden.txt").items():
            file.write_bytes(bytes.fromhex(data))
            run = subprocess.run([disassembler, file], env=environment, capture_output=True, text=True, timeout=60)
            if run.returncode != 0:
                sys.exit(f"{case}: tileirdisasm rejects the bytecode:\n{run.stderr}")
            out += [f"=== {case}", run.stdout.rstrip("\n")]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--disassembler", metavar="PATH")
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE", help="compare instead of writing")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", default=HERE / "text.txt")
    options = parser.parse_args()
    result = text(find_disassembler(options.disassembler))
    if options.check:
        if options.check.read_text() == result:
            return 0
        print(f"{options.check} differs from what tileirdisasm prints: run make_text.py", file=sys.stderr)
        return 1
    options.output.write_text(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
