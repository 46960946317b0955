"""The README's example is tests/consumer/main.cpp, which is built and run against the installed library."""
import re

import tree

block = re.search(r"^```cpp\n(.*?)^```", tree.read("README.md"), re.M | re.S)
program = tree.read("tests/consumer/main.cpp").split("\n", 1)[1]  # without its first line, the comment on what it is for
tree.finish([] if block and block.group(1) == program else ["README.md: its first C++ block differs from tests/consumer/main.cpp"],
            "Change both together.")
