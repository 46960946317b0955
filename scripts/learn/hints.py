#!/usr/bin/env python3
"""Learns corrections to the hints that choose_hints chooses for kernels without products, from measured launches.

    hints.py CORPUS...               a tree of corrections, what it costs on what it was learnt from, and on families
                                     (of bench/generality) that are left out one at a time
    hints.py CORPUS... --depth N     other trees

A corpus is what bench/generality/sweep.py joins; bench/generality/corpus.jsonl.xz is one. bench/notes/learnt_hints.md says
what came of it. Needs numpy.
"""

import argparse
import math
import sys

import numpy

from corpus import blocks_of, lines_of

LOST = math.log(3.0)  # the cost of a choice that does not compile
UNMEASURED = math.log(1.05)  # the least cost of one that was not worth measuring at a shape
FACTORS = (-3, -2, -1, 0, 1, 2, 3)  # by which a correction multiplies warps, as powers of two
LIMITS = (0, 64)  # registers of a thread that the occupancy asks for; 0: the assembler decides
LEAST_KERNELS, LEAST_FAMILIES = 8, 4  # of a leaf
WORTH, WORTH_EACH = 0.5, 0.002  # a correction has to save so much in all, and for each kernel, in logarithms
OF_PRODUCTS = {"products", "tensor_cores", "accumulators", "rows", "step_bytes", "left_bytes", "chain"} | {
    "thin", "kept_twice", "loads_others", "beside_bytes", "through_registers",
}  # fmt: skip


class Sample:
    """A kernel at a shape, with the cost of each choice: the logarithm of its time over the best choice's."""

    def __init__(self, line):
        self.name, self.family, self.shape = line["case"], line["family"], line["shape"]
        self.chosen = next(c for c in line["choices"] if c["hints"] == "")
        self.features = {k: v for k, v in line["features"].items() if k not in OF_PRODUCTS}
        self.features |= {f"chosen_{k}": self.chosen[k] for k in ("warps", "occupancy", "pieces")}
        self.times = {}
        for choice in line["choices"]:
            if "ms" in choice and choice["hints"].startswith("warps"):
                self.times[choice["warps"], choice["occupancy"]] = choice["ms"]
        self.best = min([self.chosen["ms"], *self.times.values()])

    def cost(self, first, warps, blocks):
        """`first`: the kernel's first shape, where all choices were measured; null for that one itself."""
        if (warps, blocks) in self.times:
            return math.log(self.times[warps, blocks] / self.best)
        if first is not None and (warps, blocks) in first.times:
            return max(math.log(first.times[warps, blocks] / first.best), UNMEASURED)
        return LOST

    def corrected(self, first, factor, registers):
        if (factor, registers) == (0, 0):
            return math.log(self.chosen["ms"] / self.best)
        warps = min(16, max(1, int((self.chosen["warps"] or 4) * 2.0**factor)))
        return self.cost(first, warps, blocks_of(warps, registers if warps < 16 else 0))


CORRECTIONS = [(0, 0)] + [(f, r) for f in FACTORS for r in LIMITS if (f, r) != (0, 0)]


def name_of(correction):
    factor, registers = CORRECTIONS[correction]
    words = ([f"warps times {2.0**factor:g}"] if factor else []) + ([f"{registers} registers a thread"] if registers else [])
    return ", ".join(words) or "as chosen"


class Data:
    def __init__(self, paths):
        lines = [line for path in paths for line in lines_of(path) if line["features"]["products"] == 0]
        usable = [line for line in lines if any(c["hints"] == "" and "ms" in c for c in line["choices"])]
        self.samples = [Sample(line) for line in usable]
        first = {s.name: s for s in self.samples if s.shape == 0}
        before = [first.get(s.name) if s.shape > 0 else None for s in self.samples]
        self.costs = numpy.array([[s.corrected(b, *c) for c in CORRECTIONS] for s, b in zip(self.samples, before)])
        self.names = list(self.samples[0].features)
        self.features = numpy.array([[s.features[n] for n in self.names] for s in self.samples], float)
        self.kernels = numpy.array([s.name for s in self.samples])
        self.families = numpy.array([s.family for s in self.samples])


class Tree:
    def __init__(self, data, rows, depth):
        total = data.costs[rows].sum(axis=0)
        self.count, self.correction = len(rows), int(total.argmin())
        if total[0] - total[self.correction] < WORTH + WORTH_EACH * len(rows):
            self.correction = 0
        self.cost = total[self.correction] / len(rows)
        self.split = self.best_split(data, rows, total, depth) if depth > 0 else None

    def best_split(self, data, rows, total, depth):
        least, best = total[self.correction] - WORTH - WORTH_EACH * len(rows), None
        for feature in range(len(data.names)):
            order = rows[data.features[rows, feature].argsort(kind="stable")]
            values, sums = data.features[order, feature], data.costs[order].cumsum(axis=0)
            for at in numpy.flatnonzero(values[1:] != values[:-1]):
                cost = sums[at].min() + (total - sums[at]).min()
                if cost < least and all(enough(data, part) for part in (order[: at + 1], order[at + 1 :])):
                    least, best = cost, (feature, (values[at] + values[at + 1]) / 2, order[: at + 1], order[at + 1 :])
        if best is None:
            return None
        feature, threshold, low, high = best
        return feature, threshold, Tree(data, low, depth - 1), Tree(data, high, depth - 1)

    def leaf(self, features):
        if self.split is None:
            return self
        feature, threshold, low, high = self.split
        return (low if features[feature] < threshold else high).leaf(features)

    def text(self, names, indent=""):
        if self.split is None:
            return [f"{indent}{name_of(self.correction)}  ({self.count} kernels and shapes, {math.exp(self.cost):.3f})"]
        feature, threshold, low, high = self.split
        below, above = low.text(names, indent + "  "), high.text(names, indent + "  ")
        return [f"{indent}{names[feature]} below {threshold:g}:"] + below + [f"{indent}otherwise:"] + above


def enough(data, rows):
    return len(set(data.kernels[rows])) >= LEAST_KERNELS and len(set(data.families[rows])) >= LEAST_FAMILIES


def print_costs(title, costs):
    ratios = numpy.exp(costs)
    shares = ", ".join(f"within {limit} {100 * (ratios <= limit).mean():.0f} %" for limit in (1.03, 1.1, 1.5))
    print(f"{title}: {math.exp(costs.mean()):.3f} of the best, {shares}, worst {ratios.max():.2f}")


def costs_of(data, tree, rows):
    return numpy.array([data.costs[row, tree.leaf(data.features[row]).correction] for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--depth", type=int, default=3)
    options = parser.parse_args()
    data = Data(options.corpus)
    rows = numpy.arange(len(data.samples))
    print(f"{len(rows)} kernels and shapes of {len(set(data.families))} families")
    print_costs("as chosen", data.costs[:, 0])
    tree = Tree(data, rows, options.depth)
    print("\n".join(tree.text(data.names)))
    print_costs("corrected, on what it was learnt from", costs_of(data, tree, rows))
    left_out = data.costs[:, 0].copy()
    for family in sorted(set(data.families)):
        own = numpy.flatnonzero(data.families == family)
        left_out[own] = costs_of(data, Tree(data, numpy.flatnonzero(data.families != family), options.depth), own)
    print_costs("corrected, each family left out", left_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
