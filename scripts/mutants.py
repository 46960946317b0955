#!/usr/bin/env python3
"""Applies small wrong edits to the library, one by one, and lists which of them the tests notice.

    scripts/mutants.py [--only PATTERN ...] [--file PATTERN] [--program NAME ...] [--jobs N] [--report FILE]
    scripts/mutants.py --list
    scripts/mutants.py --check         # reads the lists only: what the structure tests run

The edits are the tables of tests/mutants/*.toml. Each says what is replaced in which file, which tests should notice (a test program and a
filter of GoogleTest; or "ctest TARGET:TEST", a test of CTest and what is built for it), and why it matters. They are made in a copy of the tracked files, build/mutants, with a build folder of its own: an
interrupted run leaves nothing behind in the working tree. Programs run at a low priority and under a time limit.

Results: killed (a test failed, crashed or ran into the limit), survived, did not compile, no such text. The last two are errors of the list.
Exit codes: 0 all were killed, 1 some survived or the list has errors, 2 the tests fail without any edit.
"""

import argparse
import collections
import fnmatch
import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "mutants"
COPY = ROOT / "build" / "mutants"
BUILD = COPY / "build" / "dev"
AT_LEAST = 100
CPU_LIMIT = 120  # seconds of processor time of a test; a mutant that runs into it is killed
# A test that waits forever uses no CPU time: the wall-clock limit is this factor times the test's time without an edit.
SLOWER, AT_LEAST_SECONDS, WITHOUT_EDIT = 10, 30, 1200
FIELDS = {"id", "file", "old", "new", "tests", "why"}


def mutants():
    found = []
    for path in sorted(LISTS.glob("*.toml")):
        for row in tomllib.loads(path.read_text())["mutant"]:
            row["list"] = path.name
            found.append(row)
    return found


def program_of(test):
    """What is built for a test."""
    return test.removeprefix("ctest ").split(":", 1)[0]


def digest(row):
    """The inputs of a result: the edit, its tests and the edited file."""
    text = json.dumps(row, sort_keys=True) + (ROOT / row["file"]).read_text()
    return hashlib.sha256(text.encode()).hexdigest()


def complaints(rows):
    """Errors in the lists themselves."""
    problems = []
    seen = collections.Counter(row.get("id") for row in rows)
    for row in rows:
        name = f"{row['list']}: {row.get('id')}"
        if set(row) - {"list"} != FIELDS:
            problems.append(f"{name}: has the fields {sorted(set(row) - {'list'})}, expected {sorted(FIELDS)}")
            continue
        if seen[row["id"]] > 1:
            problems.append(f"{name}: the id is not unique")
        path = ROOT / row["file"]
        if not path.is_file():
            problems.append(f"{name}: there is no {row['file']}")
        elif (n := path.read_text().count(row["old"])) != 1:
            problems.append(f"{name}: the old text occurs {n} times in {row['file']}, expected once")
        if row["old"] == row["new"]:
            problems.append(f"{name}: old and new text are the same")
        if not row["tests"] or any(":" not in t or not t.startswith(("test_", "ctest ")) for t in row["tests"]):
            problems.append(f"{name}: `tests` needs entries of the form test_program:Filter.* or ctest target:test")
    if len(rows) < AT_LEAST:
        problems.append(f"there are {len(rows)} mutants, expected at least {AT_LEAST}")
    return problems


def synchronise():
    """Makes the copy equal to the tracked and new files of the working tree; touches only what differs."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, check=True).stdout
    names = {n for n in listed.decode().split("\0") if n and (ROOT / n).is_file()}
    for name in names:
        source, target = ROOT / name, COPY / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
    for path in COPY.rglob("*"):
        name = path.relative_to(COPY)
        if path.is_file() and name.parts[0] != "build" and str(name) not in names:
            path.unlink()


def run(command, limit=None, **more):
    """Exit status and output; the whole process group ends with the limit."""
    process = subprocess.Popen(["nice", "-n", "10", *map(str, command)], cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True, **more)
    try:
        output, _ = process.communicate(timeout=limit)
        return process.returncode, output
    except BaseException as e:
        os.killpg(process.pid, 9)
        process.communicate()
        if isinstance(e, subprocess.TimeoutExpired):
            return None, ""
        raise


def environment():
    """Compiler caches see the paths of the copy as relative ones."""
    return os.environ | {"CCACHE_BASEDIR": str(COPY), "CCACHE_NOHASHDIR": "1", "TESSERA_DEVICE": "cpu"}


def build(programs, jobs):
    return run(["ninja", "-C", BUILD, f"-j{jobs}", *sorted(programs)], env=environment())


def fails_in_ctest(name, limit):
    """Why the test of CTest fails, or None. One that is skipped notices nothing, so it counts as failing."""
    status, output = run(["ctest", "--test-dir", BUILD, "-R", f"^{name}$", "--no-tests=error"], limit=limit, env=environment())
    if status is None:
        return f"{name} did not end within {limit:.0f} s"
    return f"{name} ended with {status}" if status != 0 else f"{name} is skipped" if "***Skipped" in output else None


def fails(test, limit):
    """Why the test fails, or None."""
    if test.startswith("ctest "):
        return fails_in_ctest(test.split(":", 1)[1], limit)
    program, pattern = test.split(":", 1)
    status, output = run([BUILD / "tests" / program, f"--gtest_filter={pattern}", "--gtest_brief=1"], limit=limit, env=environment(),
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT)))
    if status is None:
        return f"{program} did not end within {limit:.0f} s"
    if status != 0:
        failed = [line for line in output.splitlines() if line.startswith("[  FAILED  ]")]
        return failed[0][13:] if failed else f"{program} ended with {status}"
    if "] 0 tests from" in output:
        return f"{program}: no test matches {pattern}"
    return None


def try_one(row, jobs, limits):
    target = COPY / row["file"]
    original = target.read_text()
    if original.count(row["old"]) != 1:
        return "no such text", f"{original.count(row['old'])} times in {row['file']}"
    try:
        target.write_text(original.replace(row["old"], row["new"]))
        status, output = build({program_of(t) for t in row["tests"]}, jobs)
        if status != 0:
            errors = [line for line in output.splitlines() if "error" in line]
            return "did not compile", errors[0] if errors else output[-300:]
        for test in row["tests"]:
            if (why := fails(test, limits[test])) is not None:
                return "killed", why
        return "survived", row["why"]
    finally:
        target.write_text(original)


def prepare(rows, jobs):
    """Builds the copy without edits and runs the tests once. A limit for each that passes: only these can notice something."""
    synchronise()
    status, output = run(["cmake", "--preset", "dev"], env=environment())
    if status == 0:
        status, output = build({program_of(t) for row in rows for t in row["tests"]}, jobs)
    if status != 0:
        print(output[-3000:])
        sys.exit(2)
    limits = {}
    for test in sorted({t for row in rows for t in row["tests"]}):
        began = time.monotonic()
        if (why := fails(test, WITHOUT_EDIT)) is not None:
            print(f"without any edit: {test}: {why}", flush=True)
        else:
            limits[test] = max(AT_LEAST_SECONDS, SLOWER * (time.monotonic() - began))
    return limits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="read the lists only")
    parser.add_argument("--list", action="store_true", help="print ids, files and reasons")
    parser.add_argument("--only", action="append", help="ids to try, with * and ?; may be given several times")
    parser.add_argument("--file", help="only mutants of these files, with * and ?")
    parser.add_argument("--program", action="append", help="only mutants whose tests need no test programs but these")
    parser.add_argument("--jobs", type=int, default=1, help="compilations at a time (default 1)")
    parser.add_argument("--report", type=pathlib.Path, help="writes the results as JSON, after each mutant; ids in it whose row and file are as they were are not tried again")
    options = parser.parse_args()
    rows = mutants()
    problems = complaints(rows)
    if options.check or problems:
        print("\n".join(problems) or f"{len(rows)} mutants, each has its text")
        return 1 if problems else 0
    rows = [r for r in rows if (not options.only or any(fnmatch.fnmatch(r["id"], p) for p in options.only))
            and (not options.file or fnmatch.fnmatch(r["file"], options.file))
            and (not options.program or {program_of(t) for t in r["tests"]} <= set(options.program))]
    if not rows:
        print("no mutant is selected")
        return 1
    if options.list:
        for r in rows:
            print(f"{r['id']:44} {r['file']:44} {r['why']}")
        return 0
    done = json.loads(options.report.read_text()) if options.report and options.report.is_file() else {}
    rows = [r for r in rows if r["id"] not in done or done[r["id"]][2:] != [digest(r)]]
    limits = prepare(rows, options.jobs) if rows else {}
    able = [r for r in rows if set(r["tests"]) <= set(limits)]
    unable, rows = len(rows) - len(able), able
    for number, row in enumerate(rows, 1):
        began = time.monotonic()
        result, detail = try_one(row, options.jobs, limits)
        print(f"[{number}/{len(rows)}] {result:15} {row['id']:40} {time.monotonic() - began:5.0f} s  {detail[:150]}", flush=True)
        done[row["id"]] = [result, detail, digest(row)]
        if options.report:
            options.report.write_text(json.dumps(done, indent=1))
    counts = collections.Counter(result for result, *_ in done.values())
    print(", ".join(f"{n} {result}" for result, n in counts.most_common()))
    if unable:
        print(f"{unable} not tried: their tests fail without any edit")
        return 2
    return 0 if set(counts) <= {"killed"} else 1


if __name__ == "__main__":
    sys.exit(main())
