"""Reads the public declarations of a C++ header: their signatures, their doc comments and their members.

read(path) gives a Header. The reader knows the C++ of this project's headers and no more: `///` in front of a declaration
is its comment, `///<` after one too, functional macros that a header defines and uses itself are expanded, what stands
in `namespace detail`, `lang`, `jit`, `runtime` or `impl` is not public (it is kept apart, for the members that a public
class inherits). A declaration that cannot be understood is an error, not a gap in the page.
"""
import pathlib
import re
from dataclasses import dataclass, field

HIDDEN = {"detail", "lang", "jit", "impl", "runtime"}
OPEN, CLOSE = "([{", ")]}"
TOKEN = re.compile(r"""
    (?P<doc>///(?!/)[^\n]*) | (?P<comment>//[^\n]*|/\*.*?\*/) | (?P<space>\s+) |
    (?P<text>R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'(?!\w)) |
    (?P<name>[A-Za-z_]\w*) | (?P<number>\d[\w.']*) | (?P<sign>::|->|&&|\|\||\.\.\.|.)""", re.X | re.S)
INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
DEFINE = re.compile(r"^#define (TESSERA_\w+)\(([^)]*)\)((?:[^\n]*\\\n)*[^\n]*)\n", re.M)


class Unreadable(Exception):
    """A header that this reader does not understand."""


@dataclass
class Declaration:
    kind: str                   # function, class, enum, value or alias
    name: str
    signature: str              # one line
    doc: list = field(default_factory=list)
    members: list = field(default_factory=list)
    bases: list = field(default_factory=list)     # (name, is public)
    reexported: list = field(default_factory=list)  # names after `using Base::`
    line: int = 0               # where it begins, and ends
    end: int = 0
    doc_shared: bool = False
    located: bool = False       # a parameter for the caller's line was left out of the signature
    rejects: bool = False       # only explains, by a static_assert, why the call does not compile
    from_macro: bool = False


@dataclass
class Header:
    path: str
    intro: list                 # lines of the comment at the top, without the slashes
    public: dict                # namespace ("" is tessera) -> declarations
    hidden: dict                # name -> class of a hidden namespace


@dataclass
class Token:
    kind: str
    text: str
    at: int


def tokens_of(text):
    return [Token(m.lastgroup if m.lastgroup != "mark" else "text", m.group(), m.start())
            for m in TOKEN.finditer(text) if m.lastgroup != "space" and not (m.lastgroup == "comment" and not m.group())]


def inline_tables(text):
    """Replaces #include of a table (.def) by its rows, where the header has just defined macros that make function templates of them: the rows of these
    macros and the comments in front of them."""
    out, begin = [], 0
    for include in re.finditer(r'^#include "(tessera/[^"]+\.def)"$', text, re.M):
        out.append(text[begin:include.start()])
        names = [name for name, _, body in DEFINE.findall(out[-1]) if "template" in body]
        begin = include.end()
        comments = []
        for line in (INCLUDE / include.group(1)).read_text(encoding="utf-8").splitlines() if names else ():
            if any(line.startswith(name + "(") for name in names):
                out.append("\n".join([*comments, line, ""]))
            comments = [*comments, line] if line.startswith("///") else []
    return "".join([*out, text[begin:]])


def expand_macros(text, included=()):
    """Replaces the uses of macros that the header itself defines, or one of those that it includes (their texts); a comment after a use
    goes in front of it."""
    macros = {name: ([p.strip() for p in params.split(",")], body.replace("\\\n", "\n"))
              for source in (*included, text) for name, params, body in DEFINE.findall(source)}
    text = DEFINE.sub(lambda m: "\n" * m.group().count("\n"), text)

    def use(match):
        params, body = macros[match.group(1)]
        values = [v.strip() for v in match.group(2).split(",")]
        if params[-1] == "...":
            params = params[:-1]
            values = values[:len(params)]
        if len(values) != len(params):
            raise Unreadable(f"{match.group()}: expected {len(params)} arguments")
        for param, value in zip(params, values):
            body = re.sub(rf"(?:##)?\b{param}\b(?:##)?", value, body)
        doc = f"/// {match.group(3).strip()}\n" if match.group(3) else ""
        return doc + "/*expanded*/" + " ".join(line.strip() for line in body.split("\n")) + "/*end*/"

    for name in macros:
        text = re.sub(rf"^[ ]*({name})\(([^()]*)\)(?:[ ]*// ?([^\n]*))?$", use, text, flags=re.M)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n"), text, flags=re.M)


def skip_group(tokens, i):
    """The index after the bracket that closes the one at i."""
    depth = 0
    while i < len(tokens):
        t = tokens[i].text
        depth += (t in OPEN) - (t in CLOSE)
        i += 1
        if depth == 0:
            return i
    raise Unreadable("a bracket is not closed")


def skip_angles(tokens, i):
    """The index after the > that closes the < at i."""
    depth = 0
    while i < len(tokens):
        t = tokens[i].text
        if t in OPEN:
            i = skip_group(tokens, i)
            continue
        depth += (t == "<") - (t == ">")
        i += 1
        if depth == 0:
            return i
    raise Unreadable("a < is not closed")


def joined(tokens):
    """Tokens as one line: spaces where the source has some, but none for a break after ( and < or in front of )."""
    out, end = "", None
    for t in tokens:
        broken = end is not None and t.at > end
        if broken and not out.endswith(("(", "<")) and t.text not in (")", ","):
            out += " "
        out += t.text
        end = t.at + len(t.text)
    return out


def split_commas(tokens):
    """The parts of a list between commas, angles and brackets respected."""
    parts, current, i = [], [], 0
    while i < len(tokens):
        t = tokens[i].text
        end = i + 1
        if t in OPEN:
            end = skip_group(tokens, i)
        elif t == "<" and i and tokens[i - 1].kind == "name":
            end = skip_angles(tokens, i)
        elif t == ",":
            parts.append(current)
            current, i = [], i + 1
            continue
        current += tokens[i:end]
        i = end
    return parts + [current] if current or parts else []


def is_location(param):
    names = [t.text for t in param if t.kind == "name"]
    return bool(names) and names[0] in ("SourceLocation", "Where")


def is_attribute(tokens, i):
    return [t.text for t in tokens[i:i + 2]] == ["[", "["]


def read_head(tokens):
    """Splits `template <...> requires ...` from the rest; attributes and TESSERA_ macros are dropped from both."""
    i, head = 0, []
    while i < len(tokens):
        t = tokens[i].text
        if t == "template":
            end = skip_angles(tokens, i + 1)
        elif t == "requires":
            end = end_of_constraint(tokens, i + 1)
        elif is_attribute(tokens, i):
            i = skip_group(tokens, i)
            continue
        else:
            break
        head += tokens[i:end]
        i = end
    rest = []
    while i < len(tokens):
        if is_attribute(tokens, i):
            i = skip_group(tokens, i)
        elif tokens[i].kind == "name" and tokens[i].text.startswith("TESSERA_"):
            i += 1
        else:
            rest.append(tokens[i])
            i += 1
    return head, rest


def end_of_constraint(tokens, i):
    """Behind the constraint that starts at i: (...), or concepts joined by && and ||."""
    while True:
        if tokens[i].text == "!":
            i += 1
        if tokens[i].text == "(":
            i = skip_group(tokens, i)
        else:
            while i < len(tokens) and (tokens[i].kind == "name" or tokens[i].text == "::"):
                last = tokens[i]
                i += 1
                if tokens[i].text == "<":
                    i = skip_angles(tokens, i)
                if tokens[i].kind == "name" and last.text != "::":
                    break
        if tokens[i].text in ("&&", "||"):
            i += 1
        else:
            return i


def find_call(tokens):
    """Where the parameter list of a function begins, and the function's name; None if it is no function."""
    i = 0
    while i < len(tokens):
        t = tokens[i]
        if t.text == "operator":
            if i and tokens[i - 1].text == "::":
                return None  # defined outside its class
            end = i + 1
            if tokens[end].text == "(":
                end += 2
            while tokens[end].text != "(":
                end += 1
            return end, "operator" + "".join((" " if x.kind == "name" else "") + x.text for x in tokens[i + 1:end])
        if t.text in ("=", "{"):
            return None
        if t.text == "<" and i and tokens[i - 1].kind == "name":
            i = skip_angles(tokens, i)
            continue
        if t.text == "(":
            if tokens[i + 1].text == "*":
                return None  # a pointer to a function
            before = tokens[i - 1] if i else None
            if before and before.kind == "name" and before.text not in ("decltype", "alignas", "noexcept", "explicit"):
                name = ("~" if i > 1 and tokens[i - 2].text == "~" else "") + before.text
                return i, name
            i = skip_group(tokens, i)
            continue
        i += 1
    return None


DROPPED = {"inline", "virtual", "noexcept"}


def included_texts(text):
    """The texts of the public headers that a header includes itself."""
    paths = [INCLUDE / name for name in re.findall(r'^#include "(tessera/[^"]+)"', text, re.M)]
    return [path.read_text(encoding="utf-8") for path in paths if path.is_file()]


class Reader:
    def __init__(self, path, text):
        self.header = Header(path, top_comment(text), {}, {})
        self.text = expand_macros(inline_tables(text), included_texts(text))
        self.tokens = tokens_of(self.text)

    def read(self):
        self.scope(0, len(self.tokens), "", False)
        return self.header

    def line_of(self, token):
        return self.text.count("\n", 0, token.at) + 1

    def scope(self, i, end, namespace, hidden):
        """The declarations of a namespace."""
        for d, opens in self.statements(i, end, hidden=hidden):
            if opens and opens[0] == "namespace":
                _, names, inner, inner_end = opens
                parts = [p for p in names.split("::") if p]
                inside = [p for p in parts if p != "tessera"]
                self.scope(inner, inner_end, "::".join([p for p in [namespace, *inside] if p]),
                           hidden or any(p in HIDDEN for p in inside) or not parts)
            elif d is not None and hidden:
                if d.kind == "class":
                    self.header.hidden.setdefault(d.name, d)
            elif d is not None:
                self.header.public.setdefault(namespace, []).append(d)

    def statements(self, i, end, owner=None, hidden=False):
        """(declaration or None, what a namespace opens or None) for each statement; `owner`: the class around them;
        `hidden`: what is not understood is passed over."""
        doc, access, latest, expanded = [], "public" if owner != "class" else "private", None, False
        while i < end:
            t = self.tokens[i]
            if t.kind == "doc":
                if t.text.startswith("///<"):
                    if latest is not None:
                        latest.doc.append(t.text[4:].strip())
                else:
                    doc.append(t.text[3:][1:] if t.text[3:4] == " " else t.text[3:])
                i += 1
                continue
            if t.kind == "comment":
                expanded = t.text == "/*expanded*/" or expanded and t.text != "/*end*/"
                if latest is not None and t.text.startswith("///<"):
                    latest.doc.append(t.text[4:].strip())
                i += 1
                continue
            if t.text in (";", "}"):
                i += 1
                continue
            if owner and t.text in ("public", "protected", "private") and self.tokens[i + 1].text == ":":
                access, i, doc, latest = t.text, i + 2, [], None
                continue
            start = i
            i, body = self.end_of_statement(i, end)
            statement = [x for x in self.tokens[start:body[0] if body else i] if x.kind not in ("doc", "comment")]
            if statement and statement[0].text == "namespace":
                names = "".join(x.text for x in statement[1:])
                yield None, ("namespace", names, body[0] + 1, body[1] - 1)
            else:
                try:
                    d = self.declaration(statement, body, owner)
                except (Unreadable, IndexError):
                    if not hidden:
                        raise Unreadable(f"line {self.line_of(t)}: {joined(statement)[:80]}") from None
                    d = None
                if d is not None:
                    d.doc, d.line, d.from_macro = doc + d.doc, self.line_of(t), expanded
                    d.end = self.line_of(self.tokens[i - 1])
                    latest = d
                    if access == "public":
                        yield d, None
            doc = []
            # A comment after the statement, on its line, is still its own.
            if i < end and self.tokens[i].kind == "doc" and self.tokens[i].text.startswith("///<"):
                continue
            if i < end and self.tokens[i].text == ";":
                i += 1

    def end_of_statement(self, i, end):
        """(index after the statement, (index of {, index after }) of its body or None)."""
        first = self.tokens[i].text
        while i < end:
            t = self.tokens[i].text
            if t == ";":
                return i + 1, None
            if t == "{":
                closed = skip_group(self.tokens, i)
                after = self.tokens[closed].text if closed < end else ";"
                if after in (",", "{") and first not in ("namespace", "enum"):  # a brace in a list of initialisers
                    i = closed
                    continue
                return closed, (i, closed)
            if t in "([":
                i = skip_group(self.tokens, i)
            elif t in ("template",) and self.tokens[i + 1].text == "<":
                i = skip_angles(self.tokens, i + 1)
            else:
                i += 1
        return end, None

    def declaration(self, statement, body, owner):
        head, rest = read_head([t for t in statement if t.text not in DROPPED and t.text != ";"])
        if not rest or rest[0].text in ("static_assert", "extern", "concept") or any(t.text == "friend" for t in statement):
            return self.concept(head, rest) if rest and rest[0].text == "concept" else None
        template = joined(head)
        if rest[0].text in ("class", "struct"):
            return self.class_of(template, rest, body)
        if rest[0].text == "enum":
            return self.enum_of(rest, body)
        if rest[0].text == "using":
            return self.using(template, rest)
        call = find_call(rest)
        if call is None:
            return self.value(template, rest)
        return self.function(template, rest, call, body, owner)

    def concept(self, head, rest):
        return Declaration("alias", rest[1].text, joined(head) + " " + joined(rest))

    def class_of(self, template, rest, body):
        if body is None:
            return None  # declared elsewhere
        texts = [t.text for t in rest]
        colon = texts.index(":") if ":" in texts else len(rest)
        name = rest[1].text
        if "<" in texts[2:colon]:
            return None  # a specialisation: the primary template has the page
        found = Declaration("class", name, (template + " " + " ".join(texts[:2])).strip())
        for base in split_commas(rest[colon + 1:]):
            names = [t.text for t in base if t.text not in ("public", "private", "protected", "virtual")]
            plain = "".join(names).split("<")[0].split("::")[-1]
            is_public = base[0].text == "public" or (base[0].text not in ("private", "protected") and texts[0] == "struct")
            found.bases.append((plain, is_public))
        for d, _ in self.statements(body[0] + 1, body[1] - 1, texts[0]):
            if d is None:
                continue
            if d.kind == "reexport":
                found.reexported.append(d.name)
            elif not d.name.startswith("~") and "= delete" not in d.signature:
                found.members.append(d)
        return found

    def enum_of(self, rest, body):
        if body is None:
            return None
        names = [t.text for t in rest if t.kind == "name" and t.text not in ("enum", "class", "struct")]
        inner = self.tokens[body[0] + 1:body[1] - 1]
        found = Declaration("enum", names[0], "enum class " + names[0] if any(t.text == "class" for t in rest) else "enum " + names[0])
        expect, value = True, None
        for t in inner:
            if t.kind == "doc":
                if t.text.startswith("///<") and value is not None:
                    value.doc.append(t.text[4:].strip())
            elif t.text == ",":
                expect = True
            elif expect and t.kind == "name":
                value = Declaration("value", t.text, t.text)
                found.members.append(value)
                expect = False
        return found

    def using(self, template, rest):
        texts = [t.text for t in rest]
        if "=" not in texts:
            return Declaration("reexport", texts[-1], "") if "::" in texts and "namespace" not in texts else None
        return Declaration("alias", texts[1], (template + " " + joined(rest)).strip())

    def value(self, template, rest):
        texts = [t.text for t in rest]
        end = min([texts.index(t) for t in "={[" if t in texts], default=len(rest))
        names = [t for t in rest[:end] if t.kind == "name"]
        if len(names) < 2:
            return None
        if "(" in texts and texts[texts.index("(") + 1] == "*":  # a pointer to a function
            names = [rest[texts.index("(") + 2]]
        if texts[-1] == "=":  # the value stands in braces
            rest = rest[:-1]
        if "<" in texts[:end] and rest[end - 1].text == ">" and texts[0] in ("constexpr", "inline"):
            return None  # a specialisation
        return Declaration("value", names[-1].text, (template + " " + joined(rest)).strip())

    def function(self, template, rest, call, body, owner):
        at, name = call
        close = skip_group(rest, at)
        params = split_commas(rest[at + 1:close - 1])
        kept = [p for p in params if not is_location(p)]
        tail = rest[close:]
        for k, t in enumerate(tail):
            if t.text == ":":
                tail = tail[:k]
                break
        if any(t.text == "::" for t in rest[max(at - 2, 0):at]) or (at > 1 and rest[at - 2].text == "::"):
            return None  # defined outside its class, where it is declared
        text = joined(rest[:at]) + "(" + ", ".join(joined(p) for p in kept) + ")"
        text += " " + joined(tail) if tail else ""
        found = Declaration("function", name, (template + " " + text).strip(), located=len(kept) < len(params))
        if body is not None:
            inner = [t for t in self.tokens[body[0] + 1:body[1] - 1] if t.kind != "comment"]
            found.rejects = bool(inner) and (
                inner[0].text == "static_assert" and any(t.text in ("never", "never_true") for t in inner[:6]) or
                any(t.text.startswith(("explain_", "Explain")) for t in inner[:8]))
        return found


def top_comment(text):
    lines = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return lines


def read(path, text):
    try:
        return Reader(path, text).read()
    except (Unreadable, IndexError) as problem:
        raise Unreadable(f"{path}: {problem}") from problem
