"""Markdown: what the generated pages, the site and the checks of tests/structure share. Anchors are as GitHub makes them."""
import re
import textwrap

COLUMNS = 100


def slug(heading):
    """The anchor of a heading: the rule of GitHub, which the site follows too (mkdocs.yml, slugify)."""
    text = re.sub(r"[`*]", "", heading)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def escaped(text):
    """Text of a comment as Markdown: what stands in backticks stays, signs of Markdown elsewhere are literal."""
    parts = re.split(r"(`[^`]*`)", text)
    for k in range(0, len(parts), 2):
        part = re.sub(r"([*\[\]])", r"\\\1", parts[k])
        part = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", part)
        part = re.sub(r"(?<![\w\\])_|_(?!\w)", r"\\_", part)
        parts[k] = re.sub(r"\bdocs/((?:[\w-]+/)*([\w-]+)\.md)", r"[\2.md](../\1)", part)
    return "".join(parts)


def wrapped(text, indent=""):
    """One paragraph in lines of at most 100 columns. No line begins like an item of a list or a heading."""
    lines = textwrap.wrap(text, COLUMNS - 2, break_long_words=False, break_on_hyphens=False, initial_indent=indent,
                          subsequent_indent=indent)
    safe = [re.sub(r"^(\s*)([-+#>]|\d+(?=[.)]\s))", r"\1\\\2", line) if k else line for k, line in enumerate(lines)]
    return "\n".join(re.sub(r"^(\s*)\\(\d+)", r"\1\2\\", line) for line in safe)


def prose(lines):
    """The lines of a comment as Markdown: paragraphs, lists, and indented lines as code."""
    out, paragraph, code = [], [], []

    def flush():
        if paragraph:
            text = " ".join(paragraph)
            item = re.match(r"- (.*)", text)
            out.append(wrapped("- " + escaped(item.group(1))).replace("\n", "\n  ") if item else wrapped(escaped(text)))
            paragraph.clear()
        while code and not code[-1]:
            code.pop()
        if code:
            width = min(len(line) - len(line.lstrip()) for line in code if line)
            text = "\n".join(line[width:] for line in code)
            out.append(f"```{'cpp' if re.search(r'[;{]', text) else 'text'}\n{text}\n```")
            code.clear()

    for line in lines:
        if line.startswith("  ") and not (paragraph and paragraph[0].startswith("- ")):
            if paragraph:
                flush()
            code.append(line)
        elif not line.strip():
            if code:
                code.append("")
            else:
                flush()
        else:
            if code or line.startswith("- "):
                flush()
            paragraph.append(line.strip())
    flush()
    return "\n\n".join(out)


def table(head, rows):
    """A table; what stands in the cells is Markdown already."""
    text = "| " + " | ".join(head) + " |\n|" + "---|" * len(head) + "\n"
    return text + "".join("| " + " | ".join(row) + " |\n" for row in rows)


FENCE = re.compile(r"^(?:> ?)* {0,3}(?P<mark>`{3,}|~{3,})\s*(?P<kind>.*)$")
LINK = re.compile(r"(?P<before>\]\(\s*<?|<(?:img|a)\b[^>]*?\b(?:src|href)=\")(?P<target>[^)\s\">]*)")


def outside_fences(text):
    """(number, line) of the lines that stand in no fenced code; a fence's own lines are left out too."""
    mark = None
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if fence and mark is None:
            mark = fence.group("mark")
        elif mark is not None:
            if fence and fence.group("mark").startswith(mark) and not fence.group("kind"):
                mark = None
        else:
            yield number, line


def without_code(line):
    """A line with its code spans blanked, so that columns stay."""
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda m: " " * len(m.group()), line)


def links(text):
    """(line number, target) of every link and picture, also those of HTML."""
    for number, line in outside_fences(text):
        for match in LINK.finditer(without_code(line)):
            if match.group("target"):
                yield number, match.group("target")


def anchors(text):
    """The anchors of a page: its headings (a second one of the same text has -1 after it), and ids of HTML."""
    found = []
    for _, line in outside_fences(text):
        heading = re.match(r"#{1,6} +(.*?)(?: +#+)?\s*$", line)
        if heading:
            base = slug(heading.group(1))
            found.append(base if base not in found else next(f"{base}-{k}" for k in range(1, 99) if f"{base}-{k}" not in found))
        found += re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line)
    return found


def is_external(target):
    return re.match(r"[a-z][a-z0-9+.-]*:|//", target) is not None
