#!/usr/bin/env python3
"""What docs/ides.md tells to write is followed: both CMakeLists.txt give a compile_commands.json that finds the library's headers,
with its command the program has the errors that the page shows, in these lines, and the matcher of the task finds the errors of
docs/quickstart.md. In place of the library there is a target with its headers.

    ides.py FOLDER CXX
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = f'add_library(tessera_headers INTERFACE)\nadd_library(tessera::tessera ALIAS tessera_headers)\n' \
           f'target_include_directories(tessera_headers INTERFACE "{ROOT}/include")\n'
VERSION = "set(PACKAGE_VERSION 0.1.0)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n"


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def run(words, folder):
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.returncode, done.stdout


def command_of(project):
    """How app.cpp is compiled, by compile_commands.json."""
    found = [entry for entry in json.loads((project / "build/compile_commands.json").read_text()) if entry["file"].endswith("/app.cpp")]
    if len(found) != 1 or f"{ROOT}/include" not in found[0]["command"]:
        sys.exit(f"ides.md: compile_commands.json of\n{(project / 'CMakeLists.txt').read_text()}does not say how app.cpp finds the headers: {found}")
    return shlex.split(found[0]["command"])


def configured(project, lists, program, configure, compiler):
    write(project / "CMakeLists.txt", lists)
    write(project / "app.cpp", program)
    write(project / "path/to/tessera/CMakeLists.txt", STAND_IN)
    write(project / "prefix/lib/cmake/tessera/tessera-config.cmake", STAND_IN)
    write(project / "prefix/lib/cmake/tessera/tessera-config-version.cmake", VERSION)
    words = [f"-DCMAKE_PREFIX_PATH={project}/prefix" if w.startswith("-DCMAKE_PREFIX_PATH=") else w for w in shlex.split(configure)]
    code, output = run([*words, f"-DCMAKE_CXX_COMPILER={compiler}"], project)
    if code:
        sys.exit(f"ides.md: this cannot be configured:\n{lists}\n{output}")
    return command_of(project)


def matches(page):
    """The matcher of the task must find the last line of each error that quickstart.md shows."""
    pattern = json.loads(blocks(page, "json")[-1])["tasks"][1]["problemMatcher"]["pattern"]["regexp"]
    shown = re.findall(r"^.*app\.cpp:\d+: \w+Error: .*$", (ROOT / "docs/quickstart.md").read_text(encoding="utf-8"), re.M)
    return shown and all(re.match(pattern, line) for line in shown)


def main(folder, compiler):
    page = (ROOT / "docs/ides.md").read_text(encoding="utf-8")
    program, = blocks(page, "cpp")
    configure, = [block.strip() for block in blocks(page, "sh") if block.startswith("cmake -S")]
    lists = blocks(page, "cmake")
    commands = [configured(folder / str(k), text, program, configure, compiler) for k, text in enumerate(lists)]
    code, output = run([*commands[0][:-4], "-fsyntax-only", commands[0][-1]], folder)
    said, problems = " ".join(output.split()), []
    errors = re.findall(r"^Line (\d+): in template: static assertion failed due to requirement '.*?': (.*)$", page, re.M)
    for line, sentence in errors:
        if code == 0 or sentence not in said or f"app.cpp:{line}:" not in said:
            problems.append(f"ides.md: the compiler does not say in line {line}: {sentence}")
    if len(lists) != 2 or len(errors) != 2 or not matches(page):
        problems.append(f"ides.md: expected two projects and two errors, found {len(lists)} and {len(errors)}; or its matcher does not match")
    print("\n".join([*problems, output]) if problems else "ides.md: its lines do what it says")
    return 1 if problems else 0


sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]))
