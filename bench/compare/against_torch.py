#!/usr/bin/env python3
"""The group "library at random shapes": the new build of a prepared folder compared with PyTorch, in alternation.

    against_torch.py FOLDER [--device cuda|cpu] [--seconds N] [--out FILE] [--least N]

Prints PyTorch's time by ours for each case that PyTorch has a function for, worst first, and at the end the geometric mean
and the least ratio of each kind of case, with the seed. FILE gets lines that bench/gpu/report.py reads. Exit status: 0; 1 if
a result is wrong; 3 if fewer than N cases (60) were compared.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import time

import cases as table
import run
from side import CannotStart, Side

GROUP = "random_shapes"
KINDS = {
    "products": ("gemm", "matmul", "gemm_split_k", "gemm_stream_k", "linear", "batched_gemm"),
    "attention": ("attention",),
    "softmax and norms": ("softmax", "log_softmax", "rms_norm", "layer_norm"),
    "convolutions": ("convolution", "convolution_transposed"),
    "gradients": ("attention_backward", "softmax_backward", "log_softmax_backward", "rms_norm_backward", "layer_norm_backward", "cross_entropy_backward"),
    "losses and sums of exponentials": ("cross_entropy", "attention_with_lse"),
    "reductions": ("row_sum", "row_mean", "row_max", "row_min", "sum_all", "mean_all", "max_all", "min_all", "argmax", "top_k"),
}
SESSIONS = 6
LONG_US, LEAST = 20, 0.9  # no product of at least this time may be below this ratio


def kind_of(command):
    return next((kind for kind, names in KINDS.items() if table.name_of(command) in names), "other functions")


class Pair(run.Pair):
    """PyTorch is A, ours is B: a ratio of times is ours by PyTorch's."""

    def __init__(self, folder, device):
        super().__init__(folder, device)
        self.sides["A"] = Side([sys.executable, "-B", str(folder / "torch_side.py"), "--device", device])


def measure(pair, command, sessions):
    """The finished case; its ratios are ours by PyTorch's."""
    case = run.Case(command)
    run.screen(pair, case, run.Limits(screen=sessions))
    return case


def line_of(case, device, version, seed):
    """As bench/gpu/peers.py writes it, for report.py."""
    ours, theirs = case.microseconds * case.ratio / 1e3, case.microseconds / 1e3
    unit, work = ("TFLOP/s", case.flops / 1e9) if case.flops else ("GB/s", case.bytes / 1e6)
    name, kind = table.name_of(case.command), kind_of(case.command)
    arguments = {k: v for k, v in table.arguments_of(case.command).items() if k != "seed"} | {"shapes": seed}
    judged = kind == "products" and case.microseconds >= LONG_US
    return {"group": GROUP, "name": name, "arguments": arguments, "requires": ["ratio", LEAST] if judged else [],
            "notes": case.notes, "device": device, "torch": version, "correct": True, "kind": kind,
            "figures": {"tessera": {"ms": round(ours, 6), unit: round(work / ours, 2)},
                        "torch": {"ms": round(theirs, 6), unit: round(work / theirs, 2)}},
            "ratios": {"torch": round(1 / case.ratio, 4)}}  # fmt: skip


def summary(measured, seed):
    lines = []
    for case in sorted(measured, key=lambda c: -c.ratio):
        lines.append(f"{1 / case.ratio:.3f}  {case.microseconds * case.ratio:9.1f} us  {case.command}")
    for kind in [*KINDS, "other functions"]:
        ratios = {c.command: 1 / c.ratio for c in measured if kind_of(c.command) == kind}
        if ratios:
            mean = math.exp(statistics.fmean(math.log(r) for r in ratios.values()))
            least = min(ratios, key=ratios.get)
            lines.append(f"{kind}: {len(ratios)} cases, geometric mean {mean:.3f}, least {ratios[least]:.3f}: {least}")
    long = [c for c in measured if kind_of(c.command) == "products" and c.microseconds >= LONG_US]
    slow = [c for c in long if 1 / c.ratio < LEAST]
    lines.append(f"{len(slow)} of {len(long)} products of more than {LONG_US} us are below {LEAST} of PyTorch; seed {seed}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--least", type=int, default=60)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    folder = options.folder.resolve()
    plan = json.loads((folder / "plan.json").read_text())
    deadline = time.monotonic() + options.seconds
    pair, measured, problems = Pair(folder, options.device), [], []
    try:
        for command in plan["cases"]:  # the side of PyTorch knows which functions it has
            if time.monotonic() > deadline:
                break
            case = measure(pair, command, options.sessions)
            if case.problem and not case.problem.startswith("old: Missing"):
                problems.append(f"{command}: {case.problem.replace('old:', 'PyTorch:')}")
            elif not case.problem:
                measured.append(case)
        device, version = pair.sides["A"].description, pair.sides["A"].peer
    finally:
        pair.close()
    with open(options.out or folder / "random_shapes.jsonl", "w", encoding="utf-8") as out:
        for case in measured:
            print(json.dumps(line_of(case, device, version, plan["seed"])), file=out)
    print("\n".join([*summary(measured, plan["seed"]), *problems, f"{device}, PyTorch {version}"]))
    if any("new:" in p for p in problems):
        return 1
    return 0 if len(measured) >= options.least else 3


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotStart as error:
        sys.exit(f"no case can be measured: {error}")
