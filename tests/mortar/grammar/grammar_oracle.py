#!/usr/bin/env python3
"""Masks of structured answers against those of llguidance: for each schema, valid and damaged documents are cut into random
tokens, and before each token the two masks are compared. Ours may be narrower for the reasons that explained() lists.

    python3 tests/mortar/grammar/grammar_oracle.py build/dev/tests/mortar_grammar_oracle
"""
import argparse
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "mortar" / "text"))
from oracle import Failures, ask, need  # noqa: E402

(llguidance, numpy) = need("llguidance", "numpy")

PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
                                           "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3}},
          "required": ["name", "age"], "additionalProperties": False}
NODE = {"$ref": "#/$defs/node", "$defs": {"node": {
    "type": "object", "properties": {"v": {"type": "number"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["v", "children"], "additionalProperties": False}}}

# Schemas, each with values that it accepts.
CASES = [
    (PERSON, [{"name": "Ann \"A\" é中😀", "age": 42}, {"name": "", "age": 0, "tags": ["a", "b\n"]}]),
    (NODE, [{"v": 1, "children": [{"v": -2.5, "children": []}, {"v": 1e3, "children": [{"v": 0, "children": []}]}]}]),
    ({"type": "string", "maxLength": 8}, ["", "abc", "äöü中😀\n\"\\"]),
    ({"type": "string", "minLength": 2, "maxLength": 30}, ["a reasonable text", "xy"]),
    ({"type": "string", "pattern": "^[a-z]{2,4}-[0-9]+$"}, ["ab-1", "abcd-2026"]),
    ({"type": "string", "enum": ["red", "green", "dark green", "blue\n"]}, ["red", "dark green", "blue\n"]),
    ({"enum": [1, "one", None, True]}, [1, "one", None, True]),
    ({"type": "integer", "minimum": -17, "maximum": 1234}, [-17, 0, 5, 999, 1234]),
    ({"type": "number", "minimum": 0, "maximum": 1}, [0, 0.25, 1]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4}, [[1, 2], [10, 20, 30, 40]]),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2}, [[1, "a"]]),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}, {"type": "null"}]}, [5, "abc", None]),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "null"}}, "additionalProperties": {"type": "boolean"}},
     [{"a": 1}, {"ab": None, "abc": True, "x": False}, {}]),
    ({"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"],
                 "additionalProperties": False},
                {"type": "object", "properties": {"kind": {"const": "point"}}, "required": ["kind"], "additionalProperties": False}]},
     [{"kind": "circle", "r": 1.5}, {"kind": "point"}]),
    ({"type": "string", "format": "date"}, ["2026-11-28"]),
    ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"]),
    ({"type": "object", "properties": {f"field_{i}": {"type": "string", "maxLength": 40} for i in range(20)},
      "additionalProperties": False}, [{"field_3": "three", "field_11": "eleven"}]),
]
REJECTED = [{"type": "array", "uniqueItems": True}, {"not": {"type": "null"}}, {"type": "string", "pattern": "(?=a)b"},
            {"oneOf": [{"type": "integer"}, {"type": "number"}]}, {"if": {"type": "null"}, "then": False}]


class Vocabulary:
    def __init__(self, folder, eos):
        self.folder, self.eos = folder, eos
        self.theirs = llguidance.LLTokenizer(str(folder / "tokenizer.json"), eos_token=eos)
        self.size = self.theirs.vocab_size
        added = {t["id"] for t in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]}
        self.text = [b"" if i in added else self.theirs.decode_bytes([i]) for i in range(self.size)]
        self.by_text = {}
        for i, text in enumerate(self.text):
            self.by_text.setdefault(text, i)
        self.longest = 24

    def cut(self, text, r):
        """Random tokens of a text."""
        ids, at = [], 0
        while at < len(text):
            lengths = [n for n in range(1, self.longest) if at + n <= len(text) and text[at:at + n] in self.by_text]
            n = r.choice(lengths) if r.random() < 0.5 else lengths[-1]
            ids.append(self.by_text[text[at:at + n]])
            at += n
        return ids


def bits(data, size):
    return numpy.unpackbits(numpy.frombuffer(data, dtype=numpy.uint8), bitorder="little")[:size].astype(bool)


def spelled(value, r):
    return r.choice([json.dumps(value, ensure_ascii=False), json.dumps(value, ensure_ascii=False, separators=(",", ":")),
                     json.dumps(value, ensure_ascii=False, indent=r.randint(1, 4))]).encode()


def damaged(text, r):
    at = r.randrange(len(text))
    return r.choice([text[:at] + text[at + 1:], text[:at] + r.choice([b'"', b",", b"x", b"7", b"}", b" ", b"\\"]) + text[at:]])


def in_escape(token, before):
    """Both allow different escapes: Mortar all of JSON in strings without a pattern and no others, llguidance those of
    characters that need one."""
    return b"\\" in token or before[-6:].rstrip(b"0123456789abcdefABCDEF").endswith((b"\\u", b"\\"))


def explained(token, before):
    """Why llguidance may allow a token that Mortar does not."""
    if any(c in token for c in (b"\n", b"\r", b"\t", b"  ", b" :", b" ,")) or token.startswith(b" ") or before.endswith((b"\n", b" ")):
        return True  # more white space than one space, or one newline and its indentation; white space elsewhere
    return in_escape(token, before)


def compare(vocabulary, schema, text, ours, ids, matcher, failures):
    before = b""
    for step, data in enumerate(ours["masks"]):
        theirs = bits(matcher.compute_bitmask(), vocabulary.size)
        mine = bits(bytes.fromhex(data), vocabulary.size)
        forced = theirs.sum() == 1  # llguidance then allows only the longest token of the text that must follow
        for i in numpy.nonzero(mine & ~theirs)[0]:
            if not forced and not in_escape(vocabulary.text[i], before) and b"\x7f" not in vocabulary.text[i]:
                failures.add((schema, before, vocabulary.text[i]), "not allowed by llguidance", "allowed")
        for i in numpy.nonzero(theirs & ~mine)[0]:
            if not explained(vocabulary.text[i], before):
                failures.add((schema, before, vocabulary.text[i]), "allowed by llguidance", "not allowed")
        if step == ours["accepted"]:
            return
        if not matcher.consume_token(ids[step]):
            failures.add((schema, text, before), "rejected by llguidance", "accepted")
            return
        before += vocabulary.text[ids[step]]


def run(program, vocabulary, count, r, failures):
    requests, texts = [], []
    for schema, values in CASES:
        documents = [(spelled(v, r), True) for v in values for _ in range(count)]
        documents += [(damaged(text, r), False) for text, _ in documents]
        ids = [vocabulary.cut(text, r) for text, _ in documents]
        requests.append({"kind": "schema", "text": json.dumps(schema), "eos": vocabulary.eos, "runs": ids, "masks": True})
        texts.append(documents)
    steps = 0
    for (schema, _), request, documents, line in zip(CASES, requests, texts, ask(program, [str(vocabulary.folder)], requests)):
        answer = json.loads(line)
        if "error" in answer:
            failures.add(schema, "a grammar", answer["error"])
            continue
        first = llguidance.LLMatcher(vocabulary.theirs, llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema)))
        if first.is_error():
            failures.add(schema, "a grammar of llguidance", first.get_error())
            continue
        for (text, valid), ids, ours in zip(documents, request["runs"], answer["runs"]):
            complete = ours["accepted"] == len(ids) and ours["ends"]
            if "error" in ours or (valid and not complete):
                failures.add((schema, text), "accepted", ours.get("error", ours["accepted"]))
            steps += len(ours["masks"])
            compare(vocabulary, schema, text, ours, ids, first.deep_copy(), failures)
    for schema, line in zip(REJECTED, ask(program, [str(vocabulary.folder)],
                                          [{"kind": "schema", "text": json.dumps(s), "eos": vocabulary.eos} for s in REJECTED])):
        if "error" not in json.loads(line):
            failures.add(schema, "an error", line)
    return steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=2, help="spellings of each value")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    r = random.Random(arguments.seed)
    failures = Failures()
    small = ROOT / "tests" / "mortar" / "data" / "small_tokenizer"
    steps = run(arguments.program, Vocabulary(small, 1002), arguments.count, r, failures)
    package = importlib.util.find_spec("dashscope")
    if package is None:
        print("without the vocabulary of Qwen: pip install --no-deps dashscope==2.0.2")
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            script = ROOT / "scripts" / "mortar" / "qwen_tokenizer.py"
            subprocess.run([sys.executable, script, next(iter(package.submodule_search_locations)), folder], check=True)
            steps += run(arguments.program, Vocabulary(folder, 151645), 1, r, failures)
    failures.end(f"{steps} masks")


if __name__ == "__main__":
    main()
