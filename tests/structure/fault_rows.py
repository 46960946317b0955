"""Every row of the fault table (docs/mortar/faults.md) names tests that exist, and no time of the server is measured by the clock that people set."""
import re

import tree

PAGE, ROWS = "docs/mortar/faults.md", 40
# The wall clock is shown, never compared: dates of headers, of the log and of answers.
SHOWN = {"mortar/src/http/access_log.cpp", "mortar/src/http/response_head.cpp", "mortar/src/server/ids.cpp"}
CLOCK = re.compile(r"system_clock|CLOCK_REALTIME|gettimeofday|std::time\(|high_resolution_clock|time\(nullptr\)")

tests, problems = set(), []
for path in tree.files():
    if path.startswith("tests/mortar/") and path.endswith(".cpp"):
        tests |= {f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", tree.read(path), re.M)}
    elif path.startswith("tests/mortar/") and path.endswith(".py"):
        tests |= set(re.findall(r"^    def (test_\w+)\(", tree.read(path), re.M)) | {path.rsplit("/", 1)[1]}
    elif path == "tests/fuzz/targets.def":
        tests |= set(re.findall(r"^TESSERA_FUZZ\((\w+),", tree.read(path), re.M))
    elif path == "tests/structure/suite.cmake":
        tests |= {f"structure.{name}" for name in re.findall(r"^tessera_structure_test\((\w+) ", tree.read(path), re.M)}
    elif path.startswith(("mortar/src/http/", "mortar/src/server/", "mortar/src/engine/", "mortar/src/metrics/")) and CLOCK.search(tree.read(path)):
        if path not in SHOWN:
            problems.append(f"{path}: the wall clock jumps: std::chrono::steady_clock measures times")

rows = re.findall(r"^\| (\d+) \|.*\| ([^|]*) \|$", tree.read(PAGE), re.M)
if [int(number) for number, _ in rows] != list(range(1, ROWS + 1)):
    problems.append(f"{PAGE}: expected rows 1 to {ROWS} in their order, found {len(rows)}")
for number, names in rows:
    found = re.findall(r"`([^`]+)`", names)
    problems += [f"{PAGE}: row {number}: there is no test {name}" for name in found if name not in tests]
    if not found:
        problems.append(f"{PAGE}: row {number} has no test")
tree.finish(problems, "The table says what the server promises; each promise is held by a test.")
