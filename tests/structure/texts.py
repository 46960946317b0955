"""No file names a folder of somebody's machine; files stay short enough to be read (over 500 lines: a warning)."""
import os
import re

import tree

MACHINE = re.compile(r"(?<![\w./~$}-])/(?:home|root|work|workspace|Users|mnt|scratch|data)/[\w.]")
TEXT = (".hpp", ".cpp", ".def", ".py", ".sh", ".md", ".cmake", ".txt", ".json", ".in")
LIMIT = 500

problems = []
for path in tree.files():
    if not path.endswith(TEXT) and "." in os.path.basename(path)[1:]:
        continue
    lines = tree.read(path).split("\n")
    for number, line in enumerate(lines, 1):
        if MACHINE.search(line):
            problems.append(f"{path}:{number}: a machine's path: {line.strip()}")
    if path.endswith((".hpp", ".cpp", ".py")) and len(lines) > LIMIT:
        print(f"warning: {path} has {len(lines)} lines; one idea a file, most under {LIMIT}")
tree.finish(problems, "Write paths relative to the project, or take them from an option or a knob of env.def.")
