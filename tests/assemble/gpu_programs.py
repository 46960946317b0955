#!/usr/bin/env python3
"""Compiles the kernels of the GPU tests for GPUs that need not be here.

    gpu_programs.py --programs FILE --null-driver LIBRARY [--gpu SM ...] [--share N] [--all] [--seconds N] [--jobs N]

FILE has the path of a program with tests in each line. Each test runs with a driver that does nothing (bench/host/null_driver.cpp), as
on a GPU of the given compute capability: kernels go through the passes and NVIDIA's assembler, and are never started. What
the tests say of the results means nothing then; what counts is whether a kernel could not be compiled.

Each test runs for one GPU, another one every day, so that each has been tried after as many days as there are GPUs; with --all for every
GPU. Of all tests one of N runs (--share), others every day. Kernels are found in the user's cache if they were compiled before.
Exit codes: 0 all compiled, 1 a kernel was rejected, crashed the assembler or took it too long, or nothing ran, 77 there is no assembler
(1 if TESSERA_REQUIRE_TILEIRAS is set).
"""

import argparse
import concurrent.futures
import datetime
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zlib

from assemble_all import clean_environment, find_assembler

GPUS = [80, 90, 100, 120]
TEST_LIMIT = 300  # seconds
# How the library says that a kernel could not be compiled (src/codegen/tileiras/assemble.cpp, src/jit/forms.cpp).
PROBLEM = re.compile(r"the assembler (rejects|crashed|did not finish|'s code would wait)|internal error", re.IGNORECASE)
# What the GPU lacks: 8-bit floats before sm_89, for example.
LACKING = "Incompatibility with architecture"


def tests_of(program):
    """The names of the program's tests."""
    listed = subprocess.run([program, "--gtest_list_tests"], env=clean_environment(), capture_output=True, text=True, timeout=60)
    names, suite = [], ""
    for line in listed.stdout.splitlines():
        word = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = word if word.endswith(".") else ""
        elif suite:
            names.append(suite + word)
    return names


def run(program, names, sm, driver):
    """(program, sm, problems, note, kernels): the lines that say that a kernel could not be compiled, how the program ended if
    not as usual, and how many kernels it compiled."""
    environment = clean_environment(LD_LIBRARY_PATH=str(driver.parent), NULL_DRIVER_SM=str(sm), TESSERA_DEVICE="cuda:0",
                                    TESSERA_DUMP="bytecode", GTEST_FILTER=":".join(names))
    with tempfile.TemporaryDirectory() as folder:
        environment["TESSERA_DUMP_DIR"] = folder
        try:
            done = subprocess.run([program], env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=TEST_LIMIT)
        except subprocess.TimeoutExpired:
            # A test may wait for what a kernel would have written.
            return program, sm, [], f"did not end within {TEST_LIMIT} s: {' '.join(names[:4])}", 0
        kernels = len(list(pathlib.Path(folder).glob("*.tilebc")))
    lines = done.stdout.splitlines()
    current, problems = "", []
    for line in lines:
        started = re.match(r"\[ RUN +\] (\S+)", line)
        current = started.group(1) if started else current
        if PROBLEM.search(line) and LACKING not in line:
            problems.append(f"{current}: {line.strip()[:400]}")
    ended = "" if done.returncode in (0, 1, 77) else f"ended with {done.returncode} in {current}"
    return program, sm, problems, ended, kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--null-driver", type=pathlib.Path, required=True, metavar="LIBRARY")
    parser.add_argument("--gpu", type=int, action="append", default=[], metavar="SM")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="one of N tests")
    parser.add_argument("--all", action="store_true", help="each test for every GPU")
    parser.add_argument("--seconds", type=float, default=math.inf, help="what is left after that time is counted")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    find_assembler()
    gpus = options.gpu or GPUS
    day = datetime.date.today().toordinal()
    work = []
    for program in options.programs.read_text().split("\n")[:-1]:
        of_gpu = {sm: [] for sm in gpus}
        for name in tests_of(program):
            turn = zlib.crc32(name.encode())
            if (turn // len(gpus) + day) % options.share:
                continue
            for sm in gpus if options.all else [gpus[(turn + day) % len(gpus)]]:
                of_gpu[sm].append(name)
        work += [(program, names, sm) for sm, names in of_gpu.items() if names]
    end = time.monotonic() + options.seconds
    driver = options.null_driver.resolve()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        every = pool.map(lambda one: run(*one, driver) if time.monotonic() < end else None, work)
        answers = [answer for answer in every if answer]
    failed = 0
    for program, sm, problems, ended, _ in answers:
        name = pathlib.Path(program).name
        if ended:
            print(f"note: {name} for sm_{sm} {ended}")
        for problem in dict.fromkeys(problems):
            failed += 1
            print(f"FAILED: {name} for sm_{sm}: {problem}")
    ran = sum(len(names) for names in (one[1] for one in work[:len(answers)]))
    kernels = sum(answer[4] for answer in answers)
    print(f"{kernels} kernels of {ran} tests of {len({one[0] for one in work})} programs for {', '.join(f'sm_{sm}' for sm in gpus)}: {failed} "
          "could not be compiled" + (f"; no time for {len(work) - len(answers)} runs" if len(answers) < len(work) else ""))
    return 1 if failed or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
