#!/usr/bin/env python3
"""What generality_bench consists of: its families, with the number of kernels of each.

    corpus.py PROGRAM             prints them
    corpus.py PROGRAM --check     fails if it is no corpus to learn from: see problems()
"""

import collections
import json
import subprocess
import sys

FAMILIES, KERNELS, SHAPES = 20, 260, 3  # at least; exactly
TILE = 16  # extents that all are multiples of it are regular
SPREAD = 20  # the work of a shape, at most by so much more or less than that of the first


def listed(program, *words):
    answer = subprocess.run([program, "--list", *words], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def work(case):
    return case["flops"] or case["bytes"]


def is_regular(case):
    return all(int(word.split("=")[1]) % TILE == 0 for word in case["arguments"].split())


def problems(cases, first):
    """What is wrong with the cases of all shapes, and with those that are listed without shapes."""
    by_name = collections.defaultdict(list)
    for case in cases:
        by_name[case["name"]].append(case)
    found = [f"{len(by_name)} kernels, expected {KERNELS} at least"] if len(by_name) < KERNELS else []
    families = {case["family"] for case in cases}
    if len(families) < FAMILIES:
        found.append(f"{len(families)} families, expected {FAMILIES} at least")
    if first != [shapes[0] for shapes in by_name.values()]:
        found.append("--list does not print the first shapes")
    for name, shapes in by_name.items():
        if [case["shape"] for case in shapes] != list(range(SHAPES)):
            found.append(f"{name}: shapes {[case['shape'] for case in shapes]}, expected {list(range(SHAPES))}")
        if len({case["arguments"] for case in shapes}) < len(shapes):
            found.append(f"{name}: two shapes are equal")
        for case in shapes[1:]:
            if is_regular(case):
                found.append(f"{name}: all extents of {case['arguments']} are multiples of {TILE}")
            if not 1 / SPREAD <= work(case) / work(shapes[0]) <= SPREAD:
                found.append(f"{name}: {case['arguments']} is {work(case) / work(shapes[0]):.3g} of the first's work")
    return found


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    cases, first = listed(sys.argv[1], "--shapes"), listed(sys.argv[1])
    if "--check" in sys.argv:
        found = problems(cases, first)
        print("\n".join(found) or f"{len(first)} kernels with {SHAPES} shapes each")
        return 1 if found else 0
    for family, count in collections.Counter(case["family"] for case in first).most_common():
        print(f"{count:4} {family}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
