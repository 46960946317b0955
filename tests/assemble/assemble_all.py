#!/usr/bin/env python3
"""Assembles every kernel of given programs with NVIDIA's tileiras, for every GPU generation, without a GPU.

    assemble_all.py --dumps FOLDER [--programs FILE] [--gpu sm_90 ...] [--in-turn [--share N]] [--seconds N] [--jobs N] [--at-least N]

FILE has the path of a program in each line. The programs are run with TESSERA_DUMP=all, so that each writes bytecode and text of the kernels that it compiles into FOLDER (on the
CPU: no GPU is needed). Then every *.tilebc in FOLDER is assembled for every GPU. Accepted kernels are remembered in the user's cache by content and assembler, and not assembled again.

What a GPU lacks follows from the kernel's IR (NEEDS): such a kernel must be rejected there, is reported apart and is no failure. If it is
accepted after all, the table is wrong, and that is a failure.

With --fixed-points PROGRAM (tests/ir/fixed_points_main.cpp) every kernel's text and bytecode are also read and written again, which must give the same; that needs no
assembler.

With --in-turn each kernel is assembled for one of the GPUs, another one every day, so that each has been tried after as many days as
there are GPUs; with --share N an N-th of the kernels takes part on one day, so that it takes N times as many days. CI does that;
scripts/long-tests.sh assembles every kernel for all of them.
Exit codes: 0 all accepted, 1 a kernel was rejected or is not read as it was written, or there are too few, 77 there is no assembler (1 if TESSERA_REQUIRE_TILEIRAS is
set).
"""

import argparse
import concurrent.futures
import datetime
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import zlib

GPUS = ["sm_80", "sm_90", "sm_100", "sm_120"]
# What not every GPU has: how it reads in the text of the IR, the first architecture that has it, its name.
NEEDS = [
    (re.compile(r"f8E(4M3FN|5M2)\b"), 89, "8-bit floats"),
    (re.compile(r"atomic_rmw_tko [^:\n]*\baddf\b[^:\n]*: tile<(\d+x)*ptr<bf16>>"), 90, "atomic addition of bf16"),
]
# Tests whose kernels are one kernel for each of 225 pairs of element types; tests/lang has its casts.
LEFT_OUT = ["DeviceKernels.CastsOfAllPairsAreThoseOfTheHost"]
PROGRAM_LIMIT = 900  # seconds
ASSEMBLER_LIMIT = 300


def cache_folder():
    cache = os.environ.get("TESSERA_CACHE_DIR")
    return pathlib.Path(cache) if cache else pathlib.Path(
        os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tessera"


def find_assembler():
    candidates = []
    if os.environ.get("TESSERA_TILEIRAS"):
        candidates.append(pathlib.Path(os.environ["TESSERA_TILEIRAS"]))
    candidates += sorted(cache_folder().glob("tileiras-*/bin/tileiras"), reverse=True)
    for root in {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}:
        candidates += sorted(pathlib.Path(root).glob("nvidia/*/bin/tileiras"))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    print("there is no tileiras: run tessera get-tileiras (in a clone without it: scripts/get-tileiras.sh), or set TESSERA_TILEIRAS", file=sys.stderr)
    sys.exit(1 if os.environ.get("TESSERA_REQUIRE_TILEIRAS") else 77)


def clean_environment(**more):
    environment = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH")}
    return environment | more


def run_program(program, dumps, deadline):
    """Runs one program so that it dumps its kernels; its results are checked by other tests."""
    environment = clean_environment(GTEST_FILTER="-" + ":".join(LEFT_OUT), TESSERA_DUMP="all", TESSERA_DUMP_DIR=str(dumps), TESSERA_DEVICE="cpu")
    limit = min(PROGRAM_LIMIT, deadline - time.monotonic())
    if limit <= 0:
        print(f"note: no time was left for {program}")
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run([program], env=environment, cwd=folder, capture_output=True, timeout=limit)
        except subprocess.TimeoutExpired:
            print(f"note: {program} did not end within {limit:.0f} s; its kernels so far are taken")
            return
    if done.returncode not in (0, 77):
        print(f"note: {program} ended with {done.returncode}; its kernels so far are taken")


def lacking(file, gpu):
    """The feature that the kernel uses and the GPU lacks; empty if none."""
    text = file.with_suffix(".tileir").read_text()
    return ", ".join(name for pattern, first, name in NEEDS if int(gpu.split("_")[1]) < first and pattern.search(text))


def assemble(assembler, file, gpu, accepted):
    """(file, gpu, problem): problem is empty if accepted."""
    stamp = accepted / f"{file.stem}.{gpu}"
    if stamp.exists():
        return file, gpu, ""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(assembler), f"--gpu-name={gpu}", "--lineinfo", str(file), "-o", f"{folder}/kernel.cubin"]
        try:
            done = subprocess.run(command, env=clean_environment(TMPDIR=folder), capture_output=True, text=True,
                                  timeout=ASSEMBLER_LIMIT)
        except subprocess.TimeoutExpired:
            return file, gpu, f"tileiras did not end within {ASSEMBLER_LIMIT} s"
        if done.returncode == 0 and pathlib.Path(folder, "kernel.cubin").exists():
            stamp.touch()
            return file, gpu, ""
        return file, gpu, done.stderr.strip() or f"tileiras ended with {done.returncode} and no message"


def in_turn(file, gpus, share, day):
    """The GPUs that a kernel is assembled for on that day: one, or none if it is another share's turn."""
    turn = (zlib.crc32(file.stem.encode()) + day) % (share * len(gpus))
    return [gpus[turn // share]] if turn % share == 0 else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dumps", type=pathlib.Path, required=True)
    parser.add_argument("--programs", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--gpu", action="append", default=[])
    parser.add_argument("--in-turn", action="store_true", help="each kernel for one GPU, another one every day")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="with --in-turn: an N-th of the kernels, another one every day")
    parser.add_argument("--seconds", type=float, default=math.inf, help="kernels that are left after that time are counted")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--at-least", type=int, default=1, metavar="N", help="fewer kernels than this is a failure")
    parser.add_argument("--fixed-points", type=pathlib.Path, metavar="PROGRAM", help="reads text and bytecode of all kernels")
    options = parser.parse_args()
    options.dumps.mkdir(parents=True, exist_ok=True)
    for old in [*options.dumps.glob("*.tilebc"), *options.dumps.glob("*.tileir")]:
        old.unlink()
    programs = options.programs.read_text().split("\n")[:-1] if options.programs else []
    deadline = time.monotonic() + options.seconds
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda program: run_program(program, options.dumps, deadline), programs))
    files = sorted(options.dumps.glob("*.tilebc"))
    if options.fixed_points and subprocess.run([options.fixed_points, options.dumps]).returncode != 0:
        return 1
    assembler = find_assembler()
    release = subprocess.run([assembler, "--version"], env=clean_environment(), capture_output=True, text=True)
    accepted = cache_folder() / "accepted" / "".join(c if c.isalnum() else "_" for c in release.stdout.split("V")[-1][:12])
    accepted.mkdir(parents=True, exist_ok=True)
    gpus = options.gpu or GPUS
    day = datetime.date.today().toordinal()
    work = [(f, g) for f in files for g in (in_turn(f, gpus, options.share, day) if options.in_turn else gpus)]
    random.Random(day).shuffle(work)  # so that another part of them is left over on another day
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        every = pool.map(lambda one: assemble(assembler, *one, accepted) if time.monotonic() < deadline else None, work)
        answers = [answer for answer in every if answer]
    rejected = lacked = 0
    for file, gpu, problem in answers:
        missing = lacking(file, gpu)
        if missing and problem:
            lacked += 1
            print(f"lacking: {file.stem} for {gpu}: {missing}")
        elif missing:
            rejected += 1
            print(f"NEEDS is wrong: {file.stem} uses {missing} and was accepted for {gpu}")
        elif problem:
            rejected += 1
            print(f"REJECTED: {file.stem} for {gpu}:\n  " + problem.replace("\n", "\n  "))
    taken = sum(1 for a in answers if not a[2])
    print(f"{len(files)} kernels of {len(programs)} programs for {', '.join(gpus)}: {taken} of {len(answers)} accepted, "
          f"{rejected} rejected, {lacked} need what the GPU lacks"
          + (f"; no time for {len(work) - len(answers)}" if len(answers) < len(work) else ""))
    if len(files) < options.at_least:
        print(f"expected at least {options.at_least} kernels, found {len(files)}: do the programs write dumps?")
        return 1
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
