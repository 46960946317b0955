#!/usr/bin/env python3
"""What rules that read the assembler's report would gain, by a corpus of measured launches (bench/generality/sweep.py).

    rules.py CORPUS...

A rule says which kernels it is for, which other choice is compiled, and when that is taken. The rules are those of
choose_hints and of the forms (docs/jit.md); bench/notes/learnt_hints.md discusses them. Times are of what was measured: a
kernel whose other choice was not is left out.
"""

import collections
import math
import sys

from corpus import REGISTERS, SHARING, THREADS, blocks_of, lines_of

SHARED, RESERVED, MOST_WARPS, MOST_BLOCKS = 228 * 1024, 1024, 64, 32  # of an SM of sm_90


class Code:
    """A choice of a kernel, with what an SM holds of it."""

    def __init__(self, choice):
        self.choice = choice
        self.warps = max(choice["threads"] // THREADS, 1)
        of_block = max(choice["registers"], 16) * max(self.warps, SHARING) * THREADS
        self.by_registers = min(REGISTERS // of_block, MOST_WARPS // self.warps, MOST_BLOCKS)
        self.by_shared = min(SHARED // (choice["shared"] + RESERVED), MOST_BLOCKS)
        self.resident = min(self.by_registers, self.by_shared) * self.warps


def limited(warps):
    """Hints for 64 registers a thread; null where the sweep has none."""
    return f"warps={warps} occupancy={blocks_of(warps, 64)}" if warps <= 8 else None


def product(warps, occupancy, latency):
    return f"warps={warps} occupancy={occupancy} latency={latency}"


def is_row(f, code):
    return f["products"] == 0 and code.choice["stack"] == 0


RULES = {
    "few warps by registers, blocks of four or more": (
        lambda f, form, code: is_row(f, code) and code.resident <= 16 and code.warps >= 4 and code.by_registers <= code.by_shared,
        lambda code: limited(code.warps),
        lambda other: other.choice["stack"] == 0,
    ),
    "few warps by registers, blocks of one or two": (
        lambda f, form, code: is_row(f, code) and code.resident <= 16 and code.warps < 4 and code.by_registers <= code.by_shared,
        lambda code: limited(4),
        lambda other: other.choice["stack"] == 0,
    ),
    "few warps by shared memory, no loads in loops": (
        lambda f, form, code: is_row(f, code) and code.resident <= 16 and f["loop_loads"] == 0 and code.by_shared < code.by_registers,
        lambda code: limited(code.warps),
        lambda other: other.choice["stack"] <= 160,
    ),
    "few warps by shared memory, loads in loops": (
        lambda f, form, code: is_row(f, code) and code.resident <= 16 and f["loop_loads"] > 0 and code.by_shared < code.by_registers,
        lambda code: limited(code.warps),
        lambda other: other.choice["stack"] <= 160,
    ),
    "products that spilled: two blocks, two steps": (
        lambda f, form, code: f["products"] > 0 and form not in ("", "three_blocks", "two_blocks"),
        lambda code: product(4, 2, 2),
        lambda other: other.choice["stack"] == 0,
    ),
    "products in twice the warps: three steps": (
        lambda f, form, code: f["products"] > 0 and form in ("warps", "warps_stores", "one_block_warps"),
        lambda code: product(8, 1, 3),
        lambda other: other.choice["stack"] == 0,
    ),
    "tiles of at most 64 x 64: three blocks": (
        lambda f, form, code: f["products"] > 0 and not f["chain"] and f["accumulators"] <= 4096
        and code.choice["occupancy"] == 2 and code.choice["warps"] == 4,
        lambda code: product(4, 3, 2),
        lambda other: other.choice["stack"] == 0,
    ),
    "products without tensor cores: eight warps": (
        lambda f, form, code: f["products"] > 0 and not f["tensor_cores"] and code.choice["warps"] == 4,
        lambda code: product(8, 2, 4),
        lambda other: True,
    ),
}  # fmt: skip


def main():
    lines = [line for path in sys.argv[1:] for line in lines_of(path)]
    if not lines:
        print(__doc__)
        return 2
    for title, (is_for, other_of, is_taken) in RULES.items():
        asked, ratios, families = 0, [], collections.Counter()
        for line in lines:
            compiled = {c["hints"]: c for c in line["choices"] if "registers" in c and c["registers"] > 0}
            chosen = compiled.get("")
            if chosen is None or "ms" not in chosen or not is_for(line["features"], line["form"], Code(chosen)):
                continue
            asked += 1
            other = compiled.get(other_of(Code(chosen)))
            if other is not None and "ms" in other and is_taken(Code(other)):
                ratios.append(other["ms"] / chosen["ms"])
                families[line["family"]] += 1
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1
        span = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""
        print(f"{title}: asked {asked}, taken {len(ratios)} of {len(families)} families, time {mean:.3f} ({span})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
