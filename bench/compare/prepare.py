#!/usr/bin/env python3
"""Fills a folder for run.py: two builds of compare_bench, the cases, and every kernel of theirs, compiled without a GPU.

    prepare.py FOLDER --old PROGRAM --new PROGRAM --null-driver LIBRARY [--names OLD NEW]
               [--seed N] [--count N | --cases FILE] [--assembler FILE] [--target sm_90] [--jobs N] [--seconds N] [--tiny]

Each program launches each case once with a driver that runs nothing (bench/host/null_driver.cpp), so that kernels are
recorded and specialized as on the GPU; what Tessera then compiles stays in the folder's cache, which both builds share.
A second call continues where the first one has ended. The folder needs no assembler afterwards: a substitute reports the
version of the one that was used. With --assembler "" nothing is compiled (for a comparison on the CPU).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import threading
import time

import cases as table
from run import environment_of
from side import CannotStart, Side

SUBSTITUTE = """#!/bin/sh
# Reports the version of NVIDIA's assembler where there is none: the cache's kernels are found by it.
here=$(dirname "$0")
case "$1" in
  --version) exec cat "$here/tileiras.version" ;;
  --list-versions) exec cat "$here/tileiras.versions" ;;
esac
[ -x "$GPU_COMPARE_ASSEMBLER" ] && exec "$GPU_COMPARE_ASSEMBLER" "$@"
echo "this kernel was not compiled beforehand, and there is no assembler here" >&2
exit 1
"""
MOMENT = 1700000000  # any fixed time: kernels are found by the time of the substitute, too


def take_program(program, folder):
    """A stripped copy; it keeps its build ID, by which cached facts are found."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "compare_bench"
    if subprocess.run(["strip", "-o", target, program], capture_output=True).returncode != 0:
        shutil.copy(program, target)
    target.chmod(0o755)


def write_substitute(folder, assembler):
    for name, option in (("tileiras.version", "--version"), ("tileiras.versions", "--list-versions")):
        answer = subprocess.run([assembler, option], capture_output=True, text=True, check=True).stdout
        (folder / name).write_text(answer)
    path = folder / "tileiras"
    path.write_text(SUBSTITUTE)
    path.chmod(0o755)
    os.utime(path, (MOMENT, MOMENT))
    (folder / "tileiras.time").write_text(str(MOMENT))


class Progress:
    """What is compiled already, in a file for each build."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        self.done = json.loads(path.read_text()) if path.exists() else {}

    def add(self, command, answer):
        with self.lock:
            self.done[command] = answer
            self.path.write_text(json.dumps(self.done))


def groups_of(commands):
    """Cases of one function and type stay together: they share kernels, which only one process has to compile."""
    groups = {}
    for command in commands:
        arguments = table.arguments_of(command)
        groups.setdefault((table.name_of(command), arguments.get("type"), arguments.get("d")), []).append(command)
    return sorted(groups.values(), key=len)  # if time does not suffice, every function has some


def compile_side(folder, build, commands, options, deadline):
    progress = Progress(folder / f"compiled-{build}.json")
    work = queue.SimpleQueue()
    for group in groups_of([c for c in commands if c not in progress.done]):
        work.put(group)
    environment = environment_of(folder) | {
        "LD_LIBRARY_PATH": str(pathlib.Path(options.null_driver).resolve().parent),
        "GPU_COMPARE_ASSEMBLER": options.assembler,
        "TESSERA_TILEIRAS_SECONDS": "3000",  # also where many of them share a processor
        "NULL_DRIVER_SM": options.target.removeprefix("sm_"),
    }

    def worker():
        side = Side([str(folder / build / "compare_bench")], environment)
        try:
            while True:
                for command in work.get_nowait():
                    if time.monotonic() > deadline:
                        return
                    answer = side.ask("compile " + command, 3600)
                    progress.add(command, answer)
                    if "failed" in answer:
                        print(f"{build}: {command}: {answer['failed'][:300]}", flush=True)
        except queue.Empty:
            pass
        finally:
            side.close()

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for one in [pool.submit(worker) for _ in range(options.jobs)]:
            one.result()
    good = [c for c in commands if c in progress.done and "failed" not in progress.done[c]]
    compiled = sum(progress.done[c].get("compiled", 0) for c in good)
    print(f"{build}: {len(good)} of {len(commands)} cases are compiled ({compiled} kernels that were not in the cache), "
          f"{time.monotonic() - start:.0f} s", flush=True)  # fmt: skip
    return progress.done


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--names", nargs=2, default=("old", "new"))
    parser.add_argument("--null-driver", default="")
    parser.add_argument("--assembler", default="")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--seed", type=int, default=table.today())
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--cases", type=pathlib.Path, help="the cases, one a line, instead of random ones")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--tiny", action="store_true")
    return parser.parse_args()


def main():
    options = parsed_options()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for build in ("old", "new"):
        take_program(getattr(options, build), folder / build)
    scripts = pathlib.Path(__file__).resolve().parent
    for name in ("run.py", "side.py", "decision.py", "cases.py", "torch_side.py", "against_torch.py"):
        if (scripts / name).exists():
            shutil.copy(scripts / name, folder)
    if options.cases:
        commands = [line for line in options.cases.read_text().splitlines() if line and not line.startswith("#")]
    else:
        commands = table.generate(options.seed, options.count, options.tiny)
    left = []
    if options.assembler:
        write_substitute(folder, options.assembler)
        start = time.monotonic()  # the old build finds most of its kernels in the cache
        done = [
            compile_side(folder, build, commands, options, start + share * options.seconds)
            for build, share in (("new", 0.7), ("old", 1.0))
        ]
        left = [c for c in commands if any(c not in d for d in done)]
        broken = {c for c in commands if any("failed" in d.get(c, {}) for d in done)}
        print(f"{len(broken)} cases cannot be compiled, for {len(left)} no time was left")
    plan = {"old": options.names[0], "new": options.names[1], "seed": options.seed, "target": options.target,
            "cases": [c for c in commands if c not in left]}  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan, indent=1))
    return 3 if left else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotStart as error:
        sys.exit(f"no case can be compiled: {error}")
