"""What it costs to compile a user's file with one kernel (the program of the README).

 - Headers: it takes in at most HEADERS headers of the project, and none of FORBIDDEN of the standard library. Both are
   counted exactly.
 - Time: at most BUDGET seconds of processor time (g++ 12 and clang 16, -O1, Tessera's development machine). Machines
   differ, so the test compares with a file that only includes the standard headers that users' programs need anyway, in
   turns: at most RATIO times as long. (While the headers showed the IR and the runtime it was four to five times.)

    compile_time.py <compiler> <source>
    compile_time.py --selftest
"""
import os
import re
import resource
import subprocess
import sys
import tempfile

import tree

HEADERS = 60
BUDGET = 1.5
RATIO = 3
ROUNDS = 5
PLAIN = "array coroutine cstdint memory optional span string tuple utility vector".split()
# Each takes a tenth of a second or more by itself, or brings in what does. The library's own headers include none; what
# libstdc++ includes for those of PLAIN (<ostream> for <memory>) is not a matter of the project.
FORBIDDEN = ("algorithm atomic charconv chrono condition_variable deque filesystem format fstream functional future iomanip iostream list map "
             "memory_resource mutex numeric queue random ranges regex set shared_mutex sstream stack thread typeindex unordered_map "
             "unordered_set variant").split()


def command(compiler, source, *more):
    return [compiler, "-std=c++20", "-O1", "-I" + os.path.join(tree.ROOT, "include"), *more, source]


def dependencies(make_rule):
    """The headers that a compiler names in a rule for make (-M)."""
    return re.sub(r"\\\n", " ", make_rule).split(":", 1)[1].split()


def problems_of(headers, limit=HEADERS):
    """What is wrong with the headers of a user's file: paths, relative to the project for its own."""
    own = sorted(h for h in headers if h.startswith("include/tessera/"))
    found = []
    if len(own) > limit:
        found.append(f"{len(own)} headers of the project, at most {limit}: {' '.join(own)}")
    for header in own:
        for name in re.findall(r"^\s*#\s*include\s*<([^>]+)>", tree.read(header), re.M):
            if name in FORBIDDEN:
                found.append(f"{header}: <{name}>, in every user's file")
    return found


def seconds(arguments):
    """Processor time of one run, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, env=dict(os.environ, CCACHE_DISABLE="1"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def selftest():
    few = ["include/tessera/tessera.hpp", "include/tessera/host/tensor.hpp", "/usr/include/c++/12/variant"]
    heavy = ["include/tessera/runtime/backend.hpp"]
    rule = "main.o: a.cpp \\\n include/tessera/tessera.hpp \\\n /usr/include/c++/12/string\n"
    problems = tree.unequal(dependencies(rule), ["a.cpp", "include/tessera/tessera.hpp", "/usr/include/c++/12/string"])
    if problems_of(few):
        problems.append(f"light headers were rejected: {problems_of(few)}")
    if not problems_of(few, limit=1):
        problems.append("two headers passed a limit of one")
    if not any("<mutex>" in p for p in problems_of(heavy)):
        problems.append("the <mutex> of runtime/backend.hpp was not found")
    return problems


if sys.argv[1:] == ["--selftest"]:
    tree.finish(selftest(), "compile_time.py does not find what it should.")
compiler, source = sys.argv[1:]
source = os.path.join(tree.ROOT, source)
listed = subprocess.run(command(compiler, source, "-M"), check=True, capture_output=True, text=True).stdout
problems = problems_of([os.path.relpath(h, tree.ROOT) if h.startswith(tree.ROOT + os.sep) else h for h in dependencies(listed)])
own, plain = [], []
with tempfile.TemporaryDirectory() as folder:
    empty = os.path.join(folder, "plain.cpp")
    with open(empty, "w", encoding="utf-8") as file:
        file.write("".join(f"#include <{name}>\n" for name in PLAIN) + "int main() {}\n")
    for _ in range(ROUNDS):
        own.append(seconds(command(compiler, source, "-c", "-o", os.devnull)))
        plain.append(seconds(command(compiler, empty, "-c", "-o", os.devnull)))
        if min(own) <= RATIO * min(plain):
            break  # noise makes either slower, never faster: further rounds are for a ratio that is too high
ratio = min(own) / min(plain)
print(f"{sys.argv[2]}: {min(own):.2f} s (budget {BUDGET} s), {ratio:.1f} times that of standard headers alone (at most {RATIO})")
if ratio > RATIO:
    problems.append(f"{min(own):.2f} s, {ratio:.1f} times as long as standard headers alone")
tree.finish(problems, "-H, -ftime-report (g++) and -ftime-trace (clang) show which header grew; forward declarations and source files make it light.")
