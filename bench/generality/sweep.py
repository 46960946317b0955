#!/usr/bin/env python3
"""Measures every kernel of generality_bench with many choices of hints: the data from which defaults are learnt
(bench/notes/learnt_hints.md).

    sweep.py compile --bench PROGRAM --null-driver FOLDER --folder FOLDER [--jobs N] [--seconds N] [--only NAMES]
    sweep.py measure --bench PROGRAM --folder FOLDER [--part I/N] [--seconds N] [--ms N]
    sweep.py both --bench PROGRAM --folder FOLDER [--jobs N] [--seconds N] [--ms N] [--only NAMES]
                                             on one machine with both: cases are compiled while others are measured
    sweep.py join --bench PROGRAM --folder FOLDER --out FILE[.xz]    one line of JSON for each case and shape
    sweep.py learn --bench PROGRAM --folder FOLDER [--null-driver FOLDER] [--part I/N] [--jobs N]    kernels that learn by
                                             themselves compared with what the compiler chooses; with a null driver it
                                             compiles only, for a later call without one

`compile` needs the assembler and no GPU: kernels are launched on a driver that runs nothing (bench/host/null_driver.cpp).
For each case it writes what the compiler knows of its kernels and what it decides for each choice (TESSERA_DECISIONS) to
FOLDER/compiled/CASE.jsonl, and the compiled kernels to FOLDER/cache. `measure` times them; it needs no assembler.
Choices whose code is that of an earlier choice are not measured again. At the first shape of a case all choices are
measured; at the others the compiler's own and the best three of the first, and `both` compiles no others. Each of these
steps continues where an earlier call has ended.
"""

import argparse
import concurrent.futures
import itertools
import json
import lzma
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
from side import Side  # noqa: E402

REGISTERS, WARP, SHARING = 65536, 32, 4  # of an SM; threads; the fewest warps among which registers are divided
BEST = 3  # choices of the first shape that are measured at the others
SECONDS = "20"  # of the assembler for one kernel, as where users compile
CLOSE = 1.03  # choices within this of the best are measured once more


def blocks_of(warps, registers):
    """Blocks of an SM whose threads have so many registers each; 0: the assembler decides."""
    return 0 if registers is None else max(1, min(32, REGISTERS // (max(warps, SHARING) * WARP * registers)))


def choices_of(features):
    """The hints that are tried for a kernel, twelve at most: "" is what the compiler chooses."""
    if features.get("products", 0) == 0:
        limits = [(1, None), (2, None), (4, None), (8, None), (16, None), (1, 64), (2, 64), (4, 64), (8, 64), (4, 40)]
        words = [f"warps={w} occupancy={blocks_of(w, r)}" for w, r in limits] + ["pieces=4"]
    else:
        words = [f"warps=4 occupancy={o} latency={n}" for o, n in ((1, 4), (2, 2), (2, 3), (2, 4), (3, 2))]
        words += [f"warps=8 occupancy={o} latency={n}" for o, n in ((1, 3), (1, 5), (2, 2), (2, 4))]
        words += ["warps=2 occupancy=2", "warps=8 occupancy=1 ctas=2 latency=4"]
    return [""] + words


def cases_of(bench, only):
    """[(name, shape, arguments, family)]"""
    words = [bench, "--list"] + (["--only", only] if only else [])
    shapes = subprocess.run(words + ["--shapes"], capture_output=True, text=True)
    text = shapes.stdout if shapes.returncode == 0 else subprocess.run(words, capture_output=True, text=True, check=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    return [(c["name"], c.get("shape", 0), c["arguments"], c.get("family", "")) for c in lines]


class Decisions:
    """What a process appends to its file of decisions."""

    def __init__(self, path):
        self.path, self.at = path, 0

    def take(self):
        """The lines since the last call."""
        if not self.path.exists():
            return []
        with open(self.path, "rb") as file:
            file.seek(self.at)
            data = file.read()
        self.at += len(data)
        return [json.loads(line) for line in data.splitlines()]


# -- compiling ---------------------------------------------------------------------------------------------------------


def file_of(folder, kind, name, shape):
    return folder / kind / f"{name}.{shape}.jsonl"


def compile_case(side, decisions, case, write, choices=None):
    """Each choice for the case (choices_of, if none are given), in a process that has compiled nothing yet."""
    name, _, arguments, _ = case
    side.ask("hints")
    first = side.ask(f"compile {name} {arguments} one_set=1", 600)
    given = decisions.take()
    if "failed" in first:
        write({"hints": "", "failed": first["failed"][:300]})
        return
    # Under hints only the kernels of the case itself are compiled: its tensors are there.
    side.ask("hints warps=4")
    side.ask(f"compile {name} {arguments} one_set=1", 600)
    own = {line["kernel"] for line in decisions.take()}
    given = [line for line in given if line["kernel"] in own]
    write({"hints": "", "kernels": given})
    largest = max(given, key=lambda k: (k["features"]["products"] > 0, k["features"]["loaded_bytes"]), default=None)
    if choices is None:
        choices = choices_of(largest["features"]) if largest else []
    for choice in [c for c in choices if c]:
        answer = side.ask(f"hints {choice}")
        if "failed" not in answer:
            answer = side.ask(f"compile {name} {arguments} one_set=1", 600)
        failed = {"failed": answer["failed"][:300]} if "failed" in answer else {}
        write({"hints": choice, "kernels": decisions.take()} | failed)


class Compiler:
    """What one worker compiles with: a process for each case, and the file to which they append their decisions."""

    def __init__(self, options, number):
        log = options.folder / "decisions" / f"{os.getpid()}-{number}.jsonl"
        self.options, self.decisions = options, Decisions(log)
        self.environment = {
            "TESSERA_CACHE_DIR": str(options.folder / "cache"),
            "TESSERA_CACHE_MB": "100000",
            "TESSERA_DECISIONS": str(log),
            "TESSERA_TILEIRAS_SECONDS": SECONDS,
            "LD_LIBRARY_PATH": options.null_driver,
            "NULL_DRIVER_SM": options.target.removeprefix("sm_"),
            "TESSERA_DEVICE": "cuda",
        }

    def compile(self, case, choices=None):
        path = file_of(self.options.folder, "compiled", case[0], case[1])
        if path.exists():
            return
        lines = []
        side = Side([self.options.bench, "--unchecked", "--device", "cuda", "--serve"], self.environment)
        compile_case(side, self.decisions, case, lines.append, choices)
        side.close()
        done = path.with_suffix(".part")
        done.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        done.rename(path)


def make_folders(options):
    for kind in ("compiled", "cache", "decisions", "times"):
        (options.folder / kind).mkdir(parents=True, exist_ok=True)


def compile_all(options):
    make_folders(options)
    work = queue.SimpleQueue()
    cases = cases_of(options.bench, options.only)
    for case in cases:
        work.put(case)
    deadline = time.monotonic() + options.seconds

    def worker(number):
        compiler = Compiler(options, number)
        try:
            while time.monotonic() < deadline:
                compiler.compile(work.get_nowait())
        except queue.Empty:
            pass

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for one in [pool.submit(worker, n) for n in range(options.jobs)]:
            one.result()
    done = sum(file_of(options.folder, "compiled", c[0], c[1]).exists() for c in cases)
    print(f"{done} of {len(cases)} cases and shapes are compiled, {time.monotonic() - start:.0f} s")
    return 0 if done == len(cases) else 3


# -- measuring ---------------------------------------------------------------------------------------------------------


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def distinct(compiled):
    """{hints: the earlier hints whose code is the same, or itself} of the choices that were compiled."""
    seen, same = {}, {}
    for line in compiled:
        if "failed" in line or not line.get("kernels"):
            continue
        code = tuple(sorted(k["code"] for k in line["kernels"]))
        same[line["hints"]] = seen.setdefault(code, line["hints"])
    return same


def measure_case(side, case, wanted, rounds=2):
    """{hints: [ms, ...]}: all in turns, then those near the best again."""
    name, _, arguments, _ = case
    times, failed = {}, {}

    def once(hints):
        side.ask(f"hints {hints}")
        answer = side.ask(f"run {name} {arguments}", 60)
        if "ms" in answer:
            times.setdefault(hints, []).append(answer["ms"])
        else:
            failed[hints] = answer.get("failed", "")[:200]
            side.close()  # a device that had a fault is of no use to the process any more

    side.ask("hints")
    for hints in wanted:
        once(hints)
    for _ in range(rounds):
        best = min((statistics.median(t) for t in times.values()), default=0)
        for hints in [h for h, t in times.items() if h not in failed and (not h or statistics.median(t) <= CLOSE * best)]:
            once(hints)
    return times, failed


def best_of_first_shape(folder, name):
    """The choices of the first shape that are worth measuring at others, the fastest first."""
    known = read_lines(file_of(folder, "times", name, 0))
    return [h for _, h in sorted((statistics.median(line["ms"]), line["hints"]) for line in known if "ms" in line)[:BEST]]


def measuring_side(options):
    environment = {
        "TESSERA_CACHE_DIR": str(options.folder / "cache"),
        "TESSERA_CACHE_MB": "100000",
        "TESSERA_DEVICE": "cuda",
        "TESSERA_TILEIRAS_SECONDS": SECONDS,
    }
    return Side([options.bench, "--unchecked", "--device", "cuda", "--ms", str(options.ms), "--serve"], environment)


def measure_one(side, folder, case):
    path = file_of(folder, "times", case[0], case[1])
    if path.exists():
        return
    same = distinct(read_lines(file_of(folder, "compiled", case[0], case[1])))
    wanted = [h for h, first in same.items() if h == first]
    if case[1] > 0:
        best = best_of_first_shape(folder, case[0])
        wanted = [h for h in wanted if not h or h in best]
    times, failed = measure_case(side, case, wanted)
    lines = [{"hints": h, "ms": t} for h, t in times.items()] + [{"hints": h, "failed": f} for h, f in failed.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def measure_all(options):
    folder = options.folder
    make_folders(options)
    side = measuring_side(options)
    index, parts = (int(n) for n in options.part.split("/"))
    deadline, left = time.monotonic() + options.seconds, 0
    cases = [c for c in cases_of(options.bench, options.only) if file_of(folder, "compiled", c[0], c[1]).exists()]
    names = sorted({c[0] for c in cases})[index::parts]
    for case in sorted((c for c in cases if c[0] in names), key=lambda c: (c[1], c[0])):
        if time.monotonic() < deadline:
            measure_one(side, folder, case)
        else:
            left += 1
    side.close()
    print(f"measured; {left} cases did not fit into the time")
    return 3 if left else 0


def both(options):
    """Workers compile, first shapes first; this thread measures what is compiled, and hands them the other shapes."""
    make_folders(options)
    cases = cases_of(options.bench, options.only)
    others = {name: [c for c in cases if c[0] == name and c[1] > 0] for name in {c[0] for c in cases}}
    work, compiled, numbers = queue.PriorityQueue(), queue.SimpleQueue(), itertools.count()
    deadline = time.monotonic() + options.seconds
    for case in cases:
        if case[1] == 0:
            work.put((0, next(numbers), case, None))

    def worker(number):
        compiler = Compiler(options, number)
        while time.monotonic() < deadline:
            try:
                _, _, case, choices = work.get(timeout=1)
            except queue.Empty:
                continue
            compiler.compile(case, choices)
            compiled.put(case)

    side, left = measuring_side(options), len(cases)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        workers = [pool.submit(worker, n) for n in range(options.jobs)]
        while left > 0 and time.monotonic() < deadline and not any(w.done() for w in workers):
            try:
                case = compiled.get(timeout=1)
            except queue.Empty:
                continue
            measure_one(side, options.folder, case)
            left -= 1
            if case[1] == 0:
                for other in others[case[0]]:
                    work.put((1, next(numbers), other, best_of_first_shape(options.folder, case[0])))
        deadline = time.monotonic()
        for one in workers:
            one.result()
    side.close()
    print(f"{len(cases) - left} of {len(cases)} cases and shapes are measured")
    return 3 if left else 0


# -- learning ----------------------------------------------------------------------------------------------------------


def learn_case(options, case, number):
    """Two processes, one of which learns; what each measured, or why not. What is learnt is forgotten."""
    name, shape, arguments, _ = case
    own = options.folder / "learn" / f"{name}.{shape}.{number}"
    own.mkdir(parents=True, exist_ok=True)
    (options.folder / "cache" / "kernels").mkdir(parents=True, exist_ok=True)
    if not (own / "kernels").is_symlink():
        (own / "kernels").symlink_to(options.folder / "cache" / "kernels")
    environment = {"TESSERA_CACHE_DIR": str(own), "TESSERA_CACHE_MB": "100000", "TESSERA_DEVICE": "cuda"}
    if options.null_driver:
        environment |= {"LD_LIBRARY_PATH": options.null_driver, "NULL_DRIVER_SM": options.target.removeprefix("sm_")}
    command = [options.bench, "--unchecked", "--device", "cuda", "--ms", str(options.ms), "--serve"]
    sides = [Side(command, environment | {"TESSERA_LEARN": on}) for on in "01"]
    found = {"case": name, "shape": shape}
    if options.null_driver:
        answer = sides[1].ask(f"compile {name} {arguments} one_set=1", 600)
        found |= {"failed": answer["failed"][:200]} if "failed" in answer else {}
    else:
        answers = [sides[i].ask(f"{word} {name} {arguments}", 120) for i, word in ((0, "run"), (1, "learn"), (0, "run"), (1, "run"))]
        failed = [a["failed"] for a in answers if "failed" in a]
        if failed:
            found["failed"] = failed[0][:200]
        else:
            found["chosen_ms"] = min(answers[0]["ms"], answers[2]["ms"])
            found["learnt_ms"] = min(answers[1]["ms"], answers[3]["ms"])
    for side in sides:
        side.close()
    if (own / "learnt.tune").exists():
        records = [json.loads(line) for line in (own / "learnt.tune").read_text().splitlines()[1:]]
        found["learnt"] = {r["kernel"]: r["hints"] for r in records if not r["kernel"].startswith("fill_")}
        (own / "learnt.tune").unlink()
    return found


def learn(options):
    index, parts = (int(n) for n in options.part.split("/"))
    cases = [c for c in cases_of(options.bench, options.only) if c[1] == 0][index::parts]
    deadline = time.monotonic() + options.seconds
    jobs = options.jobs if options.null_driver else 1  # on a GPU one case at a time
    path = options.folder / f"learnt.{index}.jsonl"

    def one(numbered):
        return learn_case(options, numbered[1], numbered[0]) if time.monotonic() < deadline else None

    options.folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool, open(path, "w", encoding="utf-8") as out:
        for found in pool.map(one, enumerate(cases)):
            if found:
                print(json.dumps(found), file=out, flush=True)
    return 0


# -- the data ----------------------------------------------------------------------------------------------------------

NUMBERS = ("warps", "ctas", "occupancy", "latency", "pieces", "registers", "stack", "shared", "threads", "seconds")


def joined(folder, case):
    """A case and shape: its main kernel's features, and of each choice what was decided, what came of it, its time."""
    name, shape, arguments, family = case
    compiled = read_lines(file_of(folder, "compiled", name, shape))
    times = {line["hints"]: line for line in read_lines(file_of(folder, "times", name, shape))}
    given = next((line for line in compiled if line["hints"] == "" and line.get("kernels")), None)
    if given is None:
        return None
    main = max(given["kernels"], key=lambda k: (k["features"]["products"] > 0, k["features"]["loaded_bytes"]))
    same, choices = distinct(compiled), []
    for line in compiled:
        kernel = next((k for k in line.get("kernels", []) if k["kernel"] == main["kernel"]), None)
        choice = {"hints": line["hints"]} | ({k: kernel[k] for k in NUMBERS} if kernel else {})
        if "failed" in line:
            choice["failed"] = line["failed"]
        measured = times.get(same.get(line["hints"], line["hints"]), {})
        if "ms" in measured:
            choice["ms"] = float(f"{statistics.median(measured['ms']):.5g}")
        choices.append(choice)
    return {
        "case": name, "family": family, "shape": shape, "arguments": arguments, "kernels": len(given["kernels"]),
        "kernel": main["kernel"], "form": main["form"], "features": main["features"], "choices": choices,
    }  # fmt: skip


def join(options):
    count = 0
    with (lzma.open if options.out.endswith(".xz") else open)(options.out, "wt", encoding="utf-8") as out:
        for case in cases_of(options.bench, options.only):
            if (line := joined(options.folder, case)) is not None:
                print(json.dumps(line), file=out)
                count += 1
    print(f"{count} cases and shapes")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("compile", "measure", "both", "join", "learn"))
    parser.add_argument("--bench", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--null-driver", default="")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--ms", type=float, default=15)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", default="corpus.jsonl")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    return {"compile": compile_all, "measure": measure_all, "both": both, "join": join, "learn": learn}[options.step](options)


if __name__ == "__main__":
    sys.exit(main())
