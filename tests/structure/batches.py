"""Looks at several source files as one program: what they include is parsed and searched once for all of them.

Files with the same compile command and folder form a batch, a source that includes them one after the other: a macro of a file ends with it,
THIS_FILE is another name in each (cmake/TesseraJoin.cmake), and a program stands in a namespace of its own. Where files cannot stand together
all the same (two of them define the same name), those that the errors name are taken out and looked at again, at last each alone. Only the
error of a file alone is an error.
"""
import collections
import json
import os
import re
import shlex
import tempfile
from concurrent.futures import ThreadPoolExecutor

SIZE = 24
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.M)
PROGRAM = re.compile(r"^int main\(", re.M)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def stands_alone(text):
    """True if a macro of the file is for what it includes: another file may have included that before."""
    macro, includes = MACRO.search(text), [m.start() for m in INCLUDE.finditer(text)]
    return bool(macro and includes and macro.start() < includes[-1])


def joined(batch, options):
    """The source that includes the files of a batch."""
    lines = []
    for number, path in enumerate(batch):
        text = text_of(path)
        if "-DTHIS_FILE=" in options:
            lines += ["#undef THIS_FILE", f"#define THIS_FILE file_{number}"]
        include = f'#include "{path}"'
        if PROGRAM.search(text):
            for bracket, name in INCLUDE.findall(text):  # first, because they do not belong into the namespace
                own = os.path.join(os.path.dirname(path), name)
                lines.append(f"#include <{name}>" if bracket == "<" else f'#include "{own if os.path.isfile(own) else name}"')
            include = f"namespace program_{number} {{\n{include}\n}}"
        lines += [include, *(f"#undef {name}" for name in sorted(set(MACRO.findall(text))))]
    return "\n".join(lines) + "\n"


def entries(database):
    """path -> entry of the compile database in the folder `database`; the last one where a file is compiled more than once."""
    with open(os.path.join(database, "compile_commands.json"), encoding="utf-8") as f:
        return {os.path.realpath(os.path.join(e["directory"], e["file"])): e for e in json.load(f)}


# Options left out with their arguments: they concern files that the build makes, the object and (the only use of -Xclang) a precompiled header.
MADE = ("-o", "-Xclang")


def flags(entry):
    """The options of the entry's command: without the compiler, the source, the output and a precompiled header."""
    words = entry.get("arguments") or shlex.split(entry["command"])
    left_out = {i + 1 for i, w in enumerate(words) if w in MADE}
    return tuple(w for i, w in enumerate(words) if i and i not in left_out and w not in (*MADE, "-c", "--", entry["file"]))


def formed(files, commands, size):
    """The batches [(entry, [file])], the ones with most text first, so that processes beside each other end at about the same time."""
    groups = collections.defaultdict(list)
    for path in sorted(files):
        alone = path if stands_alone(text_of(path)) else ""
        groups[commands[path]["directory"], flags(commands[path]), os.path.dirname(path), alone].append(path)
    batches = [(commands[group[0]], group[i:i + size]) for group in groups.values() for i in range(0, len(group), size)]
    return sorted(batches, key=lambda b: -sum(map(os.path.getsize, b[1])))


def parts(batch, errors):
    """A batch that could not be parsed, as smaller ones: the files that the errors name apart from the others."""
    named = [f for f in batch if re.search("^" + re.escape(f) + r":\d+:\d+: (?:fatal )?error:", errors, re.M)]
    if 0 < len(named) < len(batch):
        return [f for f in batch if f not in named], named
    return batch[:len(batch) // 2], batch[len(batch) // 2:]


def run(files, database, jobs, look, size=SIZE):
    """The results of look(source, flags, directory) for all files: it returns (result, "") or, if it could not parse the source, (output of the
    compiler, its errors)."""
    commands = entries(database)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        def looked_at(entry, batch):
            source = batch[0]
            if len(batch) > 1:
                handle, source = tempfile.mkstemp(".cpp", dir=folder)
                with os.fdopen(handle, "w", encoding="utf-8") as f:
                    f.write(joined(batch, flags(entry)))
            result, errors = look(source, flags(entry), entry["directory"])
            if errors and len(batch) > 1:
                return [r for part in parts(batch, errors) for r in looked_at(entry, part)]
            return [(result, errors)]
        return [r for results in pool.map(lambda b: looked_at(*b), formed(files, commands, size)) for r in results]
