#!/usr/bin/env python3
"""Measures generality_bench and PyTorch in turns, eager and compiled, and writes one JSON line per case, with the keys
of bench/gpu; table.py makes the table.

    peers.py --bench PROGRAM --out FILE [--only NAMES] [--rounds N] [--ms N] [--seconds N]
    peers.py --bench PROGRAM --hints --out FILE [--only NAMES] [--jobs N] [--words LIST]    each kernel by every one of
                                                                             WORDS, or of those of LIST
    peers.py --bench PROGRAM --verify [--compiled] [--device cpu] [--only NAMES]

With --shapes all three shapes of each case are measured, and not the first alone; the second and third are called
NAME/1 and NAME/2.

--verify runs our kernels at small sizes, and PyTorch's functions on the same inputs, and compares all results; measuring
does so first, on the GPU. At full size, where inputs are PyTorch's own, what is compiled is compared with what is eager.
torch.compile is called with its default mode and dynamic=False. If a case can be written in several ways, the fastest counts. Timing is that of bench/gpu: batches between events, disjoint groups of tensors that exceed the caches,
medians of rounds in changing order. With --device cpu sizes are small and PyTorch is left out of what is measured: it
shows that the programs work.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent / "gpu"))
import plan  # noqa: E402
from coprocess import Bench  # noqa: E402

DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "i8": "int8"}
DTYPES |= {"u8": "uint8", "bool": "bool", "i16": "int16", "i64": "int64"}
# Of TESSERA_TUNING: what a user could hint.
WORDS = [f"warps={n}" for n in (1, 2, 4, 8, 16)] + [f"occupancy={n}" for n in (1, 2, 4, 8)] + ["ctas=2"]
WORDS += [f"latency={n}" for n in (1, 3, 5, 8)] + [f"access={w}" for w in ("view", "pointer", "tma")]
WORDS += [f"stores={w}" for w in ("view", "tma")] + ["hints=0", "spread=2"]
WORDS += [f"pieces={n}" for n in (1, 2, 4, 8, 16, 32)]
FIRST_CALL_SECONDS = 120  # of a peer, compiling included
CLOSE = 1.04  # a hint that gains less is not measured again


def gpu_peers():
    """bench/gpu/peers.py, which has this file's name."""
    spec = importlib.util.spec_from_file_location("gpu_peers", HERE.parent / "gpu" / "peers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases_of(options, small=False):
    """The table of the program: name, family, shape, arguments, bytes, flops, inputs, outputs."""
    words = [options.bench, "--list"] + (["--small"] if small else []) + (["--only", options.only] if options.only else [])
    words += ["--shapes"] if options.shapes and not small else []
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    cases = [json.loads(line) for line in lines]
    for case in cases:
        case["arguments"] = {k: int(v) for k, v in (word.split("=") for word in case["arguments"].split())}
    if not cases:
        sys.exit(f"peers.py: no case fits --only {options.only}")
    return cases


# -- inputs and results ----------------------------------------------------------------------------------------------


def made(torch, text, device):
    """An input as generality_bench describes it, of PyTorch's own random numbers."""
    dtype, dims, low, high = getattr(torch, DTYPES[text["type"]]), text["dims"], text["low"], text["high"]
    if text["fill"] == "normal":
        return torch.randn(*dims, device=device, dtype=dtype)
    if text["fill"] == "uniform":
        return (low + (high - low) * torch.rand(*dims, device=device)).to(dtype)
    if text["fill"] == "steps":
        at = torch.arange(dims[0], device=device) * int(high)
        return (at + torch.randint(int(high), (dims[0],), device=device)).to(dtype)
    return torch.randint(int(low), int(high), tuple(dims), device=device, dtype=torch.int32).to(dtype)


def listed(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def distance(torch, found, wanted):
    """The largest relative norm of the differences, over all outputs."""
    found, wanted, worst = listed(found), listed(wanted), 0.0
    if len(found) != len(wanted):
        raise RuntimeError(f"{len(found)} results, expected {len(wanted)}")
    for f, w in zip(found, wanted):
        if tuple(f.shape) != tuple(w.shape):
            raise RuntimeError(f"a result of {tuple(f.shape)}, expected {tuple(w.shape)}")
        f, w = f.float(), w.float()
        off = ((f - w).norm() / w.norm().clamp(min=1e-30)).item()
        worst = max(worst, off if off == off else float("inf"))
    return worst


def allowed(case, functions):
    return functions.ROUNDED.get(functions.work_of(case["name"]), functions.TOLERANCE)


def verified(torch, functions, options):
    """{name: the difference, or ""} of all cases at small sizes, on the inputs and results of our own run."""
    device, outcome = options.device, {}
    with tempfile.TemporaryDirectory() as folder:
        words = [options.bench, "--small", "--first", "--dump", folder]
        words += ["--only", options.only] if options.only else []
        ran = subprocess.run(words, env=dict(os.environ, TESSERA_DEVICE=device), capture_output=True, text=True)
        if ran.returncode:
            print(ran.stdout[-2000:] + ran.stderr[-2000:])
        for case in cases_of(options, small=True):
            outcome[case["name"]] = verified_case(torch, functions, case, folder, device, options.compiled)
    return outcome


def verified_case(torch, functions, case, folder, device, compiled):
    import numpy

    def loaded(kind, texts):
        arrays = [numpy.load(f"{folder}/{case['name']}/{kind}{i}.npy") for i in range(len(texts))]
        dtypes = [getattr(torch, DTYPES[t["type"]]) for t in texts]
        return [torch.from_numpy(a).to(device=device, dtype=d) for a, d in zip(arrays, dtypes)]

    try:
        x, y = loaded("x", case["inputs"]), loaded("y", case["outputs"])
        problems = []
        for name, f in ways_of(torch, functions, case, compiled, device):
            results = f(*x)
            if functions.work_of(case["name"]) in functions.RANDOM:
                continue
            off = distance(torch, results, y)
            if not off <= allowed(case, functions):
                problems.append(f"{name}: off by {off:.2g}")
        return "; ".join(problems)
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:300]}"


# -- measuring -------------------------------------------------------------------------------------------------------


def ways_of(torch, functions, case, compiled, device):
    """{name: function of the inputs}"""
    for name, f in (functions.compiled_of if compiled else functions.functions_of)(case, device).items():
        if compiled:
            torch._dynamo.reset()
            f = torch.compile(f, dynamic=False)
        yield name, f


class Limit:
    """Ends a block that takes longer with a TimeoutError: torch.compile of a long loop may take minutes."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def end(*_):
            raise TimeoutError(f"longer than {self.seconds} s")

        self.before = signal.signal(signal.SIGALRM, end)
        signal.alarm(self.seconds)

    def __exit__(self, *_):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)


def fastest_way(torch, functions, case, compiled, device, inputs, timer, notes, expected):
    """((name, functions for Timer.median), results) of the fastest way that is right, or (None, None)."""
    peer = "torch.compile" if compiled else "torch"
    random = functions.work_of(case["name"]) in functions.RANDOM
    best, results, least = None, None, float("inf")
    for name, f in ways_of(torch, functions, case, compiled, device):
        try:
            calls = [lambda x=x, f=f: f(*x) for x in inputs]
            with Limit(FIRST_CALL_SECONDS):
                found = calls[0]()
            off = 0.0 if random or expected is None else distance(torch, found, expected)
            if not off <= 2 * allowed(case, functions):
                raise RuntimeError(f"wrong results, off by {off:.2g}")
            count = max(1, min(20, int(2.0 / max(timer.timed(calls, 1), 1e-3))))
            ms = min(timer.timed(calls, count) for _ in range(3)) / count
        except Exception as e:
            notes.append(f"{peer} ({name}): {type(e).__name__}: {str(e)[:200]}")
            continue
        if ms < least:
            best, results, least = (name, calls), found, ms
    return best, results


def peers_work(torch, functions, torch_peers, case, timer, notes, variants, device):
    """{peer: functions for Timer.median}, and the name of each one's way in `variants`."""
    work, expected = {}, None
    sets = torch_peers.sets_for(case["bytes"])
    inputs = [[made(torch, text, device) for text in case["inputs"]] for _ in range(sets)]
    for peer, compiled in (("torch", False), ("torch.compile", True)):
        best, results = fastest_way(torch, functions, case, compiled, device, inputs, timer, notes, expected)
        if best:
            variants[peer], work[peer] = best
            expected = results if expected is None else expected
    return work


def measure(peers, benches, case, work, timer, notes, options):
    """One case: rounds of ours and of each peer."""
    asked = plan.Case("generality", case["name"], case["arguments"], list(work))
    ours, times = peers.take_turns(benches, asked, {}, work, timer, notes, options.rounds)
    result = peers.described(asked) | {"notes": notes}
    if "failed" in ours:
        return result | {"failed": ours["failed"]}
    medians = {k: statistics.median(v) for k, v in times.items() if v}
    for k in ("error", "tolerance", "correct", "spread", "roofline_ms"):
        result[k] = ours[k]
    result["figures"] = {}
    for k, ms in medians.items():
        unit, rate = peers.rates(asked, ours, ms)
        result["figures"][k] = {"ms": round(ms, 6), unit: round(rate, 2)}
    result["ratios"] = {k: round(ms / medians["tessera"], 4) for k, ms in medians.items() if k != "tessera"}
    result["rounds"] = {k: [round(x, 6) for x in v] for k, v in times.items()}
    return result


def short(result):
    if "failed" in result:
        return f"{result['name']}: FAILED {result['failed'][:120]}"
    ratios = ", ".join(f"{v:.3f} of {k}" for k, v in result["ratios"].items())
    wrong = "" if result["correct"] else " WRONG"
    return f"{result['name']}: {result['figures']['tessera']['ms']:.4f} ms, {ratios}{wrong}"


def load_torch(options):
    """PyTorch, this benchmark's functions and bench/gpu's timing; None where they are left out."""
    if options.device == "cpu":
        return None, None, None
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
    import torch
    import torch_functions
    import torch_peers

    return torch, torch_functions, torch_peers


def first_calls(options):
    """Each of PyTorch's compiled ways once: what it compiles stays in its caches on disk."""
    import torch
    import torch_functions

    for case in cases_of(options):
        inputs = [made(torch, text, options.device) for text in case["inputs"]]
        for name, f in ways_of(torch, torch_functions, case, True, options.device):
            try:
                with Limit(FIRST_CALL_SECONDS):
                    f(*inputs)
                torch.cuda.synchronize()
            except Exception as e:
                print(f"{case['name']} ({name}): {type(e).__name__}: {str(e)[:200]}", flush=True)
        del inputs
        torch.cuda.empty_cache()
    return 0


def compile_all(options):
    """Compiles all of PyTorch's and ours, several processes at a time: the caches on disk save most of the time."""
    names = list(dict.fromkeys(case["name"] for case in cases_of(options)))
    shapes = ["--shapes"] if options.shapes else []
    environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_FX_GRAPH_CACHE="1")

    def compiled(name):
        ours = [options.bench, "--only", name]
        subprocess.run(ours + ["--small", "--first"], capture_output=True)
        subprocess.run(ours + ["--ms", "0", "--device", options.device] + shapes, capture_output=True)

    with concurrent.futures.ThreadPoolExecutor(2 * options.jobs) as pool:
        some = [names[i :: options.jobs] for i in range(options.jobs)]
        torchs = [sys.executable, __file__, "--bench", options.bench, "--first-calls", *shapes, "--only"]
        running = [
            pool.submit(subprocess.run, torchs + [",".join(n)], env=environment, timeout=options.seconds)
            for n in some
            if n
        ]
        running += [pool.submit(compiled, name) for name in names]
        for one in running:
            try:
                one.result()
            except subprocess.TimeoutExpired:
                print("compiling did not end in time", flush=True)


def measure_all(options):
    start = time.monotonic()
    if options.device != "cpu":
        compile_all(options)
        print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)
    torch, functions, torch_peers = load_torch(options)
    peers = gpu_peers()
    disagreeing = verified(torch, functions, options) if torch else {}  # name: how
    for name, problem in disagreeing.items():
        if problem:
            print(f"at small sizes: {name}: {problem}", flush=True)
    benches = {"": Bench(options.bench, options.ms, options.device)}
    timer = torch_peers.Timer(options.ms) if torch else None
    deadline, left_out = start + options.seconds, 0
    with open(options.out, "w", encoding="utf-8") as out:
        for case in cases_of(options, options.device == "cpu"):
            if time.monotonic() > deadline:
                left_out += 1
                continue
            notes, variants, work = [], {}, {}
            try:
                if torch:
                    work = peers_work(torch, functions, torch_peers, case, timer, notes, variants, options.device)
                result = measure(peers, benches, case, work, timer, notes, options)
            except Exception as e:
                result = {"group": "generality", "name": case["name"], "arguments": case["arguments"], "requires": []}
                result |= {"notes": notes, "failed": f"{type(e).__name__}: {str(e)[:300]}"}
            result |= {"family": case["family"], "shape": case["shape"]}
            result |= {"variants": variants, "peers_agree": not disagreeing.get(case["name"])}
            result |= {"device": benches[""].description, "torch": torch.__version__ if torch else ""}
            print(json.dumps(result), file=out, flush=True)
            print(short(result), flush=True)
            work.clear()
            if torch:
                torch.cuda.empty_cache()
    benches[""].close()
    if left_out:
        print(f"{left_out} cases did not fit into the time")
    return 3 if left_out else 0


# -- hints -----------------------------------------------------------------------------------------------------------


def label_of(case):
    return case["name"] + (f"/{case['shape']}" if case["shape"] else "")


def commands_of(cases):
    return {label_of(c): " ".join([c["name"]] + [f"{k}={v}" for k, v in c["arguments"].items()]) for c in cases}


def run_by_word(options, word, commands, ms):
    """{name: milliseconds} under a setting of TESSERA_TUNING ("": by default), in one process; cases that fail are left out.
    Results are not compared: in_turns() does."""
    bench, found = Bench(options.bench, ms, options.device, word, checked=False), {}
    for name, command in commands.items():
        answer = bench.run(command, 300)
        if "ms" in answer and answer.get("correct", True):
            found[name] = answer["ms"]
    bench.close()
    return found


def measure_hints(options):
    commands = commands_of(cases_of(options, options.device == "cpu"))
    words = [""] + (options.words.split(",") if options.words else WORDS)
    deadline = time.monotonic() + options.seconds
    # First everything is compiled, several processes at a time: a measurement has the device to itself.
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda word: run_by_word(options, word, commands, 0), words))
    times = {}
    for word in words:
        if time.monotonic() > deadline:
            print(f"{word}: did not fit into the time", flush=True)
            continue
        times[word] = run_by_word(options, word, commands, options.ms)
        print(f"{word or 'by default'}: {len(times[word])} of {len(commands)} cases", flush=True)
    with open(options.out, "w", encoding="utf-8") as out:
        for name, command in commands.items():
            hints = {word: found[name] for word, found in times.items() if word and name in found}
            default = times.get("", {}).get(name)
            if default is None or not hints:
                print(json.dumps({"name": name, "failed": "not measured"}), file=out)
                continue
            best = min(hints, key=hints.get)
            result = {"name": name, "default_ms": default, "best": best, "best_ms": hints[best], "hints": hints}
            if default > CLOSE * hints[best] and time.monotonic() < deadline:
                result |= in_turns(options, name, command, best)
            print(json.dumps(result), file=out, flush=True)
            print(f"{name}: {default:.4f} ms, {best} {hints[best]:.4f} ms", flush=True)
    return 0


def in_turns(options, name, command, best):
    """The default and the best setting once more, in turns: the clocks of a GPU move between one process and the next."""
    both = {word: Bench(options.bench, options.ms, options.device, word) for word in ("", best)}
    times = {word: [] for word in both}
    for _ in range(options.rounds):
        for word, bench in both.items():
            answer = bench.run(command, 300)
            if "ms" in answer:
                times[word].append(answer["ms"])
    for bench in both.values():
        bench.close()
    if not all(times.values()):
        return {}
    return {"default_ms": statistics.median(times[""]), "best_ms": statistics.median(times[best])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ms", type=float, default=60, help="length of one measurement")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--words", default="")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--hints", action="store_true")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--first-calls", action="store_true", help="PyTorch's compiled functions once, nothing else")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--shapes", action="store_true", help="all three shapes of each case")
    options = parser.parse_args()
    if options.device == "cpu":
        options.ms = 1
    if options.verify:
        import torch
        import torch_functions

        outcome = verified(torch, torch_functions, options)
        for name, problem in outcome.items():
            print(f"{name:28} {problem or 'ok'}")
        bad = sum(1 for problem in outcome.values() if problem)
        print(f"{len(outcome) - bad} of {len(outcome)} functions agree")
        return 1 if bad else 0
    if options.first_calls:
        return first_calls(options)
    if not options.out:
        parser.error("--out FILE is needed")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    return measure_hints(options) if options.hints else measure_all(options)


if __name__ == "__main__":
    sys.exit(main())
