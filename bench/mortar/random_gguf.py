#!/usr/bin/env python3
"""Writes a model with random weights in bf16 as a GGUF file, so that llama.cpp can be measured beside Mortar.

    random_gguf.py bench/mortar/configs/Qwen3-4B OUT.gguf

The sizes are those of a config.json of a dense Qwen3. There is no tokenizer: llama-bench takes random tokens. The format is GGUF
version 3 (described in ggml's repository), the names of tensors and keys are those that llama.cpp has for the architecture "qwen3". Weights
are blocks of the same normal numbers: speed does not depend on the values. Needs numpy.
"""
import json
import pathlib
import struct
import sys

import numpy as np

UINT32, FLOAT32, STRING = 4, 6, 8  # types of values
F32, BF16 = 0, 30  # types of tensors
MOSTLY_BF16 = 32  # general.file_type
ALIGNMENT = 32  # bytes, the default
DEVIATION = 0.02


def text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def keys(c):
    """The keys and values of a config, encoded."""
    numbers = {
        "general.file_type": MOSTLY_BF16,
        "qwen3.block_count": c["num_hidden_layers"],
        "qwen3.context_length": c["max_position_embeddings"],
        "qwen3.embedding_length": c["hidden_size"],
        "qwen3.feed_forward_length": c["intermediate_size"],
        "qwen3.attention.head_count": c["num_attention_heads"],
        "qwen3.attention.head_count_kv": c["num_key_value_heads"],
        "qwen3.attention.key_length": c["head_dim"],
        "qwen3.attention.value_length": c["head_dim"],
        "qwen3.vocab_size": c["vocab_size"],
    }
    theta = c["rope_theta"] if "rope_theta" in c else c["rope_parameters"]["rope_theta"]  # the older spelling, the newer
    reals = {"qwen3.attention.layer_norm_rms_epsilon": c["rms_norm_eps"], "qwen3.rope.freq_base": theta}
    texts = {"general.architecture": "qwen3", "general.name": "random", "tokenizer.ggml.model": "no_vocab"}
    return ([text(k) + struct.pack("<I", STRING) + text(v) for k, v in texts.items()] +
            [text(k) + struct.pack("<II", UINT32, v) for k, v in numbers.items()] +
            [text(k) + struct.pack("<If", FLOAT32, v) for k, v in reals.items()])


def tensors(c):
    """Name and extents of each tensor, the contiguous axis first."""
    hidden, inner, head = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    queries, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    yield "token_embd", (hidden, c["vocab_size"])
    yield "output_norm", (hidden,)
    if not c["tie_word_embeddings"]:
        yield "output", (hidden, c["vocab_size"])
    for i in range(c["num_hidden_layers"]):
        for name, extents in [("attn_norm", (hidden,)), ("attn_q", (hidden, queries)), ("attn_k", (hidden, kv)),
                              ("attn_v", (hidden, kv)), ("attn_q_norm", (head,)), ("attn_k_norm", (head,)),
                              ("attn_output", (queries, hidden)), ("ffn_norm", (hidden,)), ("ffn_gate", (hidden, inner)),
                              ("ffn_up", (hidden, inner)), ("ffn_down", (inner, hidden))]:
            yield f"blk.{i}.{name}", extents


class Counted:
    """A file that knows how much was written."""

    def __init__(self, file):
        self.file, self.bytes = file, 0

    def write(self, data):
        self.bytes += self.file.write(data)

    def pad(self):
        self.write(bytes(-self.bytes % ALIGNMENT))


def write(c, out):
    all_keys, all_tensors = keys(c), list(tensors(c))
    out.write(b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(all_keys)) + b"".join(all_keys))
    at = 0
    for name, extents in all_tensors:
        is_norm = len(extents) == 1
        out.write(text(name + ".weight") + struct.pack("<I", len(extents)) + struct.pack(f"<{len(extents)}Q", *extents) +
                  struct.pack("<IQ", F32 if is_norm else BF16, at))
        at += -(-int(np.prod(extents)) * (4 if is_norm else 2) // ALIGNMENT) * ALIGNMENT
    out.pad()
    numbers = np.random.default_rng(1).standard_normal(1 << 25, dtype=np.float32) * np.float32(DEVIATION)
    block = (numbers.view(np.uint32) >> 16).astype(np.uint16)  # bf16: the upper half of f32
    for _, extents in all_tensors:
        left = int(np.prod(extents))
        if len(extents) == 1:
            out.write(np.ones(left, np.float32).tobytes())
            left = 0
        while left > 0:
            out.write(memoryview(block[:left]))
            left -= min(left, block.size)
        out.pad()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    config = json.loads((pathlib.Path(sys.argv[1]) / "config.json").read_text())
    with open(sys.argv[2], "wb") as out:
        write(config, Counted(out))


if __name__ == "__main__":
    main()
