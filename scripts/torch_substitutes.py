#!/usr/bin/env python3
"""Substitutes for NVIDIA's libraries, for a PyTorch of PyPI whose tensors stay on the CPU.

    torch_substitutes.py FOLDER      the folder of the package, site-packages/torch

PyPI has PyTorch for x86-64 only as it is built for GPUs. It cannot be loaded without NVIDIA's libraries (2 GB to fetch), of
which it calls nothing for tensors of the CPU. The libraries that this makes, some KB each, define the functions that PyTorch
names, with the versions of symbols that it expects. Each returns cudaErrorNoDevice, so that PyTorch finds no GPU. Needs gcc,
nm and readelf.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

NVIDIA = re.compile(r"lib(cu|nccl|nv)")
FUNCTION = re.compile(r"cu|nccl|nv")
NO_DEVICE = 100  # cudaErrorNoDevice of cuda_runtime_api.h


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wanted(folder):
    """For each library that is not there: its versions of symbols, and the functions of each. Those without a version have the key ''."""
    versions, functions, needed = collections.defaultdict(set), collections.defaultdict(set), set()
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".so"):
            continue
        path, library = os.path.join(folder, name), ""
        for line in output("readelf", "-d", "-V", "-W", path).splitlines():
            if found := re.search(r"\(NEEDED\).*\[(.*)\]", line):
                needed.add(found[1])
            elif found := re.search(r"File: (\S+)", line):
                library = found[1]
            elif found := re.search(r"Name: (\S+)\s+Flags", line):
                versions[library].add(found[1])
        for line in output("nm", "-D", "--undefined-only", path).splitlines():
            function, _, version = line.split()[-1].partition("@")
            functions[version].add(function)
    plain = {f for f in functions[""] if FUNCTION.match(f)}
    libraries = [n for n in sorted(needed) if NVIDIA.match(n) and not os.path.exists(os.path.join(folder, n))]
    return {n: {v: functions[v] for v in versions[n]} or {"": plain} for n in libraries}


def make(path, versions, work):
    """A library whose functions return NO_DEVICE."""
    source, script = os.path.join(work, "functions.S"), os.path.join(work, "versions")
    with open(source, "w") as file:
        for function in sorted(set().union(*versions.values())):
            file.write(f".globl {function}\n.type {function}, @function\n{function}:\n")
        file.write(f"mov ${NO_DEVICE}, %eax\nret\n" + '.section .note.GNU-stack, "", @progbits\n')
    command = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{os.path.basename(path)}", "-o", path, source]
    if "" not in versions:
        with open(script, "w") as file:
            for version, functions in versions.items():
                file.write(f"{version} {{ {''.join(f'{f}; ' for f in sorted(functions))}}};\n")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)


def main():
    folder = os.path.join(sys.argv[1], "lib")
    with tempfile.TemporaryDirectory() as work:
        for name, versions in wanted(folder).items():
            make(os.path.join(folder, name), versions, work)


main()
