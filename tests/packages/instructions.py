"""Follows what the pages tell to do with the repository: every FetchContent_Declare of a page is tried against a clone of this
repository, and every commit, tag or branch that a page names has to be there. instructions.py WORK CMAKE-WORD..."""
import os
import re
import subprocess
import sys

from common import ROOT, emptied, expect, run

MENTION = re.compile(r"GIT_TAG\s+([\w./-]+)|git (?:checkout|switch|clone --branch|clone -b)\s+([\w./-]+)")
DECLARED = re.compile(r"FetchContent_Declare\([^)]*\)\s*FetchContent_MakeAvailable\([^)]*\)")


def pages():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True,
                            text=True, check=True)
    for path in listed.stdout.split():
        if not path.startswith(("bench/notes/", "CHANGELOG")):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                yield path, file.read()


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)


def problem_of(name):
    """Why a clone cannot check this out for good; empty if it can."""
    if git("cat-file", "-e", f"{name}^{{commit}}").returncode != 0:
        return "a clone has no commit, tag or branch of this name"
    if not re.fullmatch(r"[0-9a-f]{40}", name) and git("rev-parse", "-q", "--verify", f"refs/tags/{name}").returncode != 0:
        return "it is no commit of 40 digits and no tag: it does not stay what it is"
    if git("merge-base", "--is-ancestor", name, "HEAD").returncode != 0:
        return "it is not a part of this branch's history"
    return ""


def follow(snippet, work, words):
    """Configures a project with these lines, the address replaced by that of this repository."""
    emptied(work)
    lines, count = re.subn(r"<[^>]*>", f'"file://{ROOT}"', snippet)
    expect(count == 1, f"expected one address to fill in, found {count} in\n{snippet}")
    with open(os.path.join(work, "CMakeLists.txt"), "w", encoding="utf-8") as file:
        file.write("cmake_minimum_required(VERSION 3.25)\nproject(follower LANGUAGES CXX)\ninclude(FetchContent)\n" + lines +
                   "\nif(NOT TARGET tessera::tessera)\n  message(FATAL_ERROR \"there is no tessera::tessera\")\nendif()\n")
    run("cmake", "-S", work, "-B", os.path.join(work, "build"), "-G", "Ninja", *words)


def selftest():
    expect(problem_of("v0.0.nothing"), "a tag that is not there passes")
    expect(problem_of(git("rev-parse", "HEAD").stdout.strip()) == "", "the commit of this tree does not pass")
    expect("does not stay" in problem_of("HEAD"), "a name that moves passes")
    expect([m[1] or m[2] for m in MENTION.finditer("GIT_TAG v1 and git checkout abc")] == ["v1", "abc"], "names in a text")


if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
    print("skipped: this is no whole clone, so what a clone has is not known")
    sys.exit(77)
selftest()
problems, snippets, seen = [], set(), 0
for path, text in pages():
    for match in MENTION.finditer(text):
        seen += 1
        problem = problem_of(match[1] or match[2])
        if problem:
            problems.append(f"{path}: {match[0]}: {problem}")
    snippets |= set(DECLARED.findall(text))
expect(not problems, "\n".join(problems))
expect(seen and snippets, "no page says how to fetch the repository: the check reads nothing")
for number, snippet in enumerate(sorted(snippets)):
    follow(snippet, os.path.join(sys.argv[1], f"follow-{number}"), sys.argv[2:])
