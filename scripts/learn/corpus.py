"""Reads a corpus of measured launches, as bench/generality/sweep.py joins them."""

import json
import lzma

SHARING, REGISTERS, THREADS = 4, 65536, 32  # warps among which the assembler divides registers at least; of an SM; a warp


def blocks_of(warps, registers):
    """Blocks of an SM whose threads have so many registers each; 0: the assembler decides."""
    return 0 if registers == 0 else max(1, min(32, REGISTERS // (max(warps, SHARING) * THREADS * registers)))


def lines_of(path):
    """A dictionary for each case and shape; `path` may be compressed (.xz)."""
    with (lzma.open if str(path).endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
