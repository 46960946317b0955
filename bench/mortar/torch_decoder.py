#!/usr/bin/env python3
"""The peer of `mortar bench`: a Qwen3 decoder in PyTorch, compiled with torch.compile and replayed as one CUDA graph per step.

    torch_decoder.py bench/mortar/configs/Qwen3-4B [--context 0,512] [--batch 1] [--tokens 128] [--repetitions 5]

Random weights in bf16 from a config.json; the speed does not depend on the values. A step is what a generator does: embedding,
all layers over a static KV cache, the head, and the largest logit, whose index is the next step's input. Prints one JSON object
a row, in the form of `mortar bench --json`. Dense models only.
"""
import argparse
import json
import pathlib
import statistics
import time

import torch
import torch.nn.functional as F


class Decoder:
    def __init__(self, config, batch, capacity, device):
        self.c, self.batch = config, batch
        h, d = config["hidden_size"], config["head_dim"]
        self.heads, self.kv, self.d = config["num_attention_heads"], config["num_key_value_heads"], d
        inner = config["intermediate_size"]

        def weight(*shape):
            return torch.randn(*shape, device=device, dtype=torch.bfloat16) * shape[-1] ** -0.5

        self.embed = weight(config["vocab_size"], h)
        self.head = self.embed if config["tie_word_embeddings"] else weight(config["vocab_size"], h)
        self.layers = [dict(qkv=weight((self.heads + 2 * self.kv) * d, h), o=weight(h, self.heads * d), gate_up=weight(2 * inner, h),
                            down=weight(h, inner), n1=torch.ones(h, device=device, dtype=torch.bfloat16),
                            n2=torch.ones(h, device=device, dtype=torch.bfloat16), qn=torch.ones(d, device=device, dtype=torch.bfloat16),
                            kn=torch.ones(d, device=device, dtype=torch.bfloat16))
                       for _ in range(config["num_hidden_layers"])]
        self.norm = torch.ones(h, device=device, dtype=torch.bfloat16)
        shape = (batch, self.kv, capacity, d)
        self.cache = [(torch.zeros(shape, device=device, dtype=torch.bfloat16), torch.zeros(shape, device=device, dtype=torch.bfloat16))
                      for _ in self.layers]
        self.frequencies = 1.0 / (config["rope_theta"] ** (torch.arange(0, d, 2, device=device).float() / d))
        self.columns = torch.arange(capacity, device=device)
        self.ids = torch.zeros(batch, dtype=torch.long, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)

    def rms(self, x, weight):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.c["rms_norm_eps"])).to(x.dtype) * weight

    def rope(self, x, cos, sin):
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    def step(self):
        x = F.embedding(self.ids, self.embed)
        angle = self.position.float() * self.frequencies
        cos, sin = angle.cos(), angle.sin()
        mask = (self.columns <= self.position)[None, None, None, :]
        for layer, (keys, values) in zip(self.layers, self.cache):
            qkv = (self.rms(x, layer["n1"]) @ layer["qkv"].t()).view(self.batch, -1, self.d)
            q, k, v = qkv.split((self.heads, self.kv, self.kv), 1)
            q = self.rope(self.rms(q, layer["qn"]), cos, sin)
            k = self.rope(self.rms(k, layer["kn"]), cos, sin)
            keys.index_copy_(2, self.position, k.unsqueeze(2))
            values.index_copy_(2, self.position, v.unsqueeze(2))
            # As sums: torch.compile makes kernels of them that suit one token, F.scaled_dot_product_attention none.
            groups = q.view(self.batch, self.kv, -1, self.d).float()
            scores = (groups.unsqueeze(3) * keys.unsqueeze(2).float()).sum(-1) * self.d ** -0.5
            weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
            o = (weights.unsqueeze(-1) * values.unsqueeze(2).float()).sum(3).to(x.dtype)
            x = x + o.reshape(self.batch, -1) @ layer["o"].t()
            gate, up = (self.rms(x, layer["n2"]) @ layer["gate_up"].t()).chunk(2, -1)
            x = x + (F.silu(gate) * up) @ layer["down"].t()
        self.ids.copy_((self.rms(x, self.norm) @ self.head.t()).argmax(-1))
        self.position.add_(1)


def bytes_per_step(config, context, batch):
    h, d = config["hidden_size"], config["head_dim"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    layer = (heads + 2 * kv) * d * h + heads * d * h + 3 * h * config["intermediate_size"] + 2 * h + 2 * d
    return 2 * (config["num_hidden_layers"] * layer + h + config["vocab_size"] * h) + batch * context * 4 * config["num_hidden_layers"] * kv * d


def measure(folder, config, context, batch, tokens, repetitions, bandwidth):
    decoder = Decoder(config, batch, (context + tokens + 8 + 127) // 128 * 128, "cuda")
    # With this option PyTorch makes products with one row sums of its own kernels: faster than max_autotune's choices.
    options = {"triton.cudagraphs": False, "coordinate_descent_tuning": True}
    compiled = torch.compile(decoder.step, fullgraph=True, options=options)
    for _ in range(3):
        compiled()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compiled()
    speeds = []
    for _ in range(repetitions + 1):
        decoder.position.fill_(context)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(tokens):
            graph.replay()
        torch.cuda.synchronize()
        speeds.append(tokens * batch / (time.perf_counter() - begin))
    speeds = speeds[1:]
    speed = statistics.median(speeds)
    read = bytes_per_step(config, context + tokens / 2, batch)
    test = f"tg{tokens}" + (f"@{context}" if context else "") + (f" b{batch}" if batch > 1 else "")
    return dict(model=folder.name, engine="torch.compile", test=test, tokens_per_s=speed,
                stddev=statistics.stdev(speeds) if len(speeds) > 1 else 0.0, ms_per_step=1e3 * batch / speed, bytes_per_step=read,
                share_of_read_roof=read * speed / batch / bandwidth if bandwidth else 0.0, batch=batch, context=context)


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--context", type=numbers, default=[0])
    parser.add_argument("--batch", type=numbers, default=[1])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    config = json.loads((options.folder / "config.json").read_text())
    if "num_experts" in config or "quantization_config" in config:
        parser.error("dense bf16 models only")
    properties = torch.cuda.get_device_properties(0)
    # The nominal bandwidth, as `mortar bench` takes it: two transfers per clock of the memory. Not all versions tell.
    clock, width = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    bandwidth = 2 * clock * 1e3 * width / 8
    for context in options.context:
        for batch in options.batch:
            print(json.dumps(measure(options.folder, config, context, batch, options.tokens, options.repetitions, bandwidth)), flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
