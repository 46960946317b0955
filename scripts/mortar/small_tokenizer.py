#!/usr/bin/env python3
"""Writes the small tokenizer of the tests: a vocabulary of a thousand tokens trained on this repository's documentation, with
the added tokens of Qwen3, and what Hugging Face `tokenizers` makes of some texts.

    python3 -m venv VENV && VENV/bin/pip install tokenizers==0.23.3
    VENV/bin/python scripts/mortar/small_tokenizer.py tests/mortar/data/small_tokenizer
"""
import json
import pathlib
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "mortar" / "text")]
import qwen_tokenizer  # noqa: E402
import tokenizer_oracle  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
EDGES = ["", " ", "  ", "a", "Hello world", " Hello world", "Hello  world", "it's IT'S we'll WE'LL they've I'd I'm you're don't '\u017f",
         "12345 3.14", "a\n\nb", "a \n b", " \n \n  x", "\r\n\r\n", "x\r\n  y", "tab\tand  two", "end  ", "\u00e9 e\u0301 \u212b A\u030a",
         "\u1100\u1161\u11a8 \uac01", "<|im_start|>user\nhi<|im_end|>\n", "<think>\n\n</think>", "<|im_start", "<<|im_end|>>",
         "\u4f60\u597d\uff0c\u4e16\u754c", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "a" * 300, " " * 100, "\n" * 70, "ab" * 100,
         "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0660\u0661\u0662", "\u2167\u00bd", "!?...\n\n", " !", "  !", "\u00a0x",
         "\u200bx", "\ufeffx", "\x00\x01", "\U0010ffff"]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    text = "\n".join(p.read_text() for p in sorted((ROOT / "docs").glob("*.md"))[:12]) + " \u4f60\u597d\u4e16\u754c" * 20 + " \u043f\u0440\u0438\u0432\u0435\u0442" * 20
    trained.train_from_iterator([text], trainers.BpeTrainer(vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(trained.to_str())["model"]
    data = qwen_tokenizer.tokenizer_json({bytes([b]): b for b in range(256)})
    data["model"]["vocab"] = model["vocab"]
    data["model"]["merges"] = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    for i, token in enumerate(data["added_tokens"]):
        token["id"] = len(model["vocab"]) + i
    (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n")
    other = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = EDGES + list(tokenizer_oracle.strings(150, 7))
    (folder / "cases.json").write_text(json.dumps([{"text": t, "ids": other.encode(t, add_special_tokens=False).ids} for t in texts]) + "\n")


if __name__ == "__main__":
    main()
