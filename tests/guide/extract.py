#!/usr/bin/env python3
"""Turns a page of the guide into a program (pages.py says what is what). The program prints a line with \\x1e and a number before each block,
so that run.py knows what was printed by which. Messages have the lines of the snippet, and call it app.cpp.

usage: extract.py PAGE.md OUT.cpp
"""
import re
import sys
from pathlib import Path

import pages

PRELUDE = """#include <cstdio>
#include <cstdlib>
#include <exception>
#include <tessera/tessera.hpp>
namespace guide_test {
inline const bool unbuffered = std::setvbuf(stdout, nullptr, _IONBF, 0) == 0;  // the library writes past stdio
/// What follows is printed by this block. For run.py its text becomes the file that messages name.
inline void block(int number, const char* text) {
  if (!std::getenv("GUIDE_TEST")) return;
  std::printf("\\x1e%d\\n", number);
  if (std::FILE* file = std::fopen("app.cpp", "w")) std::fputs(text, file), std::fclose(file);
}
inline void says(const char* text) { std::printf("%s\\n", text); }
}  // namespace guide_test
"""

# What clang's analysis finds of it is shown as what the program throws.
MISUSE = """#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wconsumed"
#endif
"""
MISUSE_END = """#ifdef __clang__
#pragma clang diagnostic pop
#endif
"""


def source(page, until=None):
    """The program without the blocks that must not compile; or, of those, `until` alone and what stands before it."""
    file_scope, body = [], []
    unless, endif = "#ifndef TESSERA_LINT\n", "#endif\n"
    for number, block in enumerate(pages.blocks(page)):
        if block.kind != "cpp" or block.compile_error and number != until:
            continue
        line = '#line 1 "app.cpp"\n' if not block.hidden else f'#line {block.line} "{block.page.name}"\n'
        text = block.text + "\n"
        begin = f'guide_test::block({number}, R"guide({text})guide");\n' if not block.hidden else ""
        if block.whole_program:
            head, arguments, tail = re.split(r"^int main\((.*)\) \{\n", text, 1, re.M)
            inside, behind = tail.split("\n}\n", 1)
            end = "" if arguments else "\n  return 0;"
            program = f"{line}{head}int guide_program_{number}({arguments}) {{\n{inside}{end}\n}}\n{behind}"
            call = "" if arguments else f"{begin}if (guide_program_{number}() != 0) return 1;\n"
            file_scope.append(program if block.linted else unless + program + endif)
            body.append(call if block.linted else unless + call + endif)
        elif block.file_scope:
            file_scope.append(line + text)
        elif block.label == "Error" and not block.compile_error:
            body.append(f'{MISUSE}{begin}try {{\n{line}{text}guide_test::says("no error");\n'
                        "} catch (const std::exception& guide_error) { guide_test::says(guide_error.what()); }\n" + MISUSE_END)
        else:
            body.append(begin + line + text)
        if number == until:
            break
    return PRELUDE + "".join(file_scope) + "int main() {\n" + "".join(body) + "  return 0;\n}\n"


if __name__ == "__main__":
    page, out = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        text = source(page)
    except ValueError as error:
        sys.exit(str(error))
    if not out.exists() or out.read_text() != text:
        out.write_text(text)
