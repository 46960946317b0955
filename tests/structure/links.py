"""Relative links of the Markdown files lead to something."""
import os
import re

import tree

problems = []
for path in tree.files(".md"):
    for number, line in enumerate(tree.read(path).split("\n"), 1):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            if not os.path.exists(os.path.join(tree.ROOT, os.path.dirname(path), target)):
                problems.append(f"{path}:{number}: {target} does not exist")
tree.finish(problems, "Mend the link, or write the page.")
