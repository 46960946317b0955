#!/usr/bin/env python3
"""Measures two builds of gpu_bench in alternation: what has become slower, or faster, between two commits.

    compare.py --selftest
    compare.py --before PROGRAM --after PROGRAM --out FILE [--quick | --full] [--groups a,b] [--cases word+word,...]
               [--rounds N] [--seconds N] [--jobs N] [--ms N] [--limit SHARE] [--warm-up only|no]

Both builds run every case once beforehand, several at a time, which fills the cache of compiled kernels; --warm-up only
ends there, --warm-up no leaves it out. Then each case runs in rounds, the two builds in alternating order, and the median of the rounds counts.
Cases of which "after" is more than SHARE (default 0.02) slower are measured once more with three times the rounds,
because single outliers are expected among many cases. FILE gets a JSON line per case: the milliseconds of each round.
Exit status: 0; 1 if a case stays slower, or is wrong; 3 if no time was left for some cases.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import statistics
import sys
import time

import peers
from coprocess import Bench


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("--before")
    parser.add_argument("--after")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--groups", default="")
    parser.add_argument("--cases", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--ms", type=float, default=40)
    parser.add_argument("--limit", type=float, default=0.02)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--warm-up", choices=("yes", "no", "only"), default="yes")
    options = parser.parse_args()
    if not options.selftest and not (options.before and options.after and options.out):
        parser.error("--before, --after and --out are needed")
    return options


def warm(cases, options):
    for program in (options.before, options.after):
        options.bench = program
        peers.warm_up(cases, options)


def take_rounds(benches, command, rounds, times):
    """Adds the milliseconds of each round to `times` {"before": [], "after": []}; why there is none, or ""."""
    for turn in range(rounds):
        for who in ("before", "after") if turn % 2 == 0 else ("after", "before"):
            answer = benches[who].run(command)
            if "failed" in answer:
                return f"{who}: {answer['failed'][:200]}"
            if not answer["correct"]:
                return f"{who}: WRONG, error {answer['error']}"
            times[who].append(answer["ms"])
    return ""


def ratio_of(times):
    return statistics.median(times["before"]) / statistics.median(times["after"])


def compare(cases, options, deadline, out):
    """{command: (ratio, why there is none)} of the cases that time was left for."""
    benches = {who: Bench(getattr(options, who), options.ms, options.device) for who in ("before", "after")}
    found = {}

    def one(case, rounds):
        times = {"before": [], "after": []}
        problem = take_rounds(benches, case.command(), rounds, times)
        found[case.command()] = (0.0 if problem else ratio_of(times), problem)
        print(json.dumps({"case": case.command(), "group": case.group, "problem": problem} | times), file=out, flush=True)
        print(f"{found[case.command()][0]:.3f} {case.command()} {problem}", flush=True)

    for case in cases:
        if time.monotonic() < deadline - 5:
            one(case, options.rounds)
    slower = [c for c in cases if not found.get(c.command(), (1, "x"))[1] and found[c.command()][0] < 1 - options.limit]
    for case in slower:
        if time.monotonic() < deadline - 5:
            one(case, 3 * options.rounds)
    for bench in benches.values():
        bench.close()
    return found


class Scripted:
    """Answers as a gpu_bench would, and writes down the order of all calls."""

    def __init__(self, who, answers, order):
        self.who, self.answers, self.order = who, list(answers), order

    def run(self, _):
        self.order.append(self.who)
        return self.answers.pop(0)


def selftest():
    """Neither build is always the first of a round; what fails or is wrong has no ratio; medians count."""
    order = []

    def rounds(before, after):
        order.clear()
        times = {"before": [], "after": []}
        benches = {"before": Scripted("before", before, order), "after": Scripted("after", after, order)}
        return take_rounds(benches, "case", 3, times), times

    right = [{"ms": ms, "correct": True} for ms in (2.0, 9.0, 4.0)]
    problem, times = rounds(right, [{"ms": ms, "correct": True} for ms in (2.0, 1.0, 8.0)])
    assert not problem and order == ["before", "after", "after", "before", "before", "after"], order
    assert ratio_of(times) == 2.0, times
    assert "after: WRONG" in rounds(right, [{"ms": 1.0, "correct": False, "error": 0.5}])[0]
    assert rounds([{"failed": "gone"}], right)[0] == "before: gone"
    print("the order of builds is fair, and what is wrong is no figure")
    return 0


def main():
    options = parsed_options()
    if options.selftest:
        return selftest()
    cases = [dataclasses.replace(c, peers=[]) for c in peers.chosen_cases(options)]  # no peers in the warm-up
    deadline = time.monotonic() + options.seconds
    if options.warm_up != "no":
        warm(cases, options)
    if options.warm_up == "only":
        return 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with open(options.out, "w", encoding="utf-8") as out:
        found = compare(cases, options, deadline, out)
    ratios = [ratio for ratio, problem in found.values() if not problem]
    slower = {c: ratio for c, (ratio, problem) in found.items() if not problem and ratio < 1 - options.limit}
    problems = {c: problem for c, (_, problem) in found.items() if problem}
    if ratios:
        mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
        print(f"{len(ratios)} of {len(cases)} cases: before / after {mean:.4f} (geometric mean), least {min(ratios):.3f}")
    for command, ratio in sorted(slower.items(), key=lambda item: item[1]):
        print(f"slower: {ratio:.3f} {command}")
    for command, problem in problems.items():
        print(f"problem: {command}: {problem}")
    return 1 if slower or problems else 3 if len(found) < len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
