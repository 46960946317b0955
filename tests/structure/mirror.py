"""Who changes a source file finds its tests: the test of src/x/y.cpp is tests/x/y_test.cpp (tests/x may leave a folder of x out), or a row of
docs/internals/where-tests-are.md says which it is.

    mirror.py              compares
    mirror.py --selftest   a source without a test, a row without a source, a row whose test is missing and one that is not needed are found
"""
import fnmatch
import re
import sys

import tree

PAGE = "docs/internals/where-tests-are.md"
ROW = re.compile(r"^\| `(src/[^`]+)` \| (.+) \|$", re.M)


def mirrors(source):
    """Where the test of a source may stand without a row."""
    parts = source.removeprefix("src/").removesuffix(".cpp").split("/")
    return {"tests/" + "/".join(parts) + "_test.cpp", f"tests/{parts[0]}/{parts[-1]}_test.cpp",
            "tests/" + "/".join(parts[:2]) + f"/{parts[-1]}_test.cpp"}


def problems_of(sources, tests, page):
    rows = [(pattern, re.findall(r"`(tests/[^`]+)`", where)) for pattern, where in ROW.findall(page)]
    found = []
    missing = [s for s in sources if not mirrors(s) & tests]
    for source in missing:
        if not any(fnmatch.fnmatchcase(source, pattern) for pattern, _ in rows):
            found.append(f"{source}: there is no {min(mirrors(source))}, and no row of {PAGE} says where it is tested")
    for pattern, where in rows:
        if not any(fnmatch.fnmatchcase(s, pattern) for s in missing):
            found.append(f"{PAGE}: {pattern}: no source needs this row")
        if not where:
            found.append(f"{PAGE}: {pattern}: expected tests, as `tests/...`")
        for test in where:
            if not fnmatch.filter(tests, test):
                found.append(f"{PAGE}: {pattern}: there is no {test}")
    return found


def selftest():
    tests = {"tests/ir/parse_test.cpp", "tests/jit/advice_test.cpp", "tests/runtime/lease_test.cpp"}
    sources = ["src/ir/parser.cpp", "src/ir/parse.cpp", "src/jit/compile/advice.cpp", "src/runtime/lease.cpp"]
    row = "| `{}` | `{}` |\n"
    legal = row.format("src/ir/parser.cpp", "tests/ir/parse_*.cpp")
    assert problems_of(sources, tests, legal) == [], problems_of(sources, tests, legal)
    for page, expected in [("", "src/ir/parser.cpp: there is no"), (legal + row.format("src/ir/gone.cpp", "tests/ir/parse_test.cpp"), "no source needs"),
                           (legal + row.format("src/runtime/lease.cpp", "tests/ir/parse_test.cpp"), "no source needs"),
                           (row.format("src/ir/p*.cpp", "tests/ir/print_test.cpp"), "there is no tests/ir/print_test.cpp"),
                           ("| `src/ir/parser.cpp` | nowhere |\n", "expected tests")]:
        found = problems_of(sources, tests, page)
        assert len(found) == 1 and expected in found[0], (page, found)
    print("what is wrong is found")


def main():
    if "--selftest" in sys.argv:
        return selftest()
    tests = set(tree.files(".cpp", ".txt", ".py", ".cmake"))
    tests = {t for t in tests if t.startswith("tests/")}
    sources = [s for s in tree.files(".cpp") if s.startswith("src/")]
    found = problems_of(sources, tests, tree.read(PAGE))
    print("\n".join(found) or f"{len(sources)} sources have their tests")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
