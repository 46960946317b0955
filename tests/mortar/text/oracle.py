"""Shared by the differential tests of Mortar's text side: the program that is tested, and what Python must have."""
import importlib
import json
import os
import subprocess
import sys

SKIPPED = 77


def need(*modules):
    """The modules; ends the test as skipped (failed in CI, where scripts/test.sh --full installs them) where one is missing."""
    try:
        return [importlib.import_module(m) for m in modules]
    except ImportError as error:
        print(f"skipped: {error}. pip install tokenizers==0.23.3 jinja2==3.1.6 llguidance==1.9.1 numpy, and configure with -DTESSERA_PYTHON=<that python>")
        required = os.environ.get("TESSERA_REQUIRE_TILEIRAS") and sys.executable == os.environ.get("TESSERA_PYTHON")
        sys.exit(1 if required else SKIPPED)


def ask(program, words, requests):
    """One line of answer for each request."""
    text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in requests)
    run = subprocess.run([program, *words], input=text.encode(), stdout=subprocess.PIPE, check=True)
    answers = run.stdout.decode().split("\n")[:-1]
    if len(answers) != len(requests):
        sys.exit(f"expected {len(requests)} answers, found {len(answers)}")
    return answers


class Failures:
    def __init__(self):
        self.count = 0

    def add(self, what, expected, found):
        self.count += 1
        if self.count <= 10:
            print(f"DIFFERS: {what!a}\n  expected {expected!a}\n  found    {found!a}")

    def end(self, passed):
        print(f"{passed}: {self.count} differ")
        sys.exit(1 if self.count else 0)
