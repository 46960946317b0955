"""The pages of the reference that come from tables: environment variables, CMake, the command line, errors, and the index.

Each takes the texts of its sources and gives Markdown; a source that does not look as expected is an error, so that no
row can be lost without notice.
"""
import re

import headers
from headers import Unreadable
from md import escaped, prose, slug, table, wrapped

ENV, CLASSES, ERRORS = "include/tessera/base/env.def", "include/tessera/base/error_classes.def", "include/tessera/base/error.hpp"
OPTIONS, AHEAD, LAYERS = "cmake/TesseraOptions.cmake", "cmake/TesseraKernels.cmake", "cmake/TesseraLayer.cmake"

TARGETS = {
    "tessera::tessera": "the library: everything behind `<tessera/tessera.hpp>` and `<tessera/kernels.hpp>`",
    "tessera::ir": "Tile IR alone: building, verifying, printing, bytecode",
    "tessera::kernels": "the kernel library; part of `tessera::tessera`",
    "tessera::measure": "programs that `tessera bench` runs: `<tessera/measure/measure.hpp>`",
}

INDEX = [  # page, what is in it
    ("language.md", "every function and type of the kernel language, with signatures"),
    ("host.md", "tensors, operations, launches, tuning: every function and type with signatures"),
    ("kernels.md", "the kernel library: every function with its signature"),
    ("command-line.md", "the `tessera` command"),
    ("environment.md", "the environment variables that are read"),
    ("cmake.md", "options of the build, targets, compiling ahead of time"),
    ("errors.md", "the exceptions, and what throws them"),
    ("../compiler/README.md", "the passes of the compiler, in their order"),
]


def c_literals(text):
    """Adjacent string literals of C++ as one text."""
    joined = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text))
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m.group(1), m.group(1)), joined)


def rows_of(text, macro, columns, path):
    """The arguments of each use of a macro whose arguments are names or string literals."""
    literal = r'"(?:\\.|[^"\\])*"'
    rows = re.findall(rf"^{macro}\(\s*(\w+)" + rf",\s*((?:{literal}\s*)+)" * (columns - 1) + r"\)", text, re.M)
    if not rows or len(rows) != len(re.findall(rf"^{macro}\(", text, re.M)):
        raise Unreadable(f"{path}: {len(rows)} rows of {macro} were understood, of {len(re.findall(rf'^{macro}', text, re.M))}")
    return [tuple([row] if columns == 1 else [row[0], *map(c_literals, row[1:])]) for row in rows]


def cell(text):
    return escaped(text).replace("|", "\\|")


def code_cell(text):
    return "`" + text.replace("|", "\\|") + "`"


def environment(read):
    rows = rows_of(read(ENV), "TESSERA_ENV", 3, ENV)
    text = wrapped(f"Made from `{ENV}`, the one list that the library reads its variables by. A value that a variable does not "
                   "take is an `Error` of the kind `ConfigError` ([errors.md](errors.md)), for `TESSERA_DEVICE` a `DeviceError`; "
                   "a misspelt name is reported by `tessera doctor`. Instead of `0` and `1`, `no` and `yes`, `off` and `on`, "
                   "`false` and `true` are taken as well.")
    return "# Reference: environment variables\n\n" + text + "\n\n" + table(
        ["variable", "value", "what it does"],
        [[f"`TESSERA_{name}`", code_cell(value), cell(doc[0].upper() + doc[1:])] for name, value, doc in rows])


def cmake(read):
    source = read(OPTIONS)
    default = {"ON": "`ON`", "OFF": "`OFF`", "${PROJECT_IS_TOP_LEVEL}": "`ON` if Tessera is the top-level project"}
    rows = [[f"`{name}`", default.get(value, f"`{value}`"), cell(doc)]
            for name, doc, value in re.findall(r'^\s*option\((\w+) "([^"]*)" (\S+)\)', source, re.M)]
    for name, value, kind, doc in re.findall(r'^\s*set\((TESSERA_\w+) "([^"]*)" CACHE (\w+)\s+"([^"]*)"', source, re.M):
        shown = re.sub(r"\$ENV\{(\w+)\}", r"environment variable \1", value)
        rows.append([f"`{name}`", (f"`{shown}`" if shown == value else shown) if shown else "empty", cell(doc)])
    rows += [[f"`{name}`", "the newest that is found", cell(doc)]
             for name, doc in re.findall(r'^\s*find_program\((TESSERA_\w+) NAMES [^)]*DOC "([^"]*)"\)', source, re.M)]
    asked = len(re.findall(r"^\s*option\(|^\s*set\(TESSERA_\w+ .* CACHE|^\s*find_program\(.*NAMES", source, re.M))
    if not rows or len(rows) != asked:
        raise Unreadable(f"{OPTIONS}: {len(rows)} options were understood, of {asked}")
    if set(re.findall(r"(tessera::\w+) ALIAS", read(LAYERS))) != set(TARGETS):
        raise Unreadable(f"{LAYERS}: its aliases are not the targets that scripts/docs/table_pages.py describes")
    ahead = read(AHEAD)
    comment = [line[1:].removeprefix(" ") for line in ahead.split("\n")[:ahead.split("\n").index(
        next(line for line in ahead.split("\n") if line.startswith("function(")))]]
    signature, _, what = " ".join(comment).partition(": ")
    if not signature.startswith("tessera_add_kernels("):
        raise Unreadable(f"{AHEAD}: its first comment does not begin with the signature of tessera_add_kernels")
    return "\n\n".join([
        "# Reference: CMake", wrapped(f"Options are made from `{OPTIONS}`."), "## Options",
        table(["option", "default", "what it does"], rows).rstrip(),
        "## Targets",
        table(["target", "what it is"], [[f"`{name}`", what] for name, what in TARGETS.items()]).rstrip(),
        wrapped("They are the same after `find_package(tessera)`, `add_subdirectory` and `FetchContent`."),
        "## tessera_add_kernels", f"```cmake\n{signature}\n```", wrapped(escaped(what[0].upper() + what[1:]))]) + "\n"


def throwers(made, name):
    """Links to the entries of the pages of the API that name an error: [(heading, page, anchor)]."""
    found = []
    for page, text in made.items():
        for entry in re.split(r"^(?=#{3,4} )", text, flags=re.M)[1:]:
            heading, _, body = entry.partition("\n")
            body = re.split(r"^## ", body, flags=re.M)[0]
            if re.search(rf"\b{name}\b", body):
                title = heading.lstrip("# ")
                found.append(f"[`{title}`]({page}#{slug(title)})")
    return found


def errors(read, made):
    """`made`: the pages of the API, whose entries say what they throw."""
    classes = re.findall(r"^TESSERA_ERROR_CLASS\((\w+)\)\s*///<\s*(.*)$", read(CLASSES), re.M)
    if not classes or len(classes) != read(CLASSES).count("\nTESSERA_ERROR_CLASS("):
        raise Unreadable(f"{CLASSES}: a row without a comment that says what the error is for")
    if '"ConfigError"' not in read("src/base/env.cpp"):
        raise Unreadable("src/base/env.cpp: throws no ConfigError, which the page of errors describes")
    source = headers.read("base/error.hpp", read(ERRORS))
    parts = ["# Reference: errors", prose(source.intro),
             wrapped(f"Made from `{ERRORS}`, `{CLASSES}` and the comments of the functions. All errors derive from "
                     "`tessera::Error`, which is a `std::runtime_error`: [host.md](host.md#error)."),
             table(["class", "what it is for"],
                   [*[[f"[`{name}`](#{slug(name)})", cell(doc)] for name, doc in classes],
                    ["[`InternalError`](#internalerror)", "a bug in Tessera"],
                    ["[`ConfigError`](#configerror)", "a kind of `Error` without a class of its own: an environment variable"]]).rstrip()]
    for name, _ in classes:
        found = throwers(made, name)
        parts.append(f"## {name}")
        parts.append(wrapped("Named by the comments of: " + ", ".join(found) + ".") if found else
                     wrapped("No comment of the API names it; the functions that read or write files throw it."
                             if name == "IoError" else "No comment of a function names it."))
    internal = next(d for ds in source.public.values() for d in ds if d.name == "InternalError")
    parts += ["## InternalError", prose([*internal.doc, "Please report it."])]
    parts += ["## ConfigError",
              wrapped("The value of an environment variable is not one that it takes ([environment.md](environment.md)). It is thrown "
                      "as `tessera::Error` where the variable is read first; `what()` has `ConfigError` in front of the message, "
                      "which names the variable, the value and what was expected.")]
    return "\n\n".join(parts) + "\n"


def index():
    rows = [[f"[{page.split('/')[-1] if not page.startswith('..') else 'compiler/'}]({page})", what] for page, what in INDEX]
    text = wrapped("Made by `scripts/docs/reference.py --write` from the comments of the public headers and from the tables and "
                   "texts that the programs use themselves; a test compares. Pages that explain are [language.md](../language.md), "
                   "[host.md](../host.md), [kernels.md](../kernels.md) and [semantics.md](../semantics.md).")
    return "# Reference\n\n" + text + "\n\n" + table(["page", "what is in it"], rows)


def table_pages(read, made):
    """File name -> Markdown; `read` gives the text of a file of the project, `made` the pages of the API."""
    return {"README.md": index(), "environment.md": environment(read), "cmake.md": cmake(read),
            "errors.md": errors(read, made)}
