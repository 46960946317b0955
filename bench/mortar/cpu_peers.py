#!/usr/bin/env python3
"""Mortar on the CPU compared with PyTorch, in turns on the same cores: one token at a time, and a prompt of 512 tokens.

    cpu_peers.py MORTAR [--config bench/mortar/configs/Qwen3-0.6B] [--threads 2] [--rounds 5] [--tokens 12]

Random weights: Mortar's in bf16 and in FP8 with a scale for each block of 128 x 128, PyTorch's in bf16 and in f32 (it has no product of FP8 weights
for CPUs). PyTorch runs as it is and by torch.compile; the better of both counts for one token. Each round measures all of them once; printed are
medians of tokens per second, and the median of each round's ratio. It needs PyTorch (scripts/test.sh --torch installs one in the user's cache).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

FP8 = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}


def mortar(command, folder, options, tokens):
    """Tokens per second of an answer and of a prompt."""
    words = [command, "bench", folder, "--random-weights", 1, "--device", "cpu", "--quiet", "--json", "--max-context", 1024, "--generate", tokens,
             "--prompt-tokens", 512, "--repetitions", 1]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MORTAR_", "TESSERA_"))} | {"TESSERA_CPU_THREADS": str(options.threads)}
    rows = [json.loads(line) for line in subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True, env=env).stdout.splitlines()]
    speeds = {row["test"]: row["tokens_per_s"] for row in rows}
    return {"token": next(s for test, s in speeds.items() if test.startswith("tg")), "prompt": next(s for test, s in speeds.items() if test.startswith("pp"))}


class Peer:
    """The decoder of torch_decoder.py, and its prompt."""

    def __init__(self, config, dtype, tokens):
        import torch
        from torch_decoder import Decoder
        self.torch, self.dtype, self.tokens = torch, dtype, tokens
        self.decoder = Decoder(config, 1, 1024, "cpu")
        d = self.decoder
        if dtype != torch.bfloat16:
            tied = d.head is d.embed
            d.embed = d.embed.to(dtype)
            d.head = d.embed if tied else d.head.to(dtype)
            d.norm = d.norm.to(dtype)
            d.layers = [{name: weight.to(dtype) for name, weight in layer.items()} for layer in d.layers]
            d.cache = [(k.to(dtype), v.to(dtype)) for k, v in d.cache]
        self.steps = {"eager": d.step, "compiled": torch.compile(d.step)}

    def token(self):
        best = 0.0
        with self.torch.inference_mode():
            for step in self.steps.values():
                self.decoder.position.fill_(0)
                step()
                begin = time.perf_counter()
                for _ in range(self.tokens):
                    step()
                best = max(best, self.tokens / (time.perf_counter() - begin))
        return best

    def prompt(self, length=512):
        with self.torch.inference_mode():
            self.forward(8)
            begin = time.perf_counter()
            self.forward(length)
            return length / (time.perf_counter() - begin)

    def forward(self, n):
        torch, d = self.torch, self.decoder
        functional = torch.nn.functional
        x = functional.embedding(torch.zeros(n, dtype=torch.long), d.embed)
        angle = torch.arange(n).float()[:, None] * d.frequencies
        cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
        for layer in d.layers:
            qkv = (d.rms(x, layer["n1"]) @ layer["qkv"].t()).view(n, -1, d.d)
            q, k, v = qkv.split((d.heads, d.kv, d.kv), 1)
            q, k = d.rope(d.rms(q, layer["qn"]), cos, sin), d.rope(d.rms(k, layer["kn"]), cos, sin)
            heads = [t.transpose(0, 1)[None] for t in (q, k, v)]
            o = functional.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)[0].transpose(0, 1)
            x = x + o.reshape(n, -1) @ layer["o"].t()
            gate, up = (d.rms(x, layer["n2"]) @ layer["gate_up"].t()).chunk(2, -1)
            x = x + (functional.silu(gate) * up) @ layer["down"].t()
        return (d.rms(x[-1:], d.norm) @ d.head.t()).argmax(-1)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mortar", type=pathlib.Path)
    parser.add_argument("--config", type=pathlib.Path, default=here / "configs/Qwen3-0.6B")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=12)
    options = parser.parse_args()
    import torch
    torch.set_num_threads(options.threads)
    config = json.loads((options.config / "config.json").read_text())
    peers = {"PyTorch bf16": Peer(config, torch.bfloat16, options.tokens), "PyTorch f32": Peer(config, torch.float32, options.tokens)}
    rounds = []
    with tempfile.TemporaryDirectory() as temporary:
        fp8 = pathlib.Path(temporary) / "fp8"
        fp8.mkdir()
        (fp8 / "config.json").write_text(json.dumps(config | {"quantization_config": FP8}))
        for number in range(options.rounds + 1):
            one = {"Mortar bf16": mortar(options.mortar, options.config, options, options.tokens), "Mortar FP8": mortar(options.mortar, fp8, options, options.tokens)}
            one |= {name: {"token": peer.token(), "prompt": peer.prompt()} for name, peer in peers.items()}
            print(json.dumps({name: {k: round(v, 2) for k, v in row.items()} for name, row in one.items()}), flush=True)
            if number > 0:  # the first one warms up
                rounds.append(one)
    for what in ("token", "prompt"):
        print(f"\n{what}: tokens/s (median of {len(rounds)} rounds), Mortar bf16 over it")
        for name in rounds[0]:
            ratio = statistics.median(r["Mortar bf16"][what] / r[name][what] for r in rounds)
            print(f"  {name:<13} {statistics.median(r[name][what] for r in rounds):8.2f}  {ratio:.2f}")


if __name__ == "__main__":
    main()
