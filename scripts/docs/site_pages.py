"""What the site makes of the pages, without mkdocs: where files outside of docs/ go, links that lead there, lists and fences as
the generator reads them. site_hooks.py hands it to mkdocs; tests/structure/docs_tools.py tests it.

The pages are written to be read in the repository too, so they link to sources, examples and bench/RESULTS.md by
relative paths. On the site every such file becomes a page under repository/: Markdown as it is, other files as code,
folders as lists. What is linked and not there is left as it is, and the strict build fails.
"""
import os
import posixpath
import re

import md

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUTSIDE = "repository"  # the folder of the site for what lies outside of docs
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".def": "cpp", ".inl": "cpp", ".py": "python", ".sh": "bash", ".cmake": "cmake",
             ".json": "json", ".toml": "toml", ".yml": "yaml"}
SHOWN_AS_IS = (".md", ".svg", ".png", ".jpg", ".gif")


def page_of(path):
    """The site's file for a file or folder of the repository."""
    if path == "docs":
        return "index.md" if os.path.exists(os.path.join(ROOT, "docs", "index.md")) else "README.md"
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        if os.path.isdir(os.path.join(ROOT, path)):
            return inside + "/README.md"
        return page_of("docs") if inside == "README.md" else inside
    if os.path.isdir(os.path.join(ROOT, path)):
        return f"{OUTSIDE}/{path}/index.md"
    if path.endswith("/README.md") or path == "README.md":
        return f"{OUTSIDE}/{path.removesuffix('.md')}-file.md"  # README.md would be a folder's index
    return f"{OUTSIDE}/{path}" if path.endswith(SHOWN_AS_IS) else f"{OUTSIDE}/{path}.md"


def repository_path(target, page):
    """The path in the repository that a relative link of `page` (a path of the repository) leads to; None if there is none."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    return path if not path.startswith("..") and os.path.exists(os.path.join(ROOT, path)) else None


def source_of(path):
    """What links of the page for a file or folder are relative to: a folder's are relative to itself."""
    return path + "/." if os.path.isdir(os.path.join(ROOT, path)) else path


def text_of(path):
    """A file or folder outside of docs as Markdown."""
    full, name = os.path.join(ROOT, path), os.path.basename(path)
    front = "---\nsearch:\n  exclude: true\n---\n"
    if os.path.isdir(full):
        names = sorted(n for n in os.listdir(full) if not n.startswith((".", "__")) and n != "build")
        return front + f"# {path}\n\n" + "".join(
            f"- {n}/\n" if os.path.isdir(os.path.join(full, n)) else f"- [{n}]({n})\n" for n in names)
    with open(full, encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".md"):
        return text
    return front + f"# {name}\n\n`{path}`\n\n~~~~~~{LANGUAGES.get(os.path.splitext(name)[1], 'text')}\n{text}\n~~~~~~\n"


def linked(path, text):
    """The files and folders of the repository that a page links to."""
    for _, target in md.links(text):
        target = target.split("#")[0]
        if target and not md.is_external(target):
            found = repository_path(target, path)
            if found:
                yield found


def outside(pages):
    """What lies outside of docs and is linked, directly or from a page that is; `pages`: path -> text of those in docs."""
    found, waiting = {}, [p for path, text in pages.items() for p in linked(path, text)]
    while waiting:
        path = waiting.pop()
        if path in found or path == "docs" or path.startswith("docs/"):
            continue
        found[path] = "" if path.endswith(SHOWN_AS_IS[1:]) else text_of(path)
        if path.endswith(".md"):
            waiting += linked(path, found[path])
        elif os.path.isdir(os.path.join(ROOT, path)):
            waiting += [f"{path}/{n}" for n in os.listdir(os.path.join(ROOT, path))
                        if os.path.isfile(os.path.join(ROOT, path, n)) and not n.startswith(".")]
    return found


def relinked(text, page, source):
    """The Markdown with its links turned to the site's files; `page` is the site's file, `source` the repository's."""
    lines, outside_code = text.split("\n"), {number for number, _ in md.outside_fences(text)}

    def turn(match):
        target, _, anchor = match.group("target").partition("#")
        path = repository_path(target, source) if target and not md.is_external(target) else None
        if path is None:
            return match.group()
        there = posixpath.relpath(page_of(path), posixpath.dirname(page) or ".")
        return match.group("before") + there + ("#" + anchor if anchor else "")

    for number in outside_code:
        line = lines[number - 1]
        bare = md.without_code(line)
        out, end = "", 0
        for match in md.LINK.finditer(line):
            if bare[match.start():match.end()] == match.group():
                out += line[end:match.start()] + turn(match)
                end = match.end()
        lines[number - 1] = out + line[end:]
    return "\n".join(lines)


def for_python_markdown(text):
    """Lists as CommonMark reads them: they may follow a paragraph at once, and what belongs to an item is indented by two.
    Of the words after the mark of a fence only the first is the language."""
    out, before, in_list = [], "", False
    outside_code = {number for number, _ in md.outside_fences(text)}
    for number, line in enumerate(text.split("\n"), 1):
        item = re.match(r"([-*+]|\d+[.)]) ", line) if number in outside_code else None
        if item and before.strip() and not in_list and not before.startswith(("|", "#")):
            out.append("")
        if item:
            in_list = True
        elif line and not line.startswith(" ") and not before.strip():
            in_list = False
        line = re.sub(r"^((?:> ?)* *(?:`{3,}|~{3,})\w+) .*$", r"\1", line) if number not in outside_code else line
        inner = re.match(r"( {2,3})(?=\S)", line) if in_list and not item else None
        out.append("  " + line if inner else line)
        before = line
    return "\n".join(out)


def has_fence(html):
    """True if a fence of the Markdown stands in the page as text."""
    return re.search(r"```|~~~", re.sub(r"<(pre|code)\b.*?</\1>", "", html, flags=re.S)) is not None
