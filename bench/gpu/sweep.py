#!/usr/bin/env python3
"""Measures one benchmark under many overrides of the compiler's choices (TESSERA_TUNING), to calibrate its cost model.

  sweep.py --bench build/.../gpu_bench [--ms N] [--jobs N] [--out FILE] CASE...

A CASE is "NAME key=value ... | key=a,b,c key=a,b": the command of gpu_bench, then the values to combine. Keys before
the bar may have several values as well (tile=128x128x64,256x128x64). Candidates are compiled in parallel first (the
disk cache keeps them), then timed one after the other, each beside the default choices. Wrong results are refused.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import subprocess
import sys


def combinations(text):
    """[(key, value), ...] for each combination of "key=a,b key=c"."""
    axes = [[(word.split("=", 1)[0], v) for v in word.split("=", 1)[1].split(",")] for word in text.split()]
    return [list(c) for c in itertools.product(*axes)]


def candidates(case):
    command, _, overrides = case.partition("|")
    name, _, arguments = command.strip().partition(" ")
    for args in combinations(arguments):
        for tuning in combinations(overrides) or [[]]:
            yield " ".join([name] + ["=".join(a) for a in args]), " ".join("=".join(t) for t in tuning)


def measure(bench, command, tuning, ms, seconds=60):
    env = dict(os.environ)
    env.pop("TESSERA_TUNING", None)
    if tuning:
        env["TESSERA_TUNING"] = tuning
    try:
        done = subprocess.run([bench, "--ms", str(ms), "run"] + command.split(), env=env, timeout=seconds,
                              capture_output=True, text=True)
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"failed": f"ran past {seconds} s"}
    except (IndexError, json.JSONDecodeError):
        return {"failed": (done.stderr or done.stdout)[-200:]}
    if not answer.get("failed") and not answer.get("correct"):
        answer["failed"] = f"wrong: error {answer.get('error')}"
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--ms", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out")
    parser.add_argument("--top", type=int, default=4)
    parser.add_argument("case", nargs="+")
    options = parser.parse_args()

    work = [(case, list(candidates(case))) for case in options.case]
    everything = list(dict.fromkeys(c for _, some in work for c in some))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda c: measure(options.bench, *c, ms=1), everything))
    records = []
    for case, some in work:
        found = []
        for command, tuning in some:
            answer = measure(options.bench, command, tuning, options.ms)
            records.append({"command": command, "tuning": tuning, **answer})
            if not answer.get("failed"):
                found.append((answer["ms"], answer.get("TFLOP/s") or answer.get("GB/s"), command, tuning))
        found.sort()
        print(f"== {case}: {len(found)} of {len(some)} ran")
        for ms, rate, command, tuning in found[: options.top]:
            print(f"   {ms:9.4f} ms {rate:9.1f}  {command}  [{tuning or 'default'}]")
        for ms, rate, command, tuning in found:
            if not tuning:
                print(f"   {ms:9.4f} ms {rate:9.1f}  {command}  [default]")
        sys.stdout.flush()
    if options.out:
        with open(options.out, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(r) + "\n" for r in records)


if __name__ == "__main__":
    main()
