#!/usr/bin/env python3
"""Writes a tokenizer.json with the vocabulary of Qwen2, Qwen2.5 and Qwen3, where no model hub can be reached.

    pip download --no-deps dashscope==2.0.2
    python3 scripts/mortar/qwen_tokenizer.py dashscope-2.0.2-py3-none-any.whl FOLDER

The PyPI package dashscope (Alibaba Cloud, Apache License 2.0) has the base vocabulary as token ranks
(dashscope/resources/qwen.tiktoken). A token's rank is its id; the merge that makes it is found by merging its bytes with the
tokens of lower rank until two are left. The added tokens are those of the Qwen3 models.
"""
import argparse
import base64
import json
import pathlib
import zipfile

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
           "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
           "<|image_pad|>", "<|video_pad|>"]
STRUCTURE = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
             "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"]


def byte_characters():
    """The characters that stand for the 256 bytes in byte-level BPE."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def parts_of(token, ranks):
    """The two tokens that are merged last into a token."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        rank, at = min((ranks.get(parts[i] + parts[i + 1], len(ranks)), i) for i in range(len(parts) - 1))
        if rank >= ranks[token]:
            raise ValueError(f"no merges lead to {token!r}")
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def tokenizer_json(ranks, pattern=PATTERN):
    characters = byte_characters()
    written = {token: "".join(characters[b] for b in token) for token in ranks}
    ordered = sorted(ranks, key=ranks.get)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": len(ranks) + i, "content": name, **flags, "special": name in SPECIAL}
             for i, name in enumerate(SPECIAL + STRUCTURE)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {written[token]: ranks[token] for token in ordered},
                  "merges": [" ".join(written[p] for p in parts_of(token, ranks)) for token in ordered if len(token) > 1]},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="wheel of dashscope, or its folder in site-packages")
    parser.add_argument("folder", help="where tokenizer.json and NOTICE are written")
    arguments = parser.parse_args()
    package = pathlib.Path(arguments.package)
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            text = wheel.read("dashscope/resources/qwen.tiktoken")
    else:
        text = (package / "resources" / "qwen.tiktoken").read_bytes()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in text.splitlines() if line)}
    folder = pathlib.Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(ranks), ensure_ascii=False, indent=2))
    (folder / "NOTICE").write_text("The vocabulary is that of the Qwen models, Copyright Alibaba Cloud, Apache License 2.0,\n"
                                   "taken from the PyPI package dashscope.\n")


if __name__ == "__main__":
    main()
