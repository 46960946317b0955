"""What a page of the guide consists of, for extract.py and run.py.

A ```cpp block with a function, a type, an #include or a using at its left margin stands at file scope; any other is a part of main(). What
stands in a comment <!-- test ... --> is code of the same two kinds that the reader does not see. Behind a block (blank lines aside) there is

  Output:           and a ```text block: what the block prints
  Error:            and a ```text block: of a block of main() the what() of the exception that it throws; if the text begins with "error:",
                    what the compiler says, and the block is no part of the program
  <!-- no output -->

In front of a block <!-- no lint --> means that it shows what tests/structure/regions_lint.py is there to find.

A block with its own `int main() {` is a whole program: its main runs where the block stands. One with `int main(int argc, char** argv) {`
is compiled and not run. A ```console block whose first line is
`$ tessera explain ...` has its Output held against the command (run.py).
"""
import re
from pathlib import Path

FILE_SCOPE = re.compile(r"^(#|template\b|using\b|struct\b|class\b|enum\b|namespace\b|[\w:<>,&* ]+[ &*][\w:]+\([^;]*\)\s*\{)", re.M)
KINDS = ("", "cpp", "console", "bash", "sh", "cmake", "python", "text", "mermaid")


class Block:
    def __init__(self, page, kind, line, text, hidden=False):
        self.page, self.kind, self.line, self.text, self.hidden = page, kind, line, text, hidden
        self.label = self.says = None  # "Output" or "Error", and the text behind it
        self.says_at = None            # its first line in the page, and the line behind its last
        self.marked = False            # <!-- no output -->
        self.linted = True             # no <!-- no lint --> in front of it

    @property
    def place(self):
        return f"{self.page.name}:{self.line}"

    @property
    def file_scope(self):
        return bool(FILE_SCOPE.search(self.text))

    @property
    def whole_program(self):
        return bool(re.search(r"^int main\((int argc, char\*\* argv)?\) \{$", self.text, re.M))

    @property
    def compile_error(self):
        return self.label == "Error" and self.says.startswith("error:")


def blocks(page):
    """The code of a page in order: ```cpp and ```console blocks, and hidden ones. Raises ValueError with the place of a mistake."""
    page = Path(page)
    lines = page.read_text(encoding="utf-8").split("\n")
    found, i = [], 0

    def fenced(at):
        """(kind, text, line behind) of the block whose fence is line `at`."""
        kind = lines[at][3:].strip()
        if kind not in KINDS:
            raise ValueError(f"{page.name}:{at + 1}: unknown kind of block '{kind}'")
        for end in range(at + 1, len(lines)):
            if lines[end].rstrip() == "```":
                return kind, "\n".join(lines[at + 1:end]), end + 1
        raise ValueError(f"{page.name}:{at + 1}: a code block is not closed")

    def next_text(at):
        while at < len(lines) and not lines[at].strip():
            at += 1
        return at

    while i < len(lines):
        if lines[i].strip() == "<!-- test":
            end = next((k for k in range(i + 1, len(lines)) if lines[k].strip() == "-->"), None)
            if end is None:
                raise ValueError(f"{page.name}:{i + 1}: a <!-- test comment is not closed")
            found.append(Block(page, "cpp", i + 2, "\n".join(lines[i + 1:end]), hidden=True))
            i = end + 1
        elif lines[i].startswith("```"):
            start, (kind, text, i) = i + 2, fenced(i)
            if kind not in ("cpp", "console"):
                continue
            block = Block(page, kind, start, text)
            block.linted = not re.search(r"<!-- no lint -->\s*$", "\n".join(lines[:start - 2]))
            found.append(block)
            behind = next_text(i)
            if behind < len(lines) and lines[behind].strip() == "<!-- no output -->":
                block.marked = True
            elif behind < len(lines) and lines[behind].strip() in ("Output:", "Error:"):
                fence = next_text(behind + 1)
                if fence == len(lines) or not lines[fence].startswith("```text"):
                    raise ValueError(f"{page.name}:{behind + 1}: no ```text block behind '{lines[behind].strip()}'")
                block.label = lines[behind].strip()[:-1]
                _, block.says, i = fenced(fence)
                block.says_at = (fence + 1, i - 1)
            if kind == "cpp" and not block.label and not block.marked:
                raise ValueError(f"{block.place}: the block has no Output:, no Error: and no <!-- no output -->")
            if block.label == "Error" and not block.compile_error and block.file_scope:
                raise ValueError(f"{block.place}: a block at file scope throws nothing: its error is one of the compiler's")
        else:
            i += 1
    return found
