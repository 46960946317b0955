#!/usr/bin/env python3
"""Makes what the two commands say about themselves from what they print: manual pages, completions of bash, zsh and fish,
and docs/reference/command-line.md.

    command_pages.py TESSERA MORTAR            compares the files with the programs (the test structure.command_pages)
    command_pages.py --write TESSERA MORTAR    writes the files

The programs print their tables of commands and options with --list-options: lines of fields that are separated by tabs,
    program NAME SUMMARY
    command NAME SUMMARY WORDS "program"|""    of the program; WORDS: what its first argument may be
    form    LINE TEXT                          of the command
    option  NAME VALUE HELP [VARIABLE]         of the command
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

from md import wrapped  # noqa: E402

MADE_BY = "scripts/docs/command_pages.py --write"
PAGE = "docs/reference/command-line.md"
FILES = ("FILE", "PATH", "[FILE]")


class Program:
    def __init__(self, text):
        self.name = self.summary = ""
        self.commands = []
        for line in text.splitlines():
            kind, *fields = line.split("\t")
            if kind == "program":
                self.name, self.summary = fields
            elif kind == "command":
                name, summary, words, program = fields
                self.commands.append({"name": name, "summary": summary, "words": words.split(), "program": bool(program),
                                      "forms": [], "options": []})
            elif kind == "form":
                self.commands[-1]["forms"].append(fields)
            elif kind == "option":
                name, value, text_of, *variable = fields
                self.commands[-1]["options"].append({"name": name, "value": value, "help": text_of, "variable": "".join(variable)})
            else:
                raise ValueError(f"a line of {kind}, expected program, command, form or option: {line}")
        if not self.commands:
            raise ValueError("the program lists no commands")


# -- manual pages


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def sentence(text):
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def man_command(command):
    lines = [f".SS {roff(command['name'])}", roff(sentence(command["summary"]))]
    for line, text in command["forms"]:
        lines += [".TP", f".B {roff(line)}"]
        lines += [roff(sentence(text))] if text else ["With the options below."]
    for o in command["options"]:
        lines += [".TP", f"\\fB{roff(o['name'])}\\fR" + (f" \\fI{roff(o['value'])}\\fR" if o["value"] else ""), roff(sentence(o["help"]))]
        if o["variable"]:
            lines += [f"Environment: {roff(o['variable'])}."]
    return lines


def man_page(program):
    name = program.name
    other = "mortar" if name == "tessera" else "tessera"
    lines = [f'.\\" Made by {MADE_BY}', f'.TH {name.upper()} 1 "" "{name}" "User Commands"', ".SH NAME",
             f"{name} \\- {roff(program.summary)}", ".SH SYNOPSIS", f".B {name}", "\\fICOMMAND\\fR [options]", ".br",
             f".B {name}", "\\-\\-help | \\-\\-version", ".SH COMMANDS",
             f"{name} \\fICOMMAND\\fR \\-\\-help prints the options of a command."]
    for command in program.commands:
        lines += man_command(command)
    lines += [".SH EXIT STATUS", ".TP", ".B 0", "Done.", ".TP", ".B 1", "The command failed; the message says why.",
              ".TP", ".B 2", "Wrong usage."]
    if name == "mortar":
        lines += [".TP", ".B 130", "Interrupted."]
    lines += [".SH SEE ALSO", f".BR {other} (1)"]
    return "\n".join(lines) + "\n"


# -- completions


def bash(program):
    name = program.name
    names = " ".join(c["name"] for c in program.commands)
    with_file = [f"{c['name']}:{o['name']}" for c in program.commands for o in c["options"] if o["value"] in FILES]
    with_value = [f"{c['name']}:{o['name']}" for c in program.commands for o in c["options"] if o["value"] and o["value"] not in FILES]
    with_program = [c["name"] for c in program.commands if c["program"]]
    lines = [f"# Completion of {name} in bash. Made by {MADE_BY}", f"_{name}() {{",
             "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} offered='' i",
             "  if [ \"$COMP_CWORD\" = 1 ]; then",
             f"    mapfile -t COMPREPLY < <(compgen -W '{names} --help --version' -- \"$word\")", "    return", "  fi"]
    if with_program:
        lines += [f"  if [[ ' {' '.join(with_program)} ' == *\" $command \"* ]]; then", "    for ((i = 2; i < COMP_CWORD; i++)); do",
                  "      [ \"${COMP_WORDS[i]}\" = -- ] || continue", "      if [ $i = $((COMP_CWORD - 1)) ]; then",
                  "        mapfile -t COMPREPLY < <(compgen -A command -A file -- \"$word\")", "      else",
                  "        mapfile -t COMPREPLY < <(compgen -A file -- \"$word\")", "      fi", "      return", "    done", "  fi"]
    lines += ["  case $command:$before in"]
    if with_file:
        lines += [f"    {' | '.join(with_file)})", "      mapfile -t COMPREPLY < <(compgen -A file -- \"$word\")", "      return", "      ;;"]
    if with_value:
        lines += [f"    {' | '.join(with_value)})", "      COMPREPLY=()", "      return", "      ;;"]
    lines += ["  esac", "  case $command in"]
    for c in program.commands:
        offered = [*c["words"], *(o["name"] for o in c["options"]), *(["--"] if c["program"] else [])]
        lines += [f"    {c['name']}) offered='{' '.join(offered)}' ;;"]
    lines += ["  esac", "  mapfile -t COMPREPLY < <(compgen -W \"$offered\" -- \"$word\")",
              "  [ ${#COMPREPLY[@]} != 0 ] || [[ $word == -* ]] || mapfile -t COMPREPLY < <(compgen -A file -- \"$word\")", "}",
              f"complete -o filenames -F _{name} {name}"]
    return "\n".join(lines) + "\n"


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(program):
    name = program.name

    def plain(text):
        return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")

    lines = [f"#compdef {name}", f"# Completion of {name} in zsh. Made by {MADE_BY}", "", "local -a commands", "commands=("]
    lines += ["  " + quoted(f"{c['name']}:{plain(c['summary'])}") for c in program.commands]
    lines += [")", "if (( CURRENT == 2 )); then", "  _describe command commands", "  return", "fi", "shift words", "(( CURRENT-- ))",
              "case $words[1] in"]
    for c in program.commands:
        rows = []
        for o in c["options"]:
            value = o["value"].strip("[]")
            action = "" if not value else f":{plain(value)}:" + ("_files" if o["value"] in FILES else " ")
            rows.append(quoted(f"{'*' if 'may be repeated' in o['help'] else ''}{o['name']}[{plain(o['help'])}]{action}"))
        rows.append(quoted(f"1:argument:({' '.join(c['words'])})") if c["words"] else quoted("*::arguments:_normal" if c["program"] else "*:argument:_files"))
        lines += [f"  {c['name']})", "    _arguments \\"] + [f"      {row} \\" for row in rows[:-1]] + [f"      {rows[-1]}", "    ;;"]
    return "\n".join(lines + ["esac"]) + "\n"


def fish(program):
    name = program.name
    lines = [f"# Completion of {name} in fish. Made by {MADE_BY}"]
    for c in program.commands:
        lines.append(f"complete -c {name} -n __fish_use_subcommand -f -a {c['name']} -d {quoted(c['summary'])}")
    for c in program.commands:
        seen = f"complete -c {name} -n '__fish_seen_subcommand_from {c['name']}'"
        if c["words"]:
            lines.append(f"{seen} -f -a {quoted(' '.join(c['words']))}")
        for o in c["options"]:
            flag = f"-l {o['name'][2:]}" if o["name"].startswith("--") else f"-s {o['name'][1:]}"
            takes = "" if not o["value"] else " -r -F" if o["value"] in FILES else " -x"
            lines.append(f"{seen} {flag}{takes} -d {quoted(o['help'])}")
    return "\n".join(lines) + "\n"


# -- the page of the reference


def printed(path, *words):
    done = subprocess.run([path, *words], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{path} {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def reference_page(path, program):
    parts = ["# Reference: the tessera command",
             f"<!-- Generated by {MADE_BY}; edit tools/command_rows.cpp. -->",
             wrapped("What the command prints as its help, from the table in `tools/command_rows.cpp`. [tools.md](../tools.md) shows it "
                     "in use. Invalid input prints a message, then the usage, and the exit code is 2."),
             f"```text\n{printed(path, 'help').rstrip()}\n```"]
    for c in program.commands:
        if c["name"] not in ("help", "doctor"):
            parts += [f"## tessera {c['name']}", f"```text\n{printed(path, c['name'], '--help').rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def files_of(tessera, mortar):
    """Path -> text of every generated file."""
    made = {}
    for path in (tessera, mortar):
        program = Program(printed(path, "--list-options"))
        name = program.name
        made[f"packaging/man/{name}.1"] = man_page(program)
        made[f"packaging/completions/{name}.bash"] = bash(program)
        made[f"packaging/completions/_{name}"] = zsh(program)
        made[f"packaging/completions/{name}.fish"] = fish(program)
        if name == "tessera":
            made[PAGE] = reference_page(path, program)
    return made


def main():
    write = sys.argv[1:2] == ["--write"]
    paths = sys.argv[1 + write:]
    if len(paths) != 2:
        sys.exit(__doc__)
    problems = []
    for path, text in files_of(*paths).items():
        whole = os.path.join(ROOT, path)
        if write:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        try:
            with open(whole, encoding="utf-8") as file:
                found = file.read()
        except FileNotFoundError:
            found = ""
        if found != text:
            problems.append(f"{path} is not what the program's options give")
    if problems:
        sys.exit("\n".join([*problems, f"{MADE_BY} {' '.join(paths)} writes them anew."]))


if __name__ == "__main__":
    main()
