#!/usr/bin/env python3
"""Measures Tessera's GPU benchmarks and their peers in alternation, and writes one JSON line per case.

    peers.py --bench PROGRAM --out FILE [--quick | --full] [--groups a,b] [--cases word+word,...] [--rounds N]
             [--device cuda|cpu] [--seconds N] [--jobs N]
    peers.py --precompile        runs torch.compile for all cases, for a later run
    peers.py --selftest

PROGRAM is gpu_bench, which is kept as a co-process. Each case is measured in rounds, Tessera and each peer once in each, in rotating order; the figure is the median of the rounds. "variants" names cuTile Python's fastest variant.
Before, every case is run once by several processes at a time, so that compiling does not disturb the measurements (and
wrong results are known). Without PyTorch the peers are left out. With --device cpu the sizes are
tiny: it shows that the programs work.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

import plan
from coprocess import Bench

ROUNDS = 5  # the clocks of a GPU at its power limit move by some percent between rounds
TOLERANCE = 1e-2  # of a peer's 16-bit results, relative norm


def read_case(case):
    """A pure read of as many bytes as a decode step reads: sums of rows."""
    a = case.arguments
    elements = 2 * a["batch"] * a.get("kv_heads", 8) * a["length"] * 128
    return f"row_sum rows={elements // 4096} columns=4096"


def twin_case(case):
    arguments = {k: v for k, v in case.arguments.items() if k not in ("dtype", "layout", "tile", "impl")}
    return dataclasses.replace(case, name=case.name + "_unsafe", arguments=arguments).command()


def warm_one(program, device, case):
    """Runs the case (and its peers of ours) once, each in a process of its own; the problems, or nothing."""
    problems = []
    for command, tuning in [(case.command(), "")] + list(own_peers(case).values()):
        try:
            done = subprocess.run(
                [program, "--device", device, "--ms", "0", "run"] + command.split(),
                capture_output=True,
                text=True,
                timeout=120,
                env=dict(os.environ, TESSERA_TUNING=tuning) if tuning else None,
            )
            answer = (
                json.loads(done.stdout)
                if done.stdout.startswith("{")
                else {"failed": f"exit {done.returncode}: {done.stderr.strip()[-300:]}"}
            )
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            answer = {"failed": str(e)[:300]}
        if "failed" in answer:
            problems.append(f"{command}: {answer['failed']}")
        elif not answer["correct"]:
            problems.append(f"{command}: WRONG, error {answer['error']} above {answer['tolerance']}")
    return problems


def chain_case(case):
    """The same work in launches that read each other's results. One launch may be two (there and back), so its time is
    compared by the work done."""
    return case.command() + " chain=1"


def own_peers(case):
    """{peer: (command of gpu_bench, TESSERA_TUNING)} of those that are ours."""
    known = {"read": (read_case, ""), "twin": (twin_case, ""), plan.IN_A_CHAIN: (chain_case, "")}
    known |= {tuning: (plan.Case.command, tuning) for tuning in plan.WITHOUT}
    return {peer: (make(case), tuning) for peer, (make, tuning) in known.items() if peer in case.peers}


def rates(case, ours, ms):
    """GB/s or TFLOP/s of a peer from its time, by the work that gpu_bench counts."""
    unit = "TFLOP/s" if "TFLOP/s" in ours else "GB/s"
    return unit, ours[unit] * ours["ms"] / ms


def peers_work(case, own, timer, torch_peers, notes, variants):
    """{peer: functions for Timer.median} of the peers that are not ours; notes of what does not run."""
    work = {}
    for peer in case.peers:
        if peer in own or torch_peers is None:
            continue
        if peer == "cuTile":
            work |= cutile_work(case, timer, notes, variants)
            continue
        try:
            work[peer] = torch_peers.MAKERS[case.name](case, peer == "torch.compile")
            for f in work[peer][:1]:
                f()
        except Exception as e:  # a peer that does not run is a note, not the end
            notes.append(f"{peer}: {type(e).__name__}: {str(e)[:200]}")
            work.pop(peer, None)
    return work


def orders(count, rounds):
    """The order of implementations in each round: the predecessor changes from round to round, and none runs twice in a row."""
    zigzag = [(i + 1) // 2 if i % 2 else -i // 2 for i in range(count)]  # neighbours differ by 1, -2, 3, ...
    shift, found = 0, []
    for _ in range(rounds):
        order = [(place + shift) % count for place in zigzag]
        if found and count > 1 and order[0] == found[-1][-1]:
            shift += 1
            order = [(place + shift) % count for place in zigzag]
        found.append(order)
        shift += 1
    return found


def take_turns(benches, case, own, work, timer, notes, rounds):
    """gpu_bench's last answer for the case, and {who: milliseconds of each round for as much work}."""
    ours, times, works = {}, {"tessera": []}, {}

    def run_ours():
        ours.update(benches[""].run(case.command()))
        return None if "failed" in ours else ours["ms"]

    def run_own(peer, command, tuning):
        other = benches[tuning].run(command)
        if "failed" in other:
            notes.append(f"{peer}: {other['failed'][:200]}")
        elif peer == plan.IN_A_CHAIN:
            works[peer] = other
        return other.get("ms")

    turns = [("tessera", run_ours)]
    turns += [(peer, functools.partial(timer.median, functions)) for peer, functions in work.items()]
    turns += [(peer, functools.partial(run_own, peer, *how)) for peer, how in own.items()]
    # No implementation always runs on the device that the same other one has heated, and none runs directly after itself,
    # when the device is hotter: there is no switch of the process in between.
    for order in orders(len(turns), rounds):
        for who, run in (turns[i] for i in order):
            ms = run()
            if ms is not None:
                times.setdefault(who, []).append(ms)
        if "failed" in ours:
            break
    for peer, other in works.items():
        unit = "flops" if ours.get("flops") else "bytes"
        times[peer] = [ms * ours.get(unit, 1) / other[unit] for ms in times[peer]]
    return ours, times


def described(case):
    return {"group": case.group, "name": case.name, "arguments": case.arguments, "requires": case.requires}


def measure(benches, case, timer, torch_peers, rounds):
    """One case: rounds of ours and each peer. `benches`: gpu_bench by its TESSERA_TUNING."""
    notes, variants = [], {}
    own = own_peers(case)
    work = peers_work(case, own, timer, torch_peers, notes, variants)
    ours, times = take_turns(benches, case, own, work, timer, notes, rounds)
    result = described(case) | {"notes": notes}
    if "failed" in ours:
        return result | {"failed": ours["failed"]}
    medians = {k: statistics.median(v) for k, v in times.items() if v}
    for k in ("error", "tolerance", "correct", "spread"):
        result[k] = ours[k]
    result["figures"] = {}
    for k, ms in medians.items():
        unit, rate = rates(case, ours, ms)
        result["figures"][k] = {"ms": round(ms, 6), unit: round(rate, 2)}
    if variants:
        result["variants"] = variants
    result["ratios"] = {k: round(ms / medians["tessera"], 4) for k, ms in medians.items() if k != "tessera"}
    result["rounds"] = {k: [round(x, 6) for x in v] for k, v in times.items()}
    return result


def fastest(timer, variants, error, notes, peer):
    """Of a peer's variants whose results are right the one of least time, as (name, functions for Timer.median); or
    nothing."""
    best, least = None, float("inf")
    for name, functions in variants.items():
        try:
            functions[0]()
            if not (off := error()) <= TOLERANCE:
                raise RuntimeError(f"wrong results, error {off:.2g}")
            count = max(1, min(20, int(2.0 / max(timer.timed(functions, 1), 1e-3))))
            ms = min(timer.timed(functions, count) for _ in range(3)) / count if len(variants) > 1 else 0.0
        except Exception as e:
            notes.append(f"{peer} ({name}): {type(e).__name__}: {str(e)[:200]}")
            continue
        if ms < least:
            best, least = (name, functions), ms
    return best


def cutile_work(case, timer, notes, variants):
    """cuTile Python's kernels for the case, where it is installed; `variants` gets the name of each peer's fastest."""
    try:
        import cutile_peers

        made, error = cutile_peers.MAKERS[case.name](case)
    except Exception as e:
        notes.append(f"cuTile: {type(e).__name__}: {str(e)[:200]}")
        return {}
    work = {}
    for peer, some in made.items():
        if best := fastest(timer, some, error, notes, peer):
            variants[peer], work[peer] = best
    return work


def warm_cutile(cases, options):
    """Starts processes that compile cuTile Python's kernels of the plan, where it is installed, beside our warm-up."""
    groups = sorted({c.group for c in cases if "cuTile" in c.peers})
    if options.device == "cpu" or not groups:
        return []
    try:
        import cutile_peers
    except Exception:  # the notes of its cases say why
        return []
    count = max(1, min(6, options.jobs // 2))
    program = [sys.executable, cutile_peers.__file__, "warm"]
    return [subprocess.Popen(program + [str(i), str(count), *groups], stdout=subprocess.DEVNULL) for i in range(count)]


def wait_for(processes, seconds):
    """Until all have ended, at most so long."""
    end = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def load_torch(device):
    if device == "cpu":
        return None, None
    try:
        import torch
        import torch_peers

        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no GPU")
        return torch, torch_peers
    except Exception as e:
        print(f"no PyTorch peers: {e}", file=sys.stderr)
        return None, None


def short(result):
    name = " ".join([result["name"]] + [f"{k}={v}" for k, v in result["arguments"].items()])
    if "failed" in result:
        return f"{name}: FAILED {result['failed'][:120]}"
    figure = {k: v for k, v in result["figures"]["tessera"].items() if k != "ms"}
    unit, rate = next(iter(figure.items()))
    ratios = ", ".join(f"{v:.3f} of {k}" for k, v in result["ratios"].items())
    return f"{name}: {rate:.1f} {unit} {ratios}{'' if result['correct'] else ' WRONG'}"


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--groups", default="")
    parser.add_argument("--cases", default="", help="those with all words of one of these: d=64,n=8192+layout=NT")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--ms", type=float, default=60, help="length of one measurement")
    parser.add_argument("--precompile", action="store_true")
    parser.add_argument("--selftest", action="store_true")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, found {options.rounds}")
    if options.device == "cpu":
        options.ms = 1
    return options


def chosen_cases(options):
    cases = [c for c in plan.all_cases() if options.full or not options.quick or c.quick]
    if options.groups:
        cases = [c for c in cases if c.group in options.groups.split(",")]
    if options.cases:
        wanted = [set(words.split("+")) for words in options.cases.split(",")]
        cases = [c for c in cases if any(words <= set(c.command().split()) for words in wanted)]
    if not cases:
        sys.exit(f"peers.py: no case fits --groups \"{options.groups}\" --cases \"{options.cases}\"; see plan.py")
    return [plan.tiny(c) for c in cases] if options.device == "cpu" else cases


def warm_up(cases, options):
    """Runs everything once, and prints what does not run or is wrong."""
    bad = set()
    others = warm_cutile(cases, options)
    # Half of the CPUs: every process holds its own tensors.
    processes = max(1, min(12, options.jobs // 2 if options.jobs > 3 else 1))
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        jobs = {}
        for c in cases:
            jobs[pool.submit(warm_one, options.bench, options.device, c)] = c.command()
        for job in concurrent.futures.as_completed(jobs):
            for problem in job.result():
                bad.add(jobs[job])
                print(f"warm-up: {problem}", flush=True)
    wait_for(others, 60)
    print(f"warmed up {len(cases)} cases, {len(bad)} with problems", flush=True)


def measure_all(cases, options, deadline, out):
    """Writes a line for each case; the number of those that no time was left for."""
    tunings = ("", *plan.WITHOUT)
    benches = {tuning: Bench(options.bench, options.ms, options.device, tuning or None) for tuning in tunings}
    torch, torch_peers = load_torch(options.device)
    timer = torch_peers.Timer(options.ms) if torch_peers else None
    left_out = 0
    for case in cases:
        if time.monotonic() > deadline - 8:
            left_out += 1
            continue
        try:
            result = measure(benches, case, timer, torch_peers, options.rounds)
        except Exception as e:
            result = described(case) | {"failed": f"{type(e).__name__}: {str(e)[:300]}"}
        result["device"] = benches[""].description
        result["torch"] = torch.__version__ if torch else ""
        print(json.dumps(result), file=out, flush=True)
        print(short(result), flush=True)
        if torch:
            torch.cuda.empty_cache()
    for bench in benches.values():
        bench.close()
    return left_out


def selftest():
    """Each implementation runs once per round, none twice in a row, and none always after the same one; all rest equally
    long."""
    for count in range(1, 7):
        rounds = orders(count, ROUNDS)
        turns = [i for order in rounds for i in order]
        assert len(rounds) == ROUNDS and all(sorted(order) == list(range(count)) for order in rounds), rounds
        assert count == 1 or all(a != b for a, b in zip(turns, turns[1:])), rounds
        behind = {i: {a for a, b in zip(turns, turns[1:]) if b == i} for i in range(count)}
        assert count < 3 or all(len(before) > 1 for before in behind.values()), rounds
    here = pathlib.Path(__file__).parent
    ours = re.search(r"kRestMs = ([0-9.]+)", (here / "../../src/measure/device_clock.hpp").read_text())
    theirs = re.search(r"REST_MS = [^#]*?([0-9.]+)  #", (here / "torch_peers.py").read_text())
    assert float(ours[1]) == float(theirs[1]), (ours[1], theirs[1])
    print("the order of turns is fair, and so are the rests")
    return 0


def main():
    options = parsed_options()
    if options.selftest:
        return selftest()
    cases = chosen_cases(options)
    if options.precompile:
        import torch_peers

        torch_peers.precompile(cases)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))
    deadline = time.monotonic() + options.seconds
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with open(options.out, "w", encoding="utf-8") as out:
        warm_up(cases, options)
        left_out = measure_all(cases, options, deadline, out)
    if left_out:
        print(f"{left_out} cases did not fit into the time")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
