#!/usr/bin/env python3
"""Compares Mortar with Hugging Face transformers at the true size of a model: a random checkpoint of a published configuration,
teacher-forced logits of random tokens.

    python3 -m venv venv
    venv/bin/pip install torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3
    venv/bin/python scripts/mortar/parity_at_size.py --mortar PROGRAM bench/mortar/configs/Qwen3-0.6B

Prints the error of transformers in bf16, of Mortar, and of Mortar --strict, each relative to transformers in f32 (the root of the
sum of squares over all logits), and for how many positions strict mode chooses another token than transformers in bf16 although
that leads by at least four units in the last place of bf16. Ends with 1 if Mortar's error is larger than that of transformers, or
strict mode chooses otherwise. Needs disk and memory for the model in bf16 (4B: 8 GB) and for one layer and the head in f32.
"""
import argparse
import gc
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

import make_test_models


def in_f32(model):
    """Computes each layer in f32, which is rounded back afterwards: the weights are those of bf16, so nothing is lost."""
    parts = [*model.model.layers, model.model.norm, model.lm_head]
    hooks = [part.register_forward_pre_hook(lambda m, _: m.float() and None) for part in parts]
    return hooks + [part.register_forward_hook(lambda m, _, out: m.to(torch.bfloat16) and None) for part in parts]


def logits(model, ids, exact):
    hooks = in_f32(model) if exact else []
    with torch.no_grad():
        embedded = model.model.embed_tokens(torch.tensor([ids]))
        result = model(inputs_embeds=embedded.float() if exact else embedded, use_cache=False).logits[0].float().numpy()
    for hook in hooks:
        hook.remove()
    return result


def checkpoint(config, folder, seed):
    """Writes the files of a random model, and returns it."""
    architecture = config["architectures"][0]  # "LlamaForCausalLM"
    model_config = getattr(transformers, architecture.removesuffix("ForCausalLM") + "Config")(**config)
    model_config._attn_implementation = "sdpa"
    torch.set_default_dtype(torch.bfloat16)
    model = getattr(transformers, architecture)(model_config)
    torch.set_default_dtype(torch.float32)
    model.model.rotary_emb = type(model.model.rotary_emb)(model_config)  # its frequencies are f32, as from_pretrained leaves them
    make_test_models.randomize(model, seed)
    model.save_pretrained(folder, max_shard_size="4GB")
    make_test_models.write_json(folder / "config.json", config)
    make_test_models.write_tokenizer(folder, make_test_models.tokenizer(), "{{ messages[0].content }}")
    return model.eval()


def relative_error(values, exact):
    return float(np.sqrt(((values.astype(np.float64) - exact) ** 2).sum() / (exact.astype(np.float64) ** 2).sum()))


def decided_otherwise(ours, theirs):
    """Positions where the first logit of `theirs` leads clearly, and of those the ones where ours is another."""
    compared = other = 0
    for x, y in zip(ours, theirs):
        second, first = np.partition(y, -2)[-2:]
        if first - second < 4 * 2.0 ** (np.floor(np.log2(abs(first))) - 7):
            continue
        compared += 1
        other += int(x.argmax() != y.argmax())
    return compared, other


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path, help="a folder with the published config.json, bf16")
    parser.add_argument("--mortar", required=True, help="the program")
    parser.add_argument("--device", default="cpu", help="of Mortar (default: cpu)")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    config = json.loads((options.config / "config.json").read_text())
    ids = torch.randint(0, config["vocab_size"], (options.tokens,), generator=torch.Generator().manual_seed(options.seed)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = checkpoint(config, folder, options.seed)
        exact, theirs = logits(model, ids, True), logits(model, ids, False)
        del model
        gc.collect()
        ours = {}
        for mode in ([], ["--strict"]):
            subprocess.run([options.mortar, "logits", folder, "--device", options.device, "--prompt-ids", ",".join(map(str, ids)),
                            "--out", folder / "logits.npy", "--quiet", *mode], check=True)
            ours[" ".join(mode)] = np.load(folder / "logits.npy")
    errors = [relative_error(values, exact) for values in (theirs, ours[""], ours["--strict"])]
    compared, other = decided_otherwise(ours["--strict"], theirs)
    print(f"{options.config.name}, {len(ids)} tokens, {options.device}: transformers in bf16 {errors[0]:.5f}, Mortar {errors[1]:.5f}, "
          f"strict {errors[2]:.5f}; strict chooses otherwise at {other} of {compared} clear positions (of {len(ids)})")
    sys.exit(errors[1] > errors[0] or other > 0)


if __name__ == "__main__":
    main()
