#!/usr/bin/env python3
"""Structured answers: the time to compile a schema and the time of a mask, for Mortar, llguidance and xgrammar, with the
vocabulary of Qwen3. Each library follows the same tokens of the same document, once with nothing known of the schema and once
more; times are of the processor, of one thread.

    pip install llguidance==1.9.1 xgrammar==0.2.8 tokenizers numpy     (xgrammar is left out where it cannot be imported)
    python3 bench/mortar/structured.py build/release/tests/mortar_grammar_oracle FOLDER

FOLDER has Qwen's tokenizer.json (scripts/mortar/qwen_tokenizer.py makes one).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time
import types

EOS = 151645


def schemas():
    """Name, schema, document."""
    text = {"type": "string"}
    weather = {"type": "object", "properties": {"location": text, "unit": {"enum": ["celsius", "fahrenheit"]},
                                                "days": {"type": "integer", "minimum": 1, "maximum": 14}},
               "required": ["location", "unit", "days"], "additionalProperties": False}
    yield "small object", weather, {"location": "Paris, France", "unit": "celsius", "days": 3}

    def items(name):
        fields = {"name": name, "price": {"type": "number"}, "tags": {"type": "array", "items": text, "maxItems": 8},
                  "ok": {"type": "boolean"}, "note": {"anyOf": [text, {"type": "null"}]}}
        item = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        return {"type": "object", "properties": {"items": {"type": "array", "items": item}}, "required": ["items"],
                "additionalProperties": False}

    listed = {"items": [{"name": f"Article number {i} with a longer name", "price": 12.5 + i, "tags": ["new", "of the season"],
                         "ok": i % 2 == 0, "note": None if i % 3 else "A note about this article."} for i in range(12)]}
    yield "list of objects, maxLength 80", items({"type": "string", "minLength": 1, "maxLength": 80}), listed
    yield "list of objects", items(text), listed
    node = {"type": "object", "properties": {"v": text, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["v", "children"], "additionalProperties": False}
    tree = {"v": "leaf of the tree", "children": []}
    for depth in range(6):
        tree = {"v": f"node at height {depth}", "children": [tree, {"v": "short", "children": []}]}
    yield "recursive tree", {"$ref": "#/$defs/node", "$defs": {"node": node}}, tree
    yield "any object", {"type": "object"}, {"summary": "A free form object", "list": [1, 2, {"a": None}], "text": "some longer text"}

    def many(bound):
        fields, document = {}, {}
        for i in range(0, 120, 3):
            fields[f"field_{i}"] = {"type": "string", "enum": [f"value_{i}_{j}" for j in range(50)]}
            fields[f"field_{i + 1}"] = {"type": "integer", "minimum": -1000, "maximum": 1000 + i}
            fields[f"field_{i + 2}"] = {**text, **bound}
            document.update({f"field_{i}": f"value_{i}_7", f"field_{i + 1}": i, f"field_{i + 2}": f"text of field {i} with some words"})
        return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}, document

    yield "120 properties, maxLength 200", *many({"maxLength": 200})
    yield "120 properties", *many({})
    yield ("one string, maxLength 200", {"type": "object", "properties": {"a": {"type": "string", "maxLength": 200}},
                                         "required": ["a"], "additionalProperties": False},
           {"a": "A text of some length, which goes on and on until it is long enough to say something about it. " * 2})


def cpu():
    return time.thread_time() * 1e6


def follow(ids, mask, accept):
    times = []
    for i in range(len(ids) + 1):
        begin = cpu()
        mask()
        times.append(cpu() - begin)
        if i < len(ids) and not accept(ids[i]):
            return None
    return times


def mortar(program, folder, cases):
    requests = "".join(json.dumps({"kind": "schema", "text": json.dumps(s), "eos": EOS, "runs": [ids, ids]}) + "\n" for _, s, ids in cases)
    run = subprocess.run([program, folder], input=requests, stdout=subprocess.PIPE, text=True, check=True)
    for line in run.stdout.splitlines():
        answer = json.loads(line)
        yield answer["compile_us"], [r["mask_us"] for r in answer["runs"]]


def llguidance_rows(folder, cases):
    import llguidance
    import numpy
    tokenizer = llguidance.LLTokenizer(str(pathlib.Path(folder) / "tokenizer.json"), eos_token=EOS)
    buffer = numpy.zeros((tokenizer.vocab_size + 31) // 32, dtype=numpy.int32)
    for _, schema, ids in cases:
        begin = cpu()
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides={"whitespace_flexible": True})
        first = llguidance.LLMatcher(tokenizer, grammar)
        compiled = cpu() - begin
        runs = []
        for _ in range(2):
            matcher = first.deep_copy()
            runs.append(follow(ids, lambda: matcher.unsafe_compute_mask_ptr(buffer.ctypes.data, buffer.nbytes), matcher.consume_token))
        yield compiled, runs


def xgrammar_rows(folder, cases):
    import numpy
    import tvm_ffi  # noqa: F401  (before the substitute below, which it must not see)
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:  # xgrammar needs them for types of tensors and tokenizers alone; masks here are NumPy arrays
        torch, transformers = types.ModuleType("torch"), types.ModuleType("transformers")
        torch.int32, torch.Tensor, torch.tensor = numpy.int32, numpy.ndarray, lambda value, dtype: value
        for name in ("PreTrainedTokenizerBase", "PreTrainedTokenizerFast", "LogitsProcessor"):
            setattr(transformers, name, type(name, (), {}))
        torch.LongTensor = torch.FloatTensor = numpy.ndarray
        sys.modules.update(torch=torch, transformers=transformers)
    import tokenizers
    import xgrammar
    tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    size = tokenizer.get_vocab_size()
    vocabulary = [tokenizer.id_to_token(i) for i in range(size)]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_type=xgrammar.VocabType.BYTE_LEVEL, vocab_size=size, stop_token_ids=[EOS])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    buffer = numpy.zeros((1, (size + 31) // 32), dtype=numpy.int32)
    for name, schema, ids in cases:
        begin = time.process_time()
        compiled = compiler.compile_json_schema(json.dumps(schema), any_whitespace=True)
        took = (time.process_time() - begin) * 1e6
        runs = []
        for _ in range(2):
            matcher = xgrammar.GrammarMatcher(compiled)
            runs.append(follow(ids, lambda: matcher.fill_next_token_bitmask(buffer), matcher.accept_token))
        yield took, runs


def cell(compiled, runs):
    if runs[0] is None:
        return f"rejects the document; {compiled / 1000:.1f}"
    columns = []
    for times in runs:
        s = sorted(times)
        columns.append(f"{sum(s) / len(s):.1f} / {s[len(s) // 2]:.1f} / {s[int(len(s) * 0.99)]:.0f} / {s[-1]:.0f}")
    return f"{compiled / 1000:.1f} | {columns[0]} | {sum(runs[1]) / len(runs[1]):.1f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--peers", default="llguidance,xgrammar")
    arguments = parser.parse_args()
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(arguments.folder) / "tokenizer.json"))
    cases = [(name, schema, tokenizer.encode(json.dumps(document)).ids) for name, schema, document in schemas()]
    rows = {"Mortar": mortar(arguments.program, arguments.folder, cases)}
    for peer in filter(None, arguments.peers.split(",")):
        rows[peer] = {"llguidance": llguidance_rows, "xgrammar": xgrammar_rows}[peer](arguments.folder, cases)
    print("| schema, tokens | library | compile, ms | first answer: mean / median / p99 / largest mask, us | second answer: mean, us |")
    print("|---|---|---|---|---|")
    tables = {}
    for library, results in rows.items():
        try:
            tables[library] = [cell(*result) for result in results]
        except Exception as error:  # a peer that is not installed
            print(f"without {library}: {error}", file=sys.stderr)
    for i, (name, _, ids) in enumerate(cases):
        for library, cells in tables.items():
            print(f"| {name}, {len(ids)} | {library} | {cells[i]} |")


if __name__ == "__main__":
    main()
