#!/usr/bin/env python3
"""Mortar's chat templates against jinja2, set up as Hugging Face `transformers` does, on generated conversations and on small
templates made of random expressions and statements.

    python3 tests/mortar/text/template_oracle.py build/dev/tests/mortar_text_oracle --count 20000
"""
import argparse
import collections
import json
import pathlib
import random
import re
import traceback
import warnings

from oracle import Failures, ask, need

need("jinja2")
import jinja2.ext  # noqa: E402
import jinja2.sandbox  # noqa: E402

TEMPLATES = pathlib.Path(__file__).resolve().parents[1] / "data" / "templates"


def environment():
    """That of transformers.utils.chat_template_utils."""
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    return made


TEXTS = ["", "Hello", " Hi there \n", "\n\nline\n", "\u4f60\u597d \U0001F600", "a 'quoted' \"text\" \\ <b>&", "/no_think", "<think>\nhm\n</think>\n\nYes",
         "<think>a</think>b</think>c", "</think>", "<tool_response>\nx\n</tool_response>", "<tool_response>", "{{ x }} {% y %}", "tab\tend ",
         "\u00a0nbsp\u2003", "\x1c\x1f", "1", "None", "\r\nwin\r\n", "long " * 30]


def value(r, depth=0):
    kind = r.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return r.choice(TEXTS)
    if kind == 1:
        return r.choice([0, 1, -7, 2**31, 2**62, 2**64, 10**30])
    if kind == 2:
        return r.choice([0.0, -0.5, 1e16, 1e-5, 0.1, 123456789.125, 1e15, 5e-324, 1.7976931348623157e308, 1e22])
    if kind == 3:
        return r.choice([True, False])
    if kind in (4, 5):
        return r.choice([None, "x", "y"])
    if kind == 6:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    return {r.choice(["a", "b", "type", "name", "description", "items", "\u00e9", "c d"]): value(r, depth + 1) for _ in range(r.randrange(4))}


def tool(r):
    function = {"name": r.choice(["get_weather", "f", "\u5929\u6c14"]), "description": r.choice(TEXTS),
                "parameters": {"type": "object", "properties": {k: {"type": "string", "description": r.choice(TEXTS), "x": value(r)}
                                                               for k in r.sample(["city", "unit", "n"], r.randrange(4))},
                               "required": r.sample(["city", "unit"], r.randrange(3))}}
    if r.random() < 0.2:
        del function["description"]
    if r.random() < 0.2:
        function["strict"] = value(r)
    return {"type": "function", "function": function} if r.random() < 0.8 else function


def message(r):
    role = r.choices(["user", "assistant", "tool", "system", "other"], [8, 8, 4, 1, 0.3])[0]
    out = {"role": role, "content": r.choice(TEXTS)}
    if r.random() < 0.05:
        out["content"] = r.choice([None, [{"type": "text", "text": r.choice(TEXTS)}], [], 3, {"text": "x"}])
    if role == "assistant":
        if r.random() < 0.3:
            out["reasoning_content"] = r.choice(TEXTS + [None])
        if r.random() < 0.4:
            calls = []
            for _ in range(r.randint(0, 3)):
                arguments = r.choice([{"city": "Z\u00fcrich"}, '{"city": "Bern"}', {}, {"a": value(r), "b": value(r)}])
                call = {"name": r.choice(["get_weather", "f"]), "arguments": arguments}
                calls.append({"type": "function", "id": "1", "function": call} if r.random() < 0.8 else call)
            out["tool_calls"] = calls
        if r.random() < 0.1:
            del out["content"]
    return out


def conversation(r):
    messages = [message(r) for _ in range(r.randint(1, 7))]
    if r.random() < 0.4:
        messages.insert(0, {"role": "system", "content": r.choice(TEXTS)})
    request = {"messages": json.dumps(messages, ensure_ascii=r.random() < 0.5), "generation_prompt": r.random() < 0.8}
    if r.random() < 0.5:
        request["tools"] = json.dumps([tool(r) for _ in range(r.randrange(4))])
    if r.random() < 0.6:
        request["thinking"] = r.random() < 0.5
    return request


NAMES = ["m", "s", "n", "x", "l", "d", "missing", "t", "z1", "z2"]
FILTERS = ["length", "trim", "upper", "lower", "tojson", "string", "first", "last", "list", "join(', ')", "join", "replace('a', 'bb')", "int", "float",
           "default('z')", "default('z', true)", "items|list", "reverse|list", "safe", "capitalize", "title", "sort", "unique|list", "tojson(indent=2)", "abs",
           "map('string')|list", "select|list", "reject|list", "map(attribute='a')|list", "selectattr('a')|list", "indent(2)", "count", "dictsort", "max", "min", "escape",
           "map('upper')|list", "select('string')|list", "rejectattr('a', 'defined')|list", "trim('a ')", "tojson(separators=(',', ':'))", "list|length"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "sequence", "iterable",
         "odd", "even", "eq 1", "in [1, 'a']", "divisibleby 2", "lower", "upper", "callable", "ne 'a'", "gt 1"]
METHODS = ["strip()", "lstrip('\\n')", "rstrip()", "split()", "split(' ')", "split('a', 1)", "rsplit(None, 1)", "rsplit('l', 1)", "startswith('a')", "endswith(('a', 'o'))",
           "upper()", "replace('l', 'L')", "replace('', '-')", "find('l')", "rfind('l')", "count('l')", "splitlines()", "items()", "keys()", "values()", "get('a')",
           "get('zz', 5)", "index('a')", "count('a')", "removeprefix('a')", "join(['x', 'y'])", "isdigit()", "title_()"]


def expression(r, depth=0):
    kind = r.randrange(16)
    e = lambda: expression(r, depth + 1)  # noqa: E731
    if depth > 3 or kind < 4:
        return r.choice(NAMES + ["1", "0", "-3", "2.5", "'a'", "\"l\\n\"", "true", "none", "[1, 'a', none]", "{'a': 1, 'b': 'x'}", "()", "(1,)", "'a' 'b'", "1_000"])
    if kind == 4:
        return f"{e()} {r.choice(['+', '-', '*', '/', '//', '%', '~', '**'])} {e()}"
    if kind == 5:
        return f"({e()} {r.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {e()})"
    if kind == 6:
        return f"({e()} {r.choice(['and', 'or'])} {e()})"
    if kind == 7:
        return f"not {e()}"
    if kind == 8:
        return f"({e()} if {e()} else {e()})" if r.random() < 0.7 else f"({e()} if {e()})"
    if kind in (9, 10):
        return f"{e()}|{r.choice(FILTERS)}"
    if kind == 11:
        return f"({e()} is {r.choice(['', 'not '])}{r.choice(TESTS)})"
    if kind == 12:
        return f"{r.choice(NAMES)}.{r.choice(METHODS)}"
    if kind == 13:
        return f"{e()}[{r.choice(['0', '-1', '1:', ':2', '::-1', '1:3', '::2', '-2:', repr('a'), '5', ':-1', '3:0:-1'])}]"
    if kind == 14:
        return f"{r.choice(NAMES)}.{r.choice(['a', 'b', 'items', 'role', 'x'])}"
    if kind == 15 and r.random() < 0.15:
        return r.choice([f"{e()}|no_such_filter", f"({e()} is no_such_test)", f"raise_exception('no ' ~ {e()})", "missing.a.b", "l[99].a", "no_such_function(1)"])
    return r.choice(["range(3)|list", "range(5, 1, -2)|join", "range(1, 4)|list", "dict(a=1)", "f(1)", "f('a', b=m)", "f()", "ns.v", "(-2)|abs", "-2|abs", "2 < 3 < 4", "l|map('tojson')|join"])


def space(r):
    return r.choice(["", "", "", " ", "\n", "  ", "\n  ", "\t", "text", " text\n"])


def block(r, depth=0):
    out = ""
    for _ in range(r.randint(1, 4)):
        o, c = r.choice(["{%", "{%-", "{%+"]), r.choice(["%}", "-%}", "+%}"])
        vo, vc = r.choice(["{{", "{{-"]), r.choice(["}}", "-}}"])
        kind = r.randrange(11 if depth < 3 else 5)
        out += space(r)
        if kind < 3:
            out += f"{vo} {expression(r)} {vc}"
        elif kind == 3:
            out += r.choice(["{# c #}", "{#- c -#}", "{#+ c\n#}\n", "{% raw %} {{ x }} {%- endraw %}", "{%- raw -%}\n {% x %}\n{% endraw -%} "])
        elif kind == 4:
            out += f"{o} set {r.choice(['z1', 'z2', 'ns.v', 'p, q'])} = {r.choice([expression(r), '(1, 2)'])} {c}"
        elif kind == 5:
            out += f"{o} if {expression(r)} {c}{block(r, depth + 1)}{o} elif {expression(r)} {c}{block(r, depth + 1)}{o} else {c}{block(r, depth + 1)}{o} endif {c}"
        elif kind == 6:
            where = r.choice(["", "", f" if {expression(r)}"])
            body = r.choice(["{{ loop.index }}{{ loop.last }}{{ loop.previtem }}", "{{ loop.revindex0 }}{{ loop.length }}{{ loop.first }}", "{{ i }}",
                             "{% if loop.index0 == 1 %}{% continue %}{% endif %}", "{% if i %}{% break %}{% endif %}", "{{ loop.depth }}{{ loop.nextitem is defined }}"])
            out += f"{o} for i in {r.choice(['l', 's', 'd', 'm', 'range(3)', expression(r)])}{where} {c}{body}{block(r, depth + 1)}{o} else {c}none{o} endfor {c}"
        elif kind == 7:
            out += f"{o} for k, v in d|items {c}{{{{ k }}}}={{{{ v }}}};{block(r, depth + 1)}{o} endfor {c}"
        elif kind == 8:
            out += f"{o} set made {c}{block(r, depth + 1)}{o} endset {c}{vo} made {vc}"
        elif kind == 9:
            out += f"{o} with n = {expression(r)}, y = n {c}{block(r, depth + 1)}{vo} y {vc}{o} endwith {c}"
        else:
            chosen = r.choice(["trim", "upper", "replace('1', '2')", "indent"])
            out += f"{o} filter {chosen} {c}{block(r, depth + 1)}{o} endfilter {c}"
    return out + space(r)


def random_template(r):
    variables = {"m": [{"role": "user", "a": 1}, {"role": "x", "a": None}], "s": r.choice(["hello all", "", "a\nb\r\nc", "AbC", "12"]),
                 "n": r.choice([0, 3, -2, 2.5]), "x": value(r), "l": r.choice([[1, 2, 3], ["b", "a"], [], [[1], [2]], ["a", 1, None]]), "d": {"a": 1, "b": [1], "c": "z"}, "t": True}
    head = "{%- macro f(a, b='q') %}[{{ a }}|{{ b }}{{ s }}]{% endmacro %}{%- set ns = namespace(v=1) %}"
    return {"template": head + block(r) + r.choice(["", "\n", "\n\n"]), "messages": "[]", "variables": json.dumps(variables, ensure_ascii=False)}


def damaged(r, source):
    """The same with one piece taken out, doubled, or put elsewhere: most are no templates."""
    pieces = re.findall(r"\w+|\s+|[{}%#|()\[\]]|.", source)
    at = r.randrange(len(pieces))
    kind = r.randrange(3)
    if kind == 0:
        del pieces[at]
    elif kind == 1:
        pieces.insert(at, pieces[at])
    else:
        pieces.insert(r.randrange(len(pieces)), pieces.pop(at))
    return "".join(pieces)


class Reason(collections.namedtuple("Reason", "kind, line, text")):
    """Why a template or its messages were rejected: what kind of error, on which line, and with which text."""


def reason_of(error):
    """Of an error of jinja2."""
    line = getattr(error, "lineno", None)
    if line is None:
        line = next((f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == "<template>"), None)
    unknown = re.match(r"No (filter|test) named '(.*)'", str(error), re.S)  # of the parser's error, or of map() and its like
    if unknown and isinstance(error, jinja2.exceptions.TemplateError):
        return Reason(f"unknown {unknown[1]}", line, unknown[2])
    if isinstance(error, jinja2.exceptions.TemplateSyntaxError):
        return Reason("syntax", line, "")
    if isinstance(error, jinja2.exceptions.UndefinedError):
        return Reason("undefined", line, str(error).removeprefix("'").split("'")[0] if str(error).endswith("is undefined") else "")
    if type(error) is jinja2.exceptions.TemplateError:
        return Reason("raised", line, str(error))
    if isinstance(error, (ZeroDivisionError, ValueError)):
        return Reason("value", line, "")
    return Reason("type", line, "")


def reason_here(text):
    """Of an error of this engine, by its message."""
    line, what = re.match(r"\w+: template, line (\d+): (.*)", text, re.S).groups()
    line = int(line)
    unknown = re.match(r"expected a (filter|test) that this version knows, found '(.*)'", what.removeprefix("the chat template failed: "), re.S)
    if unknown:
        return Reason(f"unknown {unknown[1]}", line, unknown[2])
    if what.startswith("the chat template rejects the messages: "):
        return Reason("raised", line, what.split(": ", 1)[1])
    if not what.startswith("the chat template failed: "):
        return Reason("syntax", line, "")
    what = what.split(": ", 1)[1]
    if what.endswith("is undefined"):
        return Reason("undefined", line, what.removeprefix("'").split("'")[0])
    if re.search(r"has no (attribute|element) |found an undefined one|there is no (else|first|last)|the sequence is empty", what):
        return Reason("undefined", line, "")
    if re.search(r"other than 0|values to assign|that is not empty|a value of the list|a part of the string", what):
        return Reason("value", line, "")
    return Reason("type", line, "")


def render(made, cache, request):
    source = request["template"]
    try:
        if source not in cache:
            cache[source] = made.from_string(source)
        tools = json.loads(request["tools"]) if request.get("tools") else None
        variables = json.loads(request.get("variables", "{}"))
        if "thinking" in request:
            variables["enable_thinking"] = request["thinking"]
        return {"text": cache[source].render(messages=json.loads(request["messages"]), tools=tools, documents=None,
                                             add_generation_prompt=request["generation_prompt"], **variables)}
    except Exception as error:  # noqa: BLE001: whatever it is, the other side must fail too
        return {"error": f"{type(error).__name__}: {error}", "reason": reason_of(error)}


# What this engine rejects and jinja2 does not, on purpose (docs/mortar/text.md).
ONLY_HERE = ("is not supported", "not supported", "this version knows", "expected ASCII text", "a value that has a text", "64 bits", "that can be called", "leaves the",
           "values of JSON", "expected at most", "a string to look for", "operands of % that fit", "numbers, found", "JSON, found a",
           "to go over",  # there a generator that is never read
           "to take a slice of",  # of a constant: undefined there
             "expected an index, found ']'")  # x[]: an item of an empty tuple there


def write(path):
    """The cases of chat_template_test.cpp."""
    r, made, cases = random.Random(3), environment(), []
    for template in sorted(TEMPLATES.glob("*.jinja")):
        for _ in range(25):
            request = conversation(r)
            expected = render(made, {}, {"template": template.read_text(), **request})
            result = {"text": expected["text"]} if "text" in expected else {"raised": expected["reason"].text} if expected["reason"].kind == "raised" else {}
            cases.append({"template": template.name, **request, **result})
    path.write_text(json.dumps(cases, indent=0) + "\n")


def other_reason(template, expected, found):
    """How the reasons of two errors differ; empty if they do not, or for a reason that docs/mortar/text.md has."""
    a, b = expected["reason"], reason_here(found["error"])
    if any(w in found["error"] for w in ONLY_HERE) and not b.kind.startswith("unknown"):
        return ""
    if b.kind.startswith("unknown") and (a.kind, a.text) != (b.kind, b.text):
        # Here the parser looks for filters and tests; jinja2 does after it, and for those of a branch when it is taken:
        # of two errors, or two unknown names, it may report the other one.
        return "" if b.text in template else "no such name"
    if a.kind != b.kind:
        of_undefined = b.kind == "undefined" and "Undefined" in expected["error"]  # here it is named
        return "" if of_undefined else "kind"
    if a.text != b.text:
        return "text"
    # The end of a template has no line of its own; lines of what jinja2 finds later are those of some statement nearby.
    of_end = "the end of the template" in found["error"]
    return "line" if a.kind == "syntax" and not of_end and a.line != b.line else ""


# Printed as lists here.
OBJECTS = ("<generator object",)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("--write", metavar="FILE", type=pathlib.Path, help="writes the cases of chat_template_test.cpp instead")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.write:
        return write(arguments.write)
    warnings.simplefilter("ignore", SyntaxWarning)  # of the Python that jinja2 compiles templates to
    r = random.Random(arguments.seed)
    made, cache = environment(), {}
    published = [path.read_text() for path in sorted(TEMPLATES.glob("*.jinja"))]
    requests = [{"template": r.choice(published), **conversation(r)} for _ in range(arguments.count)]
    requests += [{"generation_prompt": False, **random_template(r)} for _ in range(arguments.count)]
    for _ in range(arguments.count // 2):
        whole = random_template(r)
        requests.append({"generation_prompt": False, **whole, "template": damaged(r, whole["template"])})
    failures, only_here, reasons = Failures(), 0, collections.Counter()
    for request, answer in zip(requests, ask(arguments.program, ["template"], requests)):
        expected, found = render(made, cache if request["template"] in published else {}, request), json.loads(answer)
        if "text" in expected and "error" in found and request["template"] not in published and any(w in found["error"] for w in ONLY_HERE):
            only_here += 1
        elif "error" in expected and "error" in found:
            reasons[expected["reason"].kind] += 1
            different = other_reason(request["template"], expected, found)
            if different:
                failures.add((different, request), expected, found)
        elif expected != found and not any(w in expected.get("text", "") for w in OBJECTS):
            failures.add(request, expected, found)
    both_fail = sum(reasons.values())
    print(f"{both_fail} rejected by both ({', '.join(f'{n} {kind}' for kind, n in reasons.most_common())}), {only_here} rejected here only")
    missing = {"syntax", "unknown filter", "unknown test", "undefined", "type", "value", "raised"} - set(reasons)
    if missing:
        failures.add("the kinds of reasons that came up", "all", f"none of {sorted(missing)}")
    if only_here > len(requests) // 20 or both_fail > len(requests) * 2 // 3:
        failures.add("the templates that are rendered by both", "a third at least", len(requests) - only_here - both_fail)
    failures.end(f"{len(requests)} templates")


if __name__ == "__main__":
    main()
