"""No file names a folder of a developer's machine; source files open with what they are for and stay short enough to be read (over 500
lines: a warning)."""
import os
import re

import tree

MACHINE = re.compile(r"(?<![\w./~$}-])/(?:home|root|work|workspace|Users|mnt|scratch|data)/[\w.]")
TEXT = (".hpp", ".cpp", ".def", ".py", ".sh", ".md", ".cmake", ".txt", ".json", ".in")
OPENS = re.compile(r'(?:#!.*\n)?(?://|"""|# )')  # a comment, after the interpreter's line of a script
SOURCE = (".hpp", ".cpp", ".inl", ".def", ".py", ".sh", ".cmake")
LIMIT = 500

problems = []
for path in tree.files():
    if not path.endswith(TEXT) and "." in os.path.basename(path)[1:]:
        continue
    lines = tree.read(path).split("\n")
    for number, line in enumerate(lines, 1):
        if MACHINE.search(line):
            problems.append(f"{path}:{number}: a machine's path: {line.strip()}")
    if path.endswith(SOURCE) and not OPENS.match(lines[0] + "\n" + "".join(lines[1:2])):
        problems.append(f"{path}:1: no opening comment that says what the file is for")
    if path.endswith((".hpp", ".cpp", ".py")) and len(lines) > LIMIT:
        print(f"warning: {path} has {len(lines)} lines; one idea a file, most under {LIMIT}")
tree.finish(problems, "Paths are relative to the project, or come from an option or a knob of env.def; a file's first comment says what it is for.")
