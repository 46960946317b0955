#!/usr/bin/env python3
"""Runs a program under a profiler of our own (recorder.cpp) and checks the ranges that it sees, and that nothing is
loaded when it must not be.

    run.py PROGRAM RECORDER
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM, RECORDER = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])


def run(folder, **variables):
    """The recorded lines, and how the program ended."""
    record = pathlib.Path(folder, "record.txt")
    record.unlink(missing_ok=True)
    env = {k: v for k, v in os.environ.items() if k not in ("TESSERA_NVTX", "NVTX_INJECTION64_PATH", "NVTX_REFUSE")}
    env |= {"TESSERA_DEVICE": "cpu", "NVTX_RECORD": str(record)} | variables
    done = subprocess.run([PROGRAM], env=env, capture_output=True, text=True, timeout=120, cwd=folder)
    return (record.read_text().splitlines() if record.exists() else []), done


def expect(condition, what, lines=()):
    if not condition:
        print("\n".join(lines[:60]))
        sys.exit(f"FAILED: {what}")


def check_ranges(lines):
    expect(lines[:1] == ["domain tessera"], "the domain comes first", lines)
    names = dict(line.split()[1:] for line in lines if line.startswith("category"))
    expect(sorted(names.values()) == ["compile", "launch", "record", "synchronize", "tune"], "categories", lines)
    expect(not any("MALFORMED" in line for line in lines), "events are well formed", lines)
    depth, seen, inside = {}, set(), set()
    for line in lines:
        if line.startswith("push"):
            _, thread, category, message = line.split(" ", 3)
            expect(message.startswith(names[category] + " "), f"{message} has another category", lines)
            stack = depth.setdefault(thread, [])
            inside.add((stack[-1].split()[0] if stack else "", message.split()[0]))
            stack.append(message)
            seen.add(message)
        elif line.startswith("pop"):
            expect(depth.get(line.split()[1]), "a range ends that has not begun", lines)
            depth[line.split()[1]].pop()
    expect(not any(depth.values()), "every range ends", lines)
    source = pathlib.Path(PROGRAM).name + ".cpp"
    for topic in ("record", "compile", "launch", "synchronize"):
        pattern = rf"{topic} kernel \w+ \({re.escape(source)}:[1-9]\d*\)"
        expect(any(re.fullmatch(pattern, m) for m in seen), f"a range {pattern}", lines)


with tempfile.TemporaryDirectory() as folder:
    lines, done = run(folder, TESSERA_NVTX="1", NVTX_INJECTION64_PATH=RECORDER)
    expect(done.returncode == 0, "the program works under the profiler: " + done.stderr)
    check_ranges(lines)
    # Not requested, no profiler, one that rejects, one that is none: the program is undisturbed.
    for variables in (
        {"NVTX_INJECTION64_PATH": RECORDER},
        {"TESSERA_NVTX": "0", "NVTX_INJECTION64_PATH": RECORDER},
        {"TESSERA_NVTX": "1"},
        {"TESSERA_NVTX": "1", "NVTX_INJECTION64_PATH": RECORDER, "NVTX_REFUSE": "1"},
        {"TESSERA_NVTX": "1", "NVTX_INJECTION64_PATH": "/nowhere/libprofiler.so"},
        {"TESSERA_NVTX": "1", "NVTX_INJECTION64_PATH": "libm.so.6"},
    ):
        lines, done = run(folder, **variables)
        expect(done.returncode == 0 and not lines, f"nothing happens with {variables}: {done.stderr}", lines)
    lines, done = run(folder, TESSERA_NVTX="perhaps")
    expect(done.returncode != 0 and "TESSERA_NVTX" in done.stderr + done.stdout, "a wrong value is an error")
print("ranges and their absence are as they should be")
