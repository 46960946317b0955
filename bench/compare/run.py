#!/usr/bin/env python3
"""Compares the two builds of a prepared folder (prepare.py) on one device, in alternation. decision.py has the rule.

    run.py FOLDER [--device cuda|cpu] [--seconds N] [--cases N] [--out FILE] [--sessions N] [--same | --swap] [--plant SHARE]

Exit status: 0; 1 if the new build is slower somewhere, or wrong where the old one is right; 3 if time did not suffice to
decide about some cases. FILE gets a line of JSON for each case.

How well the comparison works is seen with --same (the new build against itself), --swap (the old build as the new one) and
--plant 0.05 (the new build's times are 5 % longer than measured).
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import random
import statistics
import sys
import time

import decision
from side import CannotStart, Side

BATCH_MS = 1.0
LONGEST_BATCH = 200
REST_SECONDS = 0.0002  # at its power limit a GPU is faster the longer it rests: equal rests
LISTED = 0.03  # what is listed without being an alarm


@dataclasses.dataclass
class Case:
    command: str
    problem: str = ""
    notes: list = dataclasses.field(default_factory=list)
    microseconds: float = 0.0  # of the old build
    launches: int = 1  # of a batch
    screen: list = dataclasses.field(default_factory=list)
    sessions: list = dataclasses.field(default_factory=list)
    rotates: int = 1
    bytes: float = 0.0
    flops: float = 0.0

    @property
    def margin(self):
        return decision.margin_of(max(self.microseconds, 1e-3))

    @property
    def ratio(self):
        return statistics.median(self.sessions or self.screen or [math.nan])


def environment_of(folder):
    """So that what prepare.py has compiled is found."""
    substitute = folder / "tileiras"
    values = {"TESSERA_CACHE_DIR": str(folder / "cache"), "TESSERA_CACHE_MB": "16384"}
    if substitute.exists():
        moment = int((folder / "tileiras.time").read_text())
        if int(substitute.stat().st_mtime) != moment:
            os.utime(substitute, (moment, moment))  # kernels are found by it; some copies lose it
        values["TESSERA_TILEIRAS"] = str(substitute)
    return values


class Pair:
    """The two builds; only one of them works at a time while times are taken."""

    def __init__(self, folder, device, builds=("old", "new"), plant=0.0):
        """`builds`: those that are A and B. `plant`: the share by which B's times are lengthened."""
        environment = environment_of(folder)
        self.factor = {"A": 1.0, "B": 1.0 + plant}
        self.sides = {
            who: Side([str(folder / build / "compare_bench"), "--device", device], environment)
            for who, build in zip("AB", builds)
        }
        self.random = random.Random(1)

    def both(self, line, seconds=120):
        """The answers to a command that both may work on at once."""
        for side in self.sides.values():
            if side.process is None:
                side.ask("free")
            side.send(line)
        return {who: side.take(seconds) for who, side in self.sides.items()}

    def prepare(self, case):
        """True if both builds have prepared the case, and are right."""
        answers = self.both("prepare " + case.command)
        for who, name in (("A", "old"), ("B", "new")):
            answer = answers[who]
            if "failed" in answer:
                case.problem = f"{name}: {answer['failed'][:200]}"
                return False
            if not answer["correct"]:
                unwritten = f", {answer['unwritten']} elements not written" if answer["unwritten"] else ""
                case.problem = f"{name}: WRONG, error {answer['error']} (allowed {answer['tolerance']}){unwritten}"
                return False
            if answer["compiled"]:
                case.notes.append(f"{name}: {answer['compiled']} kernels compiled during the run")
        new = answers["B"]
        case.rotates, case.bytes, case.flops = new["sets"], new["bytes"], new.get("flops", 0.0)
        return True

    def elsewhere(self, case):
        """The tensors anew, at other addresses."""
        spacer = self.random.randrange(1, 64) * 65536
        for answer in self.both(f"again {spacer}").values():
            if "failed" in answer:
                case.problem = answer["failed"][:200]
                return False
        return True

    def time(self, who, launches):
        """Milliseconds of one launch."""
        time.sleep(REST_SECONDS)
        answer = self.sides[who].ask(f"time {launches}")
        if "failed" in answer:
            raise RuntimeError(answer["failed"][:200])
        return max(answer["ms"], 1e-6) / launches * self.factor[who]

    def session(self, case):
        times = [self.time(who, case.launches) for who in decision.ORDER]
        return decision.session_ratio(times), times

    def restart(self):
        self.close()

    def close(self):
        for side in self.sides.values():
            side.close()


def screen(pair, case, limits):
    """The first stage for one case."""
    if not pair.prepare(case):
        return
    try:
        once = min(pair.time(who, 1) for who in "ABAB")
        case.launches = max(1, min(LONGEST_BATCH, int(limits.batch_ms / once)))
        for who in "AB":
            pair.time(who, case.launches)  # warms up, and finds what a launch costs the host
        olds = []
        for _ in range(limits.screen):
            ratio, times = pair.session(case)
            case.screen.append(ratio)
            olds += [t for who, t in zip(decision.ORDER, times) if who == "A"]
        case.microseconds = statistics.median(olds) * 1e3
    except RuntimeError as error:
        case.problem = str(error)


def confirm(pair, case, count):
    """A part of the second stage for one case."""
    if not pair.prepare(case):
        return
    try:
        for _ in range(count):
            if not pair.elsewhere(case):
                return
            for who in "AB":
                pair.time(who, case.launches)
            case.sessions.append(pair.session(case)[0])
    except RuntimeError as error:
        case.problem = str(error)


@dataclasses.dataclass
class Limits:
    batch_ms: float = BATCH_MS
    screen: int = decision.SCREEN_SESSIONS
    sessions: int = decision.SESSIONS


def measure(pair, cases, limits, deadline):
    """Both stages; cases for which no time is left keep empty lists."""
    share = 0.6 * (deadline - time.monotonic())
    screened = time.monotonic() + share
    for i, case in enumerate(cases):
        if time.monotonic() > screened:
            break
        screen(pair, case, limits)
        if (i + 1) % 25 == 0:
            print(f"{i + 1} of {len(cases)} cases", flush=True)
    suspects = [c for c in cases if c.screen and not c.problem and decision.is_suspect(c.screen, c.margin)]
    suspects.sort(key=lambda c: -c.ratio)
    print(f"{len(suspects)} cases are measured again", flush=True)
    for _ in range(decision.RESTARTS):
        pair.restart()
        for case in suspects:
            if time.monotonic() > deadline:
                break
            confirm(pair, case, limits.sessions // decision.RESTARTS)
    return suspects


def judge(cases, suspects, limits):
    """(slower, undecided, broken, lines of the report)"""
    slower, undecided, lines = [], [], []
    for case in suspects:
        if case.problem:
            continue
        if len(case.sessions) < limits.sessions:
            undecided.append(case)
            lines.append(f"undecided {case.ratio:.3f} {case.microseconds:9.1f} us  {case.command}")
            continue
        verdict = decision.decide(case.sessions, case.margin, len(cases))
        text = f"{verdict.ratio:.3f} [{verdict.low:.3f}, {verdict.high:.3f}] {case.microseconds:9.1f} us  {case.command}"
        if verdict.slower:
            slower.append(case)
            lines.append("SLOWER " + text)
        elif verdict.ratio > 1 + LISTED:
            lines.append("slower, within the noise or the margin: " + text)
    faster = [c for c in cases if c.screen and not c.problem and c.ratio < 1 - LISTED]
    for case in sorted(faster, key=lambda c: c.ratio):
        lines.append(f"faster {case.ratio:.3f} {case.microseconds:9.1f} us  {case.command}")
    broken = [c for c in cases if c.problem]
    lines += [f"PROBLEM {c.command}: {c.problem}" for c in broken]
    lines += [f"note {c.command}: {note}" for c in cases for note in c.notes]
    in_cache = [c for c in cases if c.screen and c.rotates * c.bytes < 60e6]
    if in_cache:
        lines.append(f"{len(in_cache)} cases are so small that their tensors stay in the L2 cache, though they rotate")
    return slower, undecided, broken, lines


def report(cases, suspects, limits):
    slower, undecided, broken, lines = judge(cases, suspects, limits)
    measured = [c for c in cases if c.screen and not c.problem]
    print("\n".join(lines))
    if measured:
        mean = math.exp(statistics.fmean(math.log(c.ratio) for c in measured))
        worst = max(measured, key=lambda c: c.ratio)
        print(f"{len(measured)} of {len(cases)} cases: new / old {mean:.4f} (geometric mean), largest {worst.ratio:.3f}: {worst.command}")
    unmeasured = [c for c in cases if not c.screen and not c.problem]
    if unmeasured or undecided:
        print(f"no time was left for {len(unmeasured)} cases, nor to decide about {len(undecided)}")
    newly_broken = [c for c in broken if c.problem.startswith("new")]
    print(f"{len(slower)} slower, {len(newly_broken)} wrong or failed in the new build, {len(broken) - len(newly_broken)} other problems")
    return 1 if slower or newly_broken else 3 if unmeasured or undecided or broken else 0


def write(path, cases):
    with open(path, "w", encoding="utf-8") as out:
        for case in cases:
            print(json.dumps(dataclasses.asdict(case) | {"ratio": case.ratio if case.screen else None}), file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--cases", type=int, default=0, help="only the first N")
    parser.add_argument("--sessions", type=int, default=decision.SESSIONS)
    parser.add_argument("--batch-ms", type=float, default=BATCH_MS)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--same", action="store_true", help="compares the new build with itself")
    parser.add_argument("--swap", action="store_true", help="the old build counts as the new one")
    parser.add_argument("--plant", type=float, default=0.0, metavar="SHARE", help="lengthens the new build's times")
    options = parser.parse_args()
    folder = options.folder.resolve()
    plan = json.loads((folder / "plan.json").read_text())
    cases = [Case(command) for command in plan["cases"]][: options.cases or None]
    limits = Limits(options.batch_ms, decision.SCREEN_SESSIONS, options.sessions)
    start = time.monotonic()
    builds = ("new", "new") if options.same else ("new", "old") if options.swap else ("old", "new")
    pair = Pair(folder, options.device, builds, options.plant)
    try:
        suspects = measure(pair, cases, limits, start + options.seconds)
        described = pair.sides["B"].description
    finally:
        pair.close()
    write(options.out or folder / "results.jsonl", cases)
    status = report(cases, suspects, limits)
    print(f"old {plan[builds[0]]}, new {plan[builds[1]]}, seed {plan['seed']}, {described}, {time.monotonic() - start:.0f} s")
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotStart as error:
        sys.exit(f"no case can be measured: {error}")
