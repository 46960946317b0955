#!/usr/bin/env python3
"""Learns the rules by which choose_hints chooses the hints of kernels without products, from measured launches.

    hints.py CORPUS [CORPUS...] --write FILE      learns from all of it, and writes the rules
    hints.py CORPUS [CORPUS...] --validate        leaves each family out, and prints what the rules cost there
    hints.py CORPUS [CORPUS...] --compare         what the compiler chose when the corpus was made

A corpus is what bench/generality/sweep.py joins. bench/notes/learnt_hints.md explains the model. Needs numpy.
"""

import argparse
import collections
import json
import math
import pathlib
import sys

import numpy

# What a warp is given is a number of these, a power of two: a rule that says "2048 elements a warp" serves tiles of all
# sizes.
MEASURES = ("tile", "tile_bytes", "live", "computed")
WARPS = (1, 2, 4, 8, 16)
SHARING, REGISTERS, THREADS = 4, 65536, 32  # warps among which the assembler divides registers at least; of an SM; a warp
LIMITS = (0, 96, 64, 40)  # registers of a thread that the occupancy asks for; 0: the assembler decides
LOST = math.log(4.0)  # the cost of a choice that does not compile, as the logarithm of its time over the best
LEAST_KERNELS, LEAST_FAMILIES = 6, 2  # of a rule
DEEPEST = 6
WORTH = 0.12  # a split has to save so much in all, in logarithms: about what noise makes of a few kernels
OF_PRODUCTS = {"products", "tensor_cores", "accumulators", "rows", "step_bytes", "left_bytes", "chain"} | {
    "thin", "kept_twice", "loads_others", "beside_bytes", "through_registers",
}  # fmt: skip


def power_of_two_below(number):
    return 1 << max(int(number).bit_length() - 1, 0) if number >= 1 else 1


def warps_of(features, measure, a_warp):
    return min(max(power_of_two_below(features[measure] // a_warp), WARPS[0]), WARPS[-1])


def blocks_of(warps, registers):
    return 0 if registers == 0 else max(1, min(32, REGISTERS // (max(warps, SHARING) * THREADS * registers)))


class Action:
    """What a rule says: warps by a measure, and a limit of registers."""

    def __init__(self, measure, a_warp, registers):
        self.measure, self.a_warp, self.registers = measure, a_warp, registers

    def choice(self, features):
        warps = warps_of(features, self.measure, self.a_warp)
        return warps, blocks_of(warps, self.registers)

    def text(self):
        limit = f", {self.registers} registers a thread" if self.registers else ""
        return f"a warp for {self.a_warp} of {self.measure}{limit}"


ACTIONS = [Action(m, 1 << n, r) for m in MEASURES for n in range(5, 15) for r in LIMITS]


class Sample:
    """A kernel at a shape, with the cost of each action: the logarithm of its time over the best choice's."""

    def __init__(self, line):
        self.name, self.family, self.shape = line["case"], line["family"] or line["case"], line["shape"]
        self.features = line["features"]
        self.default, times, failed = None, {}, set()
        for choice in line["choices"]:
            if "ms" in choice and choice["hints"] == "":
                self.default = choice["ms"]
            if "warps" not in choice or choice["hints"].startswith("pieces"):
                continue
            key = (choice["warps"], choice["occupancy"])
            if "ms" in choice and (choice["hints"] or choice["pieces"] == self.pieces_of(line)):
                times[key] = min(times.get(key, math.inf), choice["ms"])
            elif "failed" in choice:
                failed.add(key)
        self.times = times
        self.best = min(times.values(), default=math.nan)

    @staticmethod
    def pieces_of(line):
        return next((c.get("pieces", 1) for c in line["choices"] if c["hints"] == ""), 1)

    def cost_of(self, warps, blocks):
        """Of a choice that was measured, or of the nearest one; LOST for one that does not compile."""
        if (warps, blocks) in self.times:
            return math.log(self.times[warps, blocks] / self.best)
        near = [b for w, b in self.times if w == warps]
        if not near:
            return LOST
        key = min(near, key=lambda b: abs(math.log((b or 1) / (blocks or 1))))
        return math.log(self.times[warps, key] / self.best)

    def costs(self):
        return numpy.array([self.cost_of(*a.choice(self.features)) for a in ACTIONS])

    def default_cost(self):
        return math.log(self.default / self.best)


def read(paths):
    samples = []
    for path in paths:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["features"]["products"] > 0:
                continue
            sample = Sample(record)
            if sample.default and len(sample.times) > 3:
                samples.append(sample)
    return samples


# -- a tree ------------------------------------------------------------------------------------------------------------


class Tree:
    """A split by a feature, or a leaf with an action."""

    def __init__(self, samples, costs, depth):
        self.count, self.families = len(samples), len({s.family for s in samples})
        total = costs.sum(axis=0)
        self.action = int(total.argmin())
        self.cost = float(total[self.action]) / max(self.count, 1)
        self.split = None
        if depth > 0:
            self.split = self.best_split(samples, costs, total, depth)

    @staticmethod
    def enough(samples):
        return len({s.name for s in samples}) >= LEAST_KERNELS and len({s.family for s in samples}) >= LEAST_FAMILIES

    def best_split(self, samples, costs, total, depth):
        least, best = float(total.min()) - WORTH - 0.003 * len(samples), None
        for feature in samples[0].features:
            if feature in OF_PRODUCTS:
                continue
            values = numpy.array([s.features[feature] for s in samples])
            order = values.argsort(kind="stable")
            sums = costs[order].cumsum(axis=0)
            ordered = values[order]
            for at in numpy.flatnonzero(ordered[1:] != ordered[:-1]):
                if at + 1 < LEAST_KERNELS or len(samples) - at - 1 < LEAST_KERNELS:
                    continue
                cost = float(sums[at].min() + (total - sums[at]).min())
                if cost < least:
                    threshold = threshold_between(int(ordered[at]), int(ordered[at + 1]))
                    low = [s for s in samples if s.features[feature] < threshold]
                    high = [s for s in samples if s.features[feature] >= threshold]
                    if self.enough(low) and self.enough(high):
                        least, best = cost, (feature, threshold)
        if best is None:
            return None
        feature, threshold = best
        inside = numpy.array([s.features[feature] < threshold for s in samples])
        low = Tree([s for s, i in zip(samples, inside) if i], costs[inside], depth - 1)
        high = Tree([s for s, i in zip(samples, inside) if not i], costs[~inside], depth - 1)
        return feature, threshold, low, high

    def leaf(self, features):
        if self.split is None:
            return self
        feature, threshold, low, high = self.split
        return (low if features[feature] < threshold else high).leaf(features)

    def rows(self):
        """The nodes, each after the ones above it: a split names its second child, the first one follows it."""
        if self.split is None:
            a = ACTIONS[self.action]
            return [f"TESSERA_RULE({a.measure}, {a.a_warp}, {a.registers}, {self.count}, {math.exp(self.cost):.3f})"]
        feature, threshold, low, high = self.split
        first, second = low.rows(), high.rows()
        return [f"TESSERA_SPLIT({feature}, {threshold}, {len(first) + 1})"] + first + second

    def text(self, indent=0):
        pad = "  " * indent
        if self.split is None:
            return [f"{pad}{ACTIONS[self.action].text()}  ({self.count} kernels, {math.exp(self.cost):.3f})"]
        feature, threshold, low, high = self.split
        return (
            [f"{pad}{feature} below {threshold}:"] + low.text(indent + 1)
            + [f"{pad}{feature} from {threshold} on:"] + high.text(indent + 1)
        )  # fmt: skip


def threshold_between(low, high):
    """The roundest number above `low` and at most `high`: thresholds between measured kernels are not known better."""
    for digits in range(40):
        step = 1 << (40 - digits)
        candidate = (low // step + 1) * step
        if low < candidate <= high:
            return candidate
    return high


def learnt(samples):
    return Tree(samples, numpy.array([s.costs() for s in samples]), DEEPEST)


# -- what rules cost ---------------------------------------------------------------------------------------------------


def print_costs(title, costs):
    ratios = sorted(math.exp(c) for c in costs)
    share = sum(r <= 1.1 for r in ratios) / len(ratios)
    mean = math.exp(sum(costs) / len(costs))
    print(f"{title}: {mean:.3f} of the best on average, within 1.1 for {100 * share:.0f} %, worst {ratios[-1]:.2f}")


def rule_cost(tree, sample):
    return sample.cost_of(*ACTIONS[tree.leaf(sample.features).action].choice(sample.features))


def validate(samples):
    of_family = collections.defaultdict(list)
    for s in samples:
        of_family[s.family].append(s)
    held_out = []
    for family, own in sorted(of_family.items()):
        tree = learnt([s for s in samples if s.family != family])
        costs = [rule_cost(tree, s) for s in own]
        held_out += list(zip(costs, own))
        print_costs(f"{family} ({len(own)})", costs)
    print_costs("all, each family left out", [c for c, _ in held_out])
    print_costs("what the compiler chose", [s.default_cost() for s in samples])
    for cost, s in sorted(held_out, key=lambda pair: -pair[0])[:20]:
        print(f"  {s.name}.{s.shape}: {math.exp(cost):.2f} (the compiler's: {math.exp(s.default_cost()):.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--write", default="")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    samples = read(options.corpus)
    print(f"{len(samples)} kernels and shapes of {len({s.family for s in samples})} families")
    if options.compare:
        print_costs("what the compiler chose", [s.default_cost() for s in samples])
    if options.validate:
        validate(samples)
    if options.write:
        tree = learnt(samples)
        print_costs("the rules, on what they were learnt from", [rule_cost(tree, s) for s in samples])
        print("\n".join(tree.text()))
        pathlib.Path(options.write).write_text("\n".join(tree.rows()) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
