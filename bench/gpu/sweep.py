#!/usr/bin/env python3
"""Measures one benchmark under many overrides of the compiler's choices (TESSERA_TUNING), to calibrate its cost model.

  sweep.py --bench build/.../gpu_bench [--ms N] [--seconds N] [--out FILE] [--preset NAME] [CASE...]

A CASE is "NAME key=value ... : ALTERNATIVE; ALTERNATIVE; ...", an alternative "key=a,b key=c | key=a,b": further
arguments of gpu_bench, then what TESSERA_TUNING overrides; several values of a key are combined. Without ":" the case
is its own only alternative. Presets are lists of cases (sweep_presets.py).

One gpu_bench runs for each text of overrides. All compile at the same time first (the disk cache keeps what they make),
then candidates are timed one after the other, those of a case in a row. Wrong results are rejected. After --seconds
no new measurement is started; finished ones are reported in any case.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import sys
import time

import sweep_presets
from coprocess import Bench


def combinations(text):
    """[(key, value), ...] for each combination of "key=a,b key=c"."""
    axes = [[(word.split("=", 1)[0], v) for v in word.split("=", 1)[1].split(",")] for word in text.split()]
    return [list(c) for c in itertools.product(*axes)]


def joined(pairs):
    return " ".join("=".join(pair) for pair in pairs)


def candidates(case):
    """(command, overrides) of every alternative of a case, each once."""
    common, _, alternatives = case.partition(":")
    if ":" not in case:
        common, _, overrides = case.partition("|")
        alternatives = "|" + overrides
    name, _, arguments = common.strip().partition(" ")
    found = []
    for alternative in alternatives.split(";"):
        more, _, overrides = alternative.partition("|")
        for args in combinations(arguments + " " + more):
            for tuning in combinations(overrides):
                found.append((f"{name} {joined(args)}", joined(tuning)))
    return list(dict.fromkeys(found))


def checked(answer):
    """The answer; one with wrong results has failed."""
    if answer.get("failed") or answer.get("correct"):
        return answer
    return answer | {"failed": f"wrong: error {answer.get('error')}"}


def measure(work, benches, until):
    """{(command, tuning): answer}; prints each case when it is done."""
    answers = {}
    for case, some in work:
        found = []
        for key in some:
            if key not in answers and time.monotonic() < until:
                answers[key] = checked(benches[key[1]].run(key[0], 40))
            answer = answers.get(key, {"failed": "no time left"})
            if not answer.get("failed"):
                found.append((answer["ms"], answer.get("TFLOP/s") or answer.get("GB/s"), *key))
        print(f"== {case.split(':')[0].strip()}: {len(found)} of {len(some)} ran")
        for ms, rate, command, tuning in sorted(found):
            arguments = " ".join(w for w in command.split() if w not in case.split(":")[0].split())
            print(f"   {ms:9.4f} ms {rate:9.1f}  {arguments} [{tuning or 'default'}]")
        sys.stdout.flush()
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--ms", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out")
    parser.add_argument("--preset", choices=sorted(sweep_presets.PRESETS))
    parser.add_argument("--list", action="store_true", help="only print the candidates")
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()

    until = time.monotonic() + options.seconds
    cases = list(options.case) + (sweep_presets.PRESETS[options.preset] if options.preset else [])
    work = [(case, candidates(case)) for case in cases]
    everything = list(dict.fromkeys(c for _, some in work for c in some))
    if options.list:
        for command, tuning in everything:
            print(f"{command}  [{tuning or 'default'}]")
        print(f"{len(everything)} candidates, {len(set(t for _, t in everything))} processes")
        return
    tunings = list(dict.fromkeys(t for _, t in everything))
    # Several processes for each text compile at the same time; one of each stays for the measurements.
    shares = [everything[i::options_jobs()] for i in range(options_jobs())]
    with concurrent.futures.ThreadPoolExecutor(options_jobs()) as pool:
        list(pool.map(lambda share: compile_all(options.bench, share, until), shares))
    benches = {t: Bench(options.bench, options.ms, tuning=t) for t in tunings}
    answers = measure(work, benches, until)
    for bench in benches.values():
        bench.close()
    failures = {k: a["failed"] for k, a in answers.items() if a.get("failed")}
    for (command, tuning), why in failures.items():
        print(f"failed: {command} [{tuning or 'default'}]: {why}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as out:
            for (command, tuning), answer in answers.items():
                out.write(json.dumps({"command": command, "tuning": tuning, **answer}) + "\n")


def options_jobs():
    return max(1, (os.cpu_count() or 2) - 1)


def compile_all(program, share, until):
    """Runs each candidate of a share once, only to compile its kernel."""
    benches = {}
    for command, tuning in share:
        if time.monotonic() < until:
            benches.setdefault(tuning, Bench(program, 0.01, tuning=tuning)).run(command, 120)
    for bench in benches.values():
        bench.close()


if __name__ == "__main__":
    main()
