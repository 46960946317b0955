"""Words that the project no longer uses (retired_words.txt) stand in no page, comment, message, identifier or file name.

    words.py             check the project
    words.py --counts    how many are left, by folder
    words.py --selftest  check that what is retired is found, and nothing else

The sources of docs/reference are checked, not its pages.
"""
import collections
import io
import os
import re
import sys
import tokenize

import tree

sys.path.insert(0, os.path.join(tree.ROOT, "scripts", "docs"))
import md  # noqa: E402

LIST = "tests/structure/retired_words.txt"
PLACES = ("docs", "comments", "messages", "code")
EXEMPT = (LIST, "tests/structure/words.py", "docs/reference/", "LICENSE")
CPP = (".hpp", ".cpp", ".def", ".inl", ".rows")
HASH = (".sh", ".cmake", ".txt", ".toml", ".yml")
CPP_TOKEN = re.compile(r"""(?P<comments>//[^\n]*|/\*.*?\*/)|(?P<include>^[ \t]*\#[ \t]*include[^\n]*)|
    (?P<messages>R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*")|(?P<char>'(?:\\.|[^'\\\n])+'(?!\w))|(?P<code>[A-Za-z_]\w*)""",
                       re.X | re.S | re.M)
HASH_TOKEN = re.compile(r"""(?P<comments>(?:^|(?<=\s))\#[^\n]*)|(?P<messages>"(?:\\.|[^"\\])*"|'[^'\n]*')""", re.X | re.M)


def spaces_match_breaks(pattern):
    """The expression with each space also matching the end of a line and the indentation of the next; not in a
    look-behind, whose width is fixed."""
    gap, out, k = r"(?:[ ]|[ \t]*\n[ \t]*)", "", 0
    while k < len(pattern):
        match = re.match(r"\(\?<[!=][^)]*\)|\\.|\[(?:\\.|[^\]\\])*\]|.", pattern[k:])
        part = match.group()
        k += len(part)
        out += gap if part == " " else f"(?:{part}|{gap})" if part[0] == "[" and " " in part else part
    return out


def read_rows(text):
    """[(expression, what to write, places)]"""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        places = set(cells[2].split(",")) if len(cells) == 3 else set()
        places = set(PLACES) if places == {"all"} else places
        if not places or not places <= set(PLACES):
            sys.exit(f"{LIST}:{number}: expected three columns with tabs between: expression, replacement, all or {', '.join(PLACES)}")
        try:
            re.compile(spaces_match_breaks(cells[0]))
        except re.error as error:
            sys.exit(f"{LIST}:{number}: {error}")
        rows.append((cells[0], cells[1], places))
    return rows


def needed(expression):
    """For each alternative the longest run of letters, in lower case, that every text with a match contains; empty if none is
    known. A search for them takes a hundredth of a match of the expression."""
    all_of_them, runs, run, depth, k = [], [], "", 0, 0
    while k < len(expression):
        part = re.match(r"\\.|\[(?:\\.|[^\]\\])*\]|.", expression[k:]).group()
        k += len(part)
        depth += (part == "(") - (part == ")")
        if part.isalpha() and depth == 0 and expression[k:k + 1] not in ("?", "*", "{"):
            run += part.lower()
            continue
        runs, run = runs + [run], ""
        if part == "|" and depth == 0:
            all_of_them, runs = all_of_them + [max(runs, key=len)], []
    return all_of_them + [max(runs + [run], key=len)]


class Words:
    def __init__(self, rows):
        self.rows = rows
        self.needed = [needed(expression) for expression, _, _ in rows]
        self.places = {place: self.chosen(lambda places, place=place: place in places) for place in PLACES}
        self.everywhere = self.chosen(lambda places: {"docs", "code"} <= places)  # in Markdown also in its code
        self.compiled, self.known = {}, {}

    def chosen(self, wanted):
        return [k for k, (_, _, places) in enumerate(self.rows) if wanted(places)]

    def found(self, text, chosen):
        """(place, what was found, what to write) by those of the chosen rows that may be in the text."""
        lower = text.lower()
        rows = [k for k in chosen if any(letters in lower for letters in self.needed[k])]
        for k in rows:
            if k not in self.compiled:
                self.compiled[k] = re.compile(spaces_match_breaks(self.rows[k][0]), re.I)
            for match in self.compiled[k].finditer(text):
                yield match.start(), match.group(), self.rows[k][1]

    def of_identifier(self, name):
        """What is retired in an identifier; its words with spaces between are searched too."""
        if name not in self.known:
            words = re.sub(r"_+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)).strip()
            self.known[name] = next((hit for text in (name, words) for hit in self.found(text, self.places["code"])), None)
        return self.known[name]

    def of_file(self, path, text):
        """(line, what was found, what to write) in a file."""
        hits = set()
        name = os.path.basename(path).split(".")[0]
        if (hit := self.of_identifier(name)) is not None:
            hits.add((1, f"file name {hit[1]}", hit[2]))

        def add(start, what, instead, within=text):
            hits.add((within.count("\n", 0, start) + 1, " ".join(what.split()), instead))

        if path.endswith(".md"):
            prose = without_code(text)
            for hit in self.found(prose, self.places["docs"]):
                add(*hit, prose)
            for hit in self.found(text, self.everywhere):
                add(*hit)
        else:
            parts = split(path, text)
            for place in ("comments", "messages"):
                for offset, chunk in parts[place]:
                    for start, what, instead in self.found(chunk, self.places[place]):
                        add(offset + start, what, instead)
            for start, identifier in parts["code"]:
                if (hit := self.of_identifier(identifier)) is not None:
                    add(start, identifier, hit[2])
        return sorted(hits)


def without_code(text):
    lines, kept = text.split("\n"), dict(md.outside_fences(text))
    return "\n".join(md.without_code(line) if n in kept else "" for n, line in enumerate(lines, 1))


def split(path, text):
    """The comments, messages and identifiers of a source with their places. Neighbours are one text, so that what a line end
    splits is found."""
    spans = {"comments": [], "messages": [], "code": []}
    if path.endswith(".py"):
        spans = python_spans(text, spans)
    else:
        for match in (CPP_TOKEN if path.endswith(CPP) else HASH_TOKEN).finditer(text):
            kind = match.lastgroup if match.lastgroup != "mark" else "messages"
            if kind in spans:
                spans[kind].append(match.span())
    return {"comments": list(chunks(text, spans["comments"], r"^[ \t]*(///?<?|/\*+|\*/|\*|#+!?)")),
            "messages": list(chunks(text, spans["messages"], r"^R?\"\(?|\"$")),
            "code": [(a, text[a:b]) for a, b in spans["code"]]}


def chunks(text, spans, marks):
    """(place, text) of the spans, those with only spaces and line ends between them together; their marks are blanked."""
    start, end, out = None, None, ""
    for a, b in spans:
        inner = re.sub(marks, lambda m: " " * len(m.group()), text[a:b], flags=re.M)
        inner = re.sub(r"\\n|\\t", "  ", inner)
        if end is not None and not text[end:a].strip():
            out += text[end:a] + inner
        else:
            if start is not None:
                yield start, out
            start, out = a, inner
        end = b
    if start is not None:
        yield start, out


def python_spans(text, spans):
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kind = {tokenize.COMMENT: "comments", tokenize.STRING: "messages", tokenize.NAME: "code"}.get(token.type)
            if kind:
                spans[kind].append((starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]))
    except (tokenize.TokenError, IndentationError):
        pass  # not Python of this version: what was read until here counts
    return spans


def selftest():
    words = Words(read_rows("\\bmend(s|ed)?\\b\tfix\tall\n\\blaunch[ -]words?\\b\tlaunch flags\tall\n\\btell\\b\ttrigger\tcode\n"
                            "\\bfalls back\\b\tuses the fallback\tdocs,comments\n"))
    files = {
        "docs/a.md": "`some code here` mends what falls\nback, `kTell` and `mend`.\n```cpp\nfalls back; // launch_word\n```\nIt mends.\n",
        "src/mended.cpp": "// What falls\n// back.\n#include \"mend.hpp\"\nint kTell = f(\"falls back: mends\" /* launch\n word */);\nint LaunchWord; // tell\n"
                          "auto s = \"launch \"\n         \"words\";\n",
        "tools/b.py": "\"\"\"It mends.\"\"\"\ndef launch_word(x):  # falls back\n    return 'tell'\n",
        "scripts/c.sh": "# launch words\necho \"it mends\" # mended\nmend=1\n",
    }
    expected = {"docs/a.md": [(1, "falls back"), (1, "mends"), (2, "mend"), (6, "mends")],
                "src/mended.cpp": [(1, "falls back"), (1, "file name mended"), (4, "kTell"), (4, "launch word"), (4, "mends"), (6, "LaunchWord"),
                                   (7, "launch \" \"words")],
                "tools/b.py": [(1, "mends"), (2, "falls back"), (2, "launch_word")],
                "scripts/c.sh": [(1, "launch words"), (2, "mended"), (2, "mends")]}
    found = {path: sorted((n, what) for n, what, _ in words.of_file(path, text)) for path, text in files.items()}
    # In code of Markdown the words of identifiers are searched as they are written.
    return [f"{path}: found {found[path]}, expected {expected[path]}" for path in files
            if [(n, re.sub(r"\W+", " ", w)) for n, w in found[path]] != [(n, re.sub(r"\W+", " ", w)) for n, w in expected[path]]]


def project():
    words = Words(read_rows(tree.read(LIST)))
    problems, counts = [], collections.Counter()
    for path in tree.files(".md", ".py", *CPP, *HASH):
        if path.startswith(EXEMPT):
            continue
        for number, what, instead in words.of_file(path, tree.read(path)):
            problems.append(f"{path}:{number}: {what}: write {instead}")
            counts["/".join(path.split("/")[:2]) if path.split("/")[0] in ("src", "include", "tests", "docs") and path.count("/") > 1 else path.split("/")[0]] += 1
    if "--counts" in sys.argv:
        problems = [f"{count:6} {folder}" for folder, count in counts.most_common()]
    return problems


tree.finish(selftest() if "--selftest" in sys.argv else project(), f"{LIST} has the words and what replaces them.")
