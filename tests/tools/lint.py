"""`tessera lint` finds the marked lines of the fixtures, and no others, with every clang-query that is installed; it finds nothing in the
library's own headers, and says what is missing.

usage: lint.py TESSERA
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIXTURES = os.path.join(ROOT, "tests/structure/fixtures")
tessera = sys.argv[1]


def lint(*words):
    return subprocess.run([tessera, "lint", *words], capture_output=True, text=True)


def expect(condition, what, run):
    if not condition:
        sys.exit(f"{what}\nexit code {run.returncode}\n{run.stdout}\n{run.stderr}")


queries = [q for q in ["clang-query", *(f"clang-query-{v}" for v in range(14, 23))] if shutil.which(q)]
run = lint("no_such.cpp")
expect(run.returncode == 2 and "there is no file no_such.cpp" in run.stderr, "a file that is not there", run)
run = lint("--clang-query", "clang-query-of-another-system", os.path.join(FIXTURES, "continue_in_region.cpp"))
expect(run.returncode == 1 and "is not installed: apt-get install clang-tools-16" in run.stderr, "a program that is not there", run)
if not queries:
    print("skipped: clang-query is not installed")
    sys.exit(77)

for query in queries:
    for check in ("continue", "assignment"):
        path = os.path.join(FIXTURES, f"{check}_in_region.cpp")
        with open(path, encoding="utf-8") as f:
            expected = {n for n, line in enumerate(f, 1) if "// found" in line}
        run = lint("--clang-query", query, path)
        found = {int(n) for n in re.findall(rf"^{re.escape(path)}:(\d+): .* \[{check}\]$", run.stdout, re.M)}
        expect(run.returncode == 1 and found == expected, f"{query}: {check}: found {sorted(found)}, expected {sorted(expected)}", run)

with tempfile.TemporaryDirectory() as folder:
    clean = os.path.join(folder, "clean.cpp")
    with open(clean, "w", encoding="utf-8") as f:
        f.write("#include <tessera/kernels.hpp>\n#include <tessera/tessera.hpp>\nusing namespace tessera;\n"
                "void k(Mut<f32, 8> y) {\n  auto t = y.load();\n  float meant = 1;\n"
                "  tile_if (max(t) > 1.0f) {\n    t = t + 1.0f;\n    meant = 2;  // NOLINT(assignment)\n  }\n  y.store(t * meant);\n}\n"
                "int main() { auto y = kernels::softmax(ones<f32>({2, 8}).sync()).sync(); kernel<k>(ones<f32>({8})).sync(); }\n")
    run = lint(clean)
    expect(run.returncode == 0 and run.stdout == "", "the library's headers and a line that means it", run)
    run = lint("-p", folder, clean)
    expect(run.returncode == 2 and "there is no compile_commands.json in" in run.stderr, "a folder without a database", run)
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as f:
        f.write(f'[{{"directory": "{folder}", "file": "clean.cpp", '
                f'"command": "g++ -std=c++20 -I{ROOT}/include -fno-semantic-interposition -c clean.cpp"}}]')
    run = lint("-p", folder, clean)
    expect(run.returncode == 0 and run.stdout == "", "the options of a database", run)
    broken = os.path.join(folder, "broken.cpp")
    with open(broken, "w", encoding="utf-8") as f:
        f.write("int main() { return undeclared; }\n")
    run = lint(broken)
    expect(run.returncode == 1 and "could not read" in run.stderr and "-p" in run.stderr, "a file that does not compile", run)
