"""What the README says is so: it has at most 90 lines, its example is tests/consumer/main.cpp (built and run against the installed
library) and at most 15 lines long, the commands that it names exist, and the requirements in its table and in docs/install.md are those
that the sources ask for. Every package that the scripts install is in the table of dependencies.

    readme.py             check the project
    readme.py --selftest  check that what is wrong is found
"""
import os
import re
import sys

import tree

LINES, EXAMPLE = 90, 15
README, INSTALL = "README.md", "docs/install.md"
# What the scripts' packages are called in the table of dependencies.
NAMES = {"ninja-build": "ninja", "libpng-dev": "libpng", "libgtest-dev": "GoogleTest", "libgmock-dev": "GoogleTest", "python3": "Python 3",
         "python3-venv": "Python 3", "nlohmann-json3-dev": "nlohmann-json", "cmake": "CMake", "clang-format-16": "clang-format"}


def found(pattern, text, what):
    match = re.search(pattern, text, re.S)
    if not match:
        raise SystemExit(f"{what} is not where this test looks for it: {pattern}")
    return match.groups()


def requirements(sources):
    """{what: (least version, expression that finds it in the pages)} from the sources."""
    options, top = sources["cmake/TesseraOptions.cmake"], sources["CMakeLists.txt"]
    gcc, clang = found(r'"GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS (\d+)\).*?"Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS (\d+)\)',
                       options, "the oldest compilers")
    cmake, = found(r"cmake_minimum_required\(VERSION ([\d.]+)\)", top, "CMake's version")
    blackwell, hopper, ampere = found(r"return sm >= 100 \? (\d+) : sm >= 90 \? (\d+) : (\d+);", sources["src/codegen/tileiras/find.cpp"],
                                      "the oldest assemblers")
    driver, = found(r"need driver (\d+)\)", sources["src/runtime/cuda/driver.cpp"], "the oldest driver")
    return {"g++": (gcc, r"g\+\+ (\d+)"), "clang": (clang, r"clang (\d+)"), "CMake": (cmake, r"CMake[^\d\n]*?(\d+\.\d+)"),
            "driver": (driver, r"driver (\d{3})\b"), "Blackwell": (f"13.{blackwell}", r"Blackwell (13\.\d)"),
            "Ampere": (f"13.{ampere}", r"Ampere and Ada (13\.\d)"), "Hopper": (f"13.{hopper}", r"Hopper (13\.\d)")}


def rows_of_install(text):
    """The least releases of the matrix of install.md, by generation."""
    return {cells[1]: cells[3] for line in text.split("\n") if len(cells := [c.strip() for c in line.split("|")]) > 5 and "sm_" in cells[2]
            and cells[2] != "sm_107"}


def check(readme, install, program, sources, exists, scripts):
    problems = []
    if (count := readme.count("\n")) > LINES:
        problems.append(f"{README}: {count} lines; at most {LINES}")
    block = re.search(r"^```cpp\n(.*?)^```", readme, re.M | re.S)
    if not block or block.group(1) != program.split("\n", 1)[1]:  # without its first line, the comment on what it is for
        problems.append(f"{README}: its first C++ block differs from tests/consumer/main.cpp. Change both together.")
    elif (count := block.group(1).count("\n")) > EXAMPLE:
        problems.append(f"{README}: its example has {count} lines; at most {EXAMPLE}")
    problems += [f"{README}: there is no {name}" for name in re.findall(r"\b((?:scripts|bench)/[\w./-]+\.(?:sh|py))", readme) if not exists(name)]
    needed = requirements(sources)
    asked = "\n".join(line.split("|")[2] for line in readme.split("## Requirements")[-1].split("\n## ")[0].split("\n") if line.startswith("|"))
    for what, (version, pattern) in needed.items():
        if (stated := set(re.findall(pattern, asked))) != {version}:
            problems.append(f"{README}: {what} {version} is what the sources ask for; its table says {', '.join(sorted(stated)) or 'nothing'}")
    matrix = rows_of_install(install)
    for generation, version in {"Ampere": needed["Ampere"][0], "Ada": needed["Ampere"][0], "Hopper": needed["Hopper"][0],
                                "Blackwell": needed["Blackwell"][0]}.items():
        if matrix.get(generation) != version:
            problems.append(f"{INSTALL}: {generation} needs {version} by src/codegen/tileiras/find.cpp; the matrix says {matrix.get(generation)}")
    table = install.split("## Dependencies")[-1]
    packages = set(re.findall(r"^\s*need ([a-z][\w+-]*)", scripts, re.M)) - {"g++"}  # a compiler: in the tables above it
    for name in sorted({NAMES.get(package, package) for package in packages}):
        if name not in table:
            problems.append(f"{INSTALL}: its table of dependencies has no {name}, which the scripts install")
    if "docs/install.md#dependencies" not in readme:
        problems.append(f"{README}: no link to the dependencies and their reasons")
    return problems


def project():
    sources = {p: tree.read(p) for p in ("cmake/TesseraOptions.cmake", "CMakeLists.txt", "src/codegen/tileiras/find.cpp",
                                         "src/runtime/cuda/driver.cpp")}
    return [tree.read(README), tree.read(INSTALL), tree.read("tests/consumer/main.cpp"), sources,
            lambda name: os.access(os.path.join(tree.ROOT, name), os.X_OK), tree.read("scripts/common.sh") + tree.read("scripts/test.sh")]


def selftest():
    """Each of some wrong edits is found."""
    readme, install, *rest = project()
    assert not check(readme, install, *rest), check(readme, install, *rest)
    for wrong in (readme + "\n" * 20, readme.replace("Hopper 13.3", "Hopper 13.1"), readme.replace("g++ 12 or", "g++ 11 or"),
                  readme.replace("driver 580", "driver 570"),
                  readme.replace("scripts/demo.sh", "scripts/demos.sh"), readme.replace("softmax<1024>", "softmax<512>"),
                  readme.replace("docs/install.md#dependencies", "docs/install.md")):
        assert len(check(wrong, install, *rest)) == 1, check(wrong, install, *rest)
    for wrong in (install.replace("| Hopper | sm_90 | 13.3 |", "| Hopper | sm_90 | 13.2 |"), install.replace("GoogleTest", "")):
        assert len(check(readme, wrong, *rest)) == 1, check(readme, wrong, *rest)
    return []


tree.finish(selftest() if "--selftest" in sys.argv else check(*project()), "The README, its example and docs/install.md change together.")
