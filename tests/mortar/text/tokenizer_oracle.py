#!/usr/bin/env python3
"""Mortar's tokenizer against Hugging Face `tokenizers` on random strings of all scripts, on the small vocabulary of the tests
and, where the package dashscope is (scripts/mortar/qwen_tokenizer.py), on that of Qwen.

    python3 tests/mortar/text/tokenizer_oracle.py build/dev/tests/mortar_text_oracle --count 1000000
"""
import argparse
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

from oracle import Failures, ask, need

(tokenizers,) = need("tokenizers")
ROOT = pathlib.Path(__file__).resolve().parents[3]
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def pools():
    def span(first, last):
        return [chr(c) for c in range(first, last + 1)]

    marks = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c))[0] == "M"]
    numbers = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c))[0] == "N"]
    composed = [chr(c) for c in range(0x110000) if unicodedata.decomposition(chr(c))[:1] not in ("", "<")]
    yield span(0x61, 0x7A) + span(0x41, 0x5A)
    yield span(0x20, 0x7E)
    yield list("0123456789")
    yield [" ", "  ", "\n", "\r\n", "\r", "\t", "\x0b", "\x0c", "\x85", "\xa0", "\u2003", "\u3000", "\u200b", "\u180e", "\u2028", "\ufeff"]
    yield ["'s", "'S", "'t", "'re", "'RE", "'vE", "'m", "'ll", "'Ll", "'d", "'\u017f", "'\u212a", "'", "\u2019s", "'sa", "'l", "'r", "'ve2"]
    yield span(0xC0, 0x24F)
    yield span(0x370, 0x3FF) + span(0x400, 0x52F)
    yield span(0x5D0, 0x5EA) + span(0x600, 0x6FF) + span(0x64B, 0x65F)
    yield span(0x900, 0xDFF)
    yield span(0xE00, 0xFFF) + span(0x1000, 0x109F) + span(0x1780, 0x17FF)
    yield span(0x1100, 0x11FF) + span(0xAC00, 0xAC40) + span(0xD780, 0xD7A3)
    yield span(0x3040, 0x30FF) + span(0xFF00, 0xFFEF)
    yield span(0x4E00, 0x4FFF) + span(0xF900, 0xFA6D) + span(0x2F800, 0x2F8FF) + span(0x31350, 0x31360)
    yield span(0x1F300, 0x1F6FF) + ["\u200d", "\ufe0f", "\U0001F3FB", "\U0001F1E9", "\U0001F1EA", "\u20e3"]
    yield marks
    yield numbers
    yield composed
    yield span(0x10000, 0x10FFF) + span(0x11000, 0x11FFF) + span(0x1E000, 0x1E9FF)
    yield ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "<|im_", "<|", "|>", "<thin", "<|endoftext|>", "<<think>>"]
    yield ["the ", "and", " hello", "tion", "function ", "return", " = ", "();", "->", "://", "def f(x):\n    ", "\u4f60\u597d", "\u0645\u0631\u062d\u0628\u0627"]
    yield [chr(0), "\x01", "\x1f", "\x7f", "\ufffd", "\uffff", "\ud7ff", "\ue000", "\U0010ffff"]


def strings(count, seed):
    r = random.Random(seed)
    all_pools = list(pools())
    for _ in range(count):
        parts = []
        for _ in range(r.randint(1, 8)):
            if r.random() < 0.08:
                c = r.randrange(0x110000)
                parts.append(chr(c) if not 0xD800 <= c < 0xE000 else "\ufffd")
            elif r.random() < 0.03:
                parts.append(r.choice(r.choice(all_pools)) * r.randint(2, 80))
            else:
                parts += r.choices(r.choice(all_pools), k=r.randint(1, 6))
        yield "".join(parts)


def exhaustive():
    """Every code point between letters, after a space, doubled."""
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000:
            yield f"a{chr(c)}b {chr(c)}{chr(c)}\u0345\u0334"


def compare_encode(program, folder, texts, failures, words=()):
    other = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    if "as-text" in words:
        data = json.loads((folder / "tokenizer.json").read_text())
        data["added_tokens"] = []
        other = tokenizers.Tokenizer.from_str(json.dumps(data))
    for first in range(0, len(texts), 50000):
        part = texts[first:first + 50000]
        found = ask(program, ["tokenize", str(folder), *words], [{"text": t} for t in part])
        for text, expected, ids in zip(part, other.encode_batch_fast(part, add_special_tokens=False), found):
            if expected.ids != [int(i) for i in ids.split()]:
                failures.add(text, expected.ids, ids)


def compare_decode(program, folder, count, seed, failures):
    other = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    r = random.Random(seed)
    size = other.get_vocab_size()
    requests = [{"ids": [r.randrange(size + 20) for _ in range(r.randint(0, 20))], "skip": r.random() < 0.5} for _ in range(count)]
    for request, answer in zip(requests, ask(program, ["decode", str(folder)], requests)):
        expected = other.decode(request["ids"], skip_special_tokens=request["skip"])
        if json.loads(answer)["text"] != expected:
            failures.add(request, expected, answer)


def llama_folder(data, temporary):
    """The small vocabulary as Llama 3 has it: its expression, no normalization, pieces that are tokens are not divided."""
    data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = LLAMA
    data["normalizer"] = None
    data["model"]["ignore_merges"] = True
    vocabulary, before = data["model"]["vocab"], len(data["model"]["vocab"])
    for token in ["000", "123", "\u0120\u0120", "zq", "\u0120theand", "IT"]:  # that no merges lead to
        vocabulary.setdefault(token, len(vocabulary))
    for token in data["added_tokens"]:  # they follow the vocabulary: `tokenizers` numbers them so, whatever the file says
        token["id"] += len(vocabulary) - before
    folder = temporary / "llama"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(data))
    return folder


def folders(arguments, temporary):
    small = ROOT / "tests" / "mortar" / "data" / "small_tokenizer"
    yield small
    data = json.loads((small / "tokenizer.json").read_text())
    data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = QWEN35
    marks = temporary / "marks"
    marks.mkdir()
    (marks / "tokenizer.json").write_text(json.dumps(data))
    yield marks
    yield llama_folder(data, temporary)
    if arguments.folder:
        yield pathlib.Path(arguments.folder)
        return
    package = importlib.util.find_spec("dashscope")
    if package is None:
        print("without the vocabulary of Qwen: pip install --no-deps dashscope==2.0.2")
        return
    qwen = temporary / "qwen"
    script = ROOT / "scripts" / "mortar" / "qwen_tokenizer.py"
    subprocess.run([sys.executable, script, next(iter(package.submodule_search_locations)), qwen], check=True)
    yield qwen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="of a tokenizer.json, instead of Qwen's vocabulary")
    parser.add_argument("--exhaustive", action="store_true", help="also every code point")
    arguments = parser.parse_args()
    texts = list(strings(arguments.count, arguments.seed))
    if arguments.exhaustive:
        texts += exhaustive()
    failures = Failures()
    with tempfile.TemporaryDirectory() as temporary:
        for folder in folders(arguments, pathlib.Path(temporary)):
            compare_encode(arguments.program, folder, texts, failures)
            compare_encode(arguments.program, folder, texts[:len(texts) // 10], failures, ["as-text"])
            compare_decode(arguments.program, folder, min(20000, arguments.count // 10), arguments.seed, failures)
    failures.end(f"{len(texts)} strings")


if __name__ == "__main__":
    main()
