"""The page for coding agents names the row or test that each of its frequent mistakes comes from, and quotes what that says: the
sentence of a row of tests/reject, or a message with a fragment that the test expects. It has ten of them, and stays short.
safety.py looks whether these rows and tests exist; the test guide.agents compiles the page and compares what is thrown.

    agents.py             check the page
    agents.py --selftest  check that what is wrong is found
"""
import re
import sys

import tree

PAGE, MISTAKES, LINES = "docs/agents.md", 10, 460
SECTION = re.compile(r"^### (\d+)\. .*?\n(.*?)(?=^##)", re.M | re.S)
SOURCE = re.compile(r"^<!-- `(\w+):([^`]+)` -->$", re.M)
QUOTED = re.compile(r"^```text\n(.*?)^```$", re.M | re.S)
TEST = re.compile(r"^TEST(?:_F)?\((\w+), (\w+)\)(.*?)(?=^TEST|\Z)", re.M | re.S)
LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*')
SHORTEST = 10  # of a fragment: shorter ones say too little


def sentences(rows):
    """{row's name: the sentence that its first error contains}"""
    return {name.strip(): expect.strip() for text in rows for name, expect in re.findall(r"^=== (.*)\nexpect: (.*)$", text, re.M)}


def fragments(tests):
    """{Suite.Test: the texts in its body}"""
    found = {}
    for text in tests:
        for suite, name, body in TEST.findall(text):
            joined = ["".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literal)).replace("\\n", "\n") for literal in LITERALS.findall(body)]
            found[f"{suite}.{name}"] = [part for part in joined if len(part) >= SHORTEST]
    return found


def check(page, rows, tests):
    problems, numbers = [], []
    if (count := page.count("\n")) > LINES:
        problems.append(f"{PAGE}: {count} lines; at most {LINES}")
    for number, section in SECTION.findall(page):
        numbers.append(int(number))
        where = f"{PAGE}: mistake {number}"
        source, quoted = SOURCE.search(section), QUOTED.search(section)
        if not source or not quoted:
            problems.append(f"{where} names no row or test, or quotes no message")
            continue
        kind, name = source.groups()
        said = " ".join(quoted[1].split())
        if kind == "reject":
            if said != rows.get(name):
                problems.append(f"{where} quotes '{said}'; the row '{name}' expects '{rows.get(name)}'")
        elif not any(" ".join(part.split()) in said for part in tests.get(name, [])):
            problems.append(f"{where} quotes nothing that {kind}:{name} expects")
    if numbers != list(range(1, MISTAKES + 1)):
        problems.append(f"{PAGE}: expected the mistakes 1 to {MISTAKES}, found {numbers}")
    return problems


def project():
    return (tree.read(PAGE), sentences(tree.read(p) for p in tree.files(".rows")), fragments(tree.read(p) for p in tree.files("_test.cpp")))


def selftest():
    page, rows, tests = project()
    assert not check(page, rows, tests), check(page, rows, tests)
    for wrong in (page.replace("use the next larger one and pad", "use the next one and pad"), page.replace("may not share it", "may share it"),
                  page.replace("<!-- `reject:store of another shape` -->", ""), page.replace("reject:store of another shape", "reject:none"),
                  page.replace("Errors.MovedFrom", "Errors.OneTensorTwice"), page.replace("### 10. ", "### 11. "), page + "\n" * LINES):
        assert len(check(wrong, rows, tests)) == 1, (check(wrong, rows, tests), wrong == page)
    return []


tree.finish(selftest() if "--selftest" in sys.argv else check(*project()), "Quote what the row or the test expects; change both together.")
