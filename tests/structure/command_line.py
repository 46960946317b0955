"""The page of the command line shows what the command prints as its help: command_line.py <the tessera command>."""
import re
import subprocess
import sys

import tree

PAGE = "docs/reference/command-line.md"


def printed(*words):
    return subprocess.run([sys.argv[1], *words], capture_output=True, text=True, timeout=60).stdout.rstrip("\n")


page = tree.read(PAGE)
blocks = re.findall(r"```text\n(.*?)\n```", page, re.S)
commands = re.findall(r"^## tessera (\w+)$", page, re.M)
shown = [printed("help"), *(printed(command, "--help") for command in commands)]
problems = [f"{PAGE}: what tessera {' '.join(name)} prints is not there" for name, text in
            zip([["help"], *([c, "--help"] for c in commands)], shown) if text not in blocks]
problems += [f"{PAGE}: a block that no command prints:\n{block}" for block in blocks if block not in shown]
tree.finish(problems, "scripts/docs/reference.py --write writes the page anew.")
