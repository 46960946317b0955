#!/usr/bin/env python3
"""Makes the small random checkpoints of tests/mortar/data/models, with the logits that Hugging Face transformers computes.

    python3 -m venv venv
    venv/bin/pip install torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3
    venv/bin/python scripts/mortar/make_test_models.py [--out FOLDER] [NAME...]

Each folder is a checkpoint as published (config.json, generation_config.json, tokenizer.json, tokenizer_config.json, safetensors),
and in its folder golden/:

    ids.npy            i32 [tokens]: the input
    logits.npy         f32 [tokens, vocabulary]: teacher forced, computed in f32 with the bf16 weights
    logits_bf16.npy    u16 [tokens, vocabulary]: the same computed in bf16, as bits
    logits_fp8.npy     f32 [tokens, vocabulary]: FP8 checkpoints: in f32, but the inputs of FP8 products are rounded to FP8
    tokens.json        [{"text", "ids"}]: Llama: texts and their ids, with the token that begins a text
    greedy.json        {"prompt", "ids", "gaps"}: greedy continuation in f32, and by how much the first logit led the second

The weights are random, but scaled so that each part of the model matters: logits have a deviation of about 2, norm weights lie
between 0.5 and 1.5. The same arguments give the same files.
"""
import argparse
import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import qwen_tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY = 384
TOKENS = 24
BLOCK = 128
F8_MAX = 448.0  # the largest e4m3 value

# Of the tokenizer: the pattern and the added tokens of Qwen3. The ids follow those of the learned vocabulary.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
           "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
NOT_SPECIAL = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
               "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
CORPUS = ["The kernel reads the weights of the layer and writes the sum.", "Every block has its own piece of the tensor.",
          "the attention of the heads reads the keys and the values", "What is the answer to the question that the user asked?",
          "user assistant system", "Die Kachel liegt im Speicher.", "Le noyau lit les poids de la couche.", "0123456789 + 10 = 20",
          "for (int i = 0; i < n; ++i) { sum += x[i]; }\n", "def answer(question):\n    return 42\n"] * 4

# Of Llama 3: its pattern, whole pieces that are tokens are not divided, and a token before every text.
LLAMA_PATTERN = PATTERN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
LLAMA_SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|finetune_right_pad_id|>",
                 "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"]
LLAMA_WHOLE = ["xyzzy", " plugh", "007", "\u4f60\u597d"]  # tokens that no merges lead to
LLAMA_TEXTS = ["", "Hello world", "xyzzy axyzzy xyzzya plugh xplugh", "007 0071 10071 00700", "1 12 123 1234 12345678 3.14159 a1b22c333",
               "\u0661\u0662\u0663\u0664 \u2167\u2160\u00bd\u00be 1\u066223", "\u4f60\u597d \u4f60\u597d\u4f60", "it's IT'S we'll they'VE", "a\n\nb \n  c\r\n\r\n d  ",
               "e\u0301 \u00e9 \u212b", "<|start_header_id|>user<|end_header_id|>\n\nWhat is a tile?<|eot_id|>", "<|begin_of_text|>x", "<|eot_id",
               "for (int i = 0; i < 1024; ++i) { sum += x[i]; }", "\U0001F468\u200d\U0001F469 !?...\n\n", "the attention of the heads"]

MODELS = {
    "dense-tied": dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                       intermediate_size=160, tie_word_embeddings=True, rope_theta=1e6),
    "dense-untied": dict(hidden_size=96, num_hidden_layers=2, num_attention_heads=10, num_key_value_heads=2, head_dim=16,
                         intermediate_size=128, tie_word_embeddings=False, rope_theta=5e6, older=True, shard="200KB"),
    "dense-yarn": dict(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=128,
                       intermediate_size=128, tie_word_embeddings=True, rope_theta=1e4, max_position_embeddings=64, tokens=80, older=True,
                       scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}),
    "moe": dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=1, head_dim=16, intermediate_size=96,
                moe_intermediate_size=32, num_experts=8, num_experts_per_tok=2, norm_topk_prob=True, tie_word_embeddings=False,
                rope_theta=1e6, older=True, shard="150KB"),
    "fp8": dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=64, intermediate_size=256,
                tie_word_embeddings=True, rope_theta=1e6, fp8=torch.float32, older=True),
    "moe-fp8": dict(hidden_size=128, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=128,
                    intermediate_size=256, moe_intermediate_size=128, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                    tie_word_embeddings=True, rope_theta=1e6, fp8=torch.bfloat16),
    "llama-tied": dict(llama=True, hidden_size=96, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=32,
                       intermediate_size=160, tie_word_embeddings=True, rope_theta=5e5, tokens=48, scaling={
                           "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 32}),
    "llama-untied": dict(llama=True, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                         intermediate_size=128, tie_word_embeddings=False, rope_theta=5e5, older=True, shard="250KB"),
}


SEEDS = sorted(name for name in MODELS if not name.startswith("llama")) + ["llama-tied", "llama-untied"]


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def llama_tokenizer():
    """The settings of Llama 3's tokenizer.json, and tokens that only whole pieces become."""
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA_PATTERN), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    learned = VOCABULARY - len(LLAMA_SPECIAL) - len(LLAMA_WHOLE) - 8
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=learned, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                                      show_progress=False))
    data = json.loads(t.to_str())
    character = qwen_tokenizer.byte_characters()
    for i, text in enumerate(LLAMA_WHOLE):
        data["model"]["vocab"]["".join(character[b] for b in text.encode())] = learned + i
    t = Tokenizer.from_str(json.dumps(data))
    t.add_tokens([AddedToken(s, special=True, normalized=False) for s in LLAMA_SPECIAL])
    begin = t.token_to_id(LLAMA_SPECIAL[0])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                            processors.TemplateProcessing(single=f"{LLAMA_SPECIAL[0]} $A", pair=f"{LLAMA_SPECIAL[0]} $A $B:1",
                                                                          special_tokens=[(LLAMA_SPECIAL[0], begin)])])
    return t


def tokenizer():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    t.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    learned = VOCABULARY - len(SPECIAL) - len(NOT_SPECIAL) - 8  # the last rows of the embedding belong to no token, as in Qwen3
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=learned, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                                      show_progress=False))
    added = [AddedToken(s, special=True, normalized=False) for s in SPECIAL]
    t.add_tokens(added + [AddedToken(s, special=False, normalized=False) for s in NOT_SPECIAL])
    return t


def write_llama_tokenizer(folder, t, template):
    t.save(str(folder / "tokenizer.json"), pretty=False)
    decoder = {str(t.token_to_id(s)): dict(content=s, lstrip=False, normalized=False, rstrip=False, single_word=False, special=True)
               for s in LLAMA_SPECIAL}
    write_json(folder / "tokenizer_config.json", {
        "added_tokens_decoder": decoder, "bos_token": "<|begin_of_text|>", "chat_template": template, "clean_up_tokenization_spaces": True,
        "eos_token": "<|eot_id|>", "model_input_names": ["input_ids", "attention_mask"], "model_max_length": 1024,
        "tokenizer_class": "PreTrainedTokenizerFast"})


def write_tokenizer(folder, t, template):
    t.save(str(folder / "tokenizer.json"), pretty=False)
    decoder = {str(t.token_to_id(s)): dict(content=s, lstrip=False, normalized=False, rstrip=False, single_word=False,
                                           special=s in SPECIAL) for s in SPECIAL + NOT_SPECIAL}
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": decoder, "additional_special_tokens": SPECIAL[1:],
        "bos_token": None, "chat_template": template, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>",
        "errors": "replace", "model_max_length": 1024, "pad_token": "<|endoftext|>", "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer", "unk_token": None})


def randomize(model, seed):
    """Weights for which no part of the model can be left out unnoticed."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if p.dim() == 1:
                p.copy_(torch.rand(p.shape, generator=g) + 0.5)
            else:
                scale = 2.0 if name.startswith("lm_head") or name.startswith("model.embed") else 1.0
                p.copy_(torch.randn(p.shape, generator=g) * scale / p.shape[-1] ** 0.5)


def quantize_file(path, scale_type):
    """The linear layers of a safetensors file as FP8, with a scale for each 128 x 128 block."""
    tensors = {}
    with safe_open(path, "pt") as f:
        for name in f.keys():
            tensors[name] = f.get_tensor(name)
    for name in sorted(tensors):
        w = tensors[name].float()
        if w.dim() != 2 or "_proj." not in name:
            continue
        rows, columns = (-(-n // BLOCK) for n in w.shape)
        padded = torch.zeros(rows * BLOCK, columns * BLOCK)
        padded[:w.shape[0], :w.shape[1]] = w
        blocks = padded.view(rows, BLOCK, columns, BLOCK)
        scale = (blocks.abs().amax(dim=(1, 3)) / F8_MAX).to(scale_type)
        quantized = (blocks / scale.float()[:, None, :, None]).clamp(-F8_MAX, F8_MAX).to(torch.float8_e4m3fn)
        tensors[name] = quantized.view(rows * BLOCK, columns * BLOCK)[:w.shape[0], :w.shape[1]].contiguous()
        tensors[name + "_scale_inv"] = scale
    save_file(tensors, path, metadata={"format": "pt"})


def dequantized(path):
    """name: f32 values, of the FP8 tensors."""
    values = {}
    with safe_open(path, "pt") as f:
        for name in f.keys():
            if name + "_scale_inv" in f.keys():
                q, s = f.get_tensor(name).float(), f.get_tensor(name + "_scale_inv").float()
                values[name] = q * s.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)[:q.shape[0], :q.shape[1]]
    return values


def put_values(model, values):
    """Replaces linear weights; those of experts are stacked in the model. Returns the addresses of what was replaced."""
    state = model.state_dict()
    touched = set()
    with torch.no_grad():
        for name, w in values.items():
            if ".experts." not in name:
                target = state[name]
            else:
                prefix, rest = name.split(".experts.")
                expert, kind = int(rest.split(".")[0]), rest.split(".")[1]
                stack = state[prefix + ".experts." + ("down_proj" if kind == "down_proj" else "gate_up_proj")][expert]
                half = stack.shape[0] // 2
                target = stack if kind == "down_proj" else stack[:half] if kind == "gate_proj" else stack[half:]
            assert target.shape == w.shape, (name, target.shape, w.shape)
            target.copy_(w)
            touched.add(target.untyped_storage().data_ptr())
    return touched


class RoundedInputs:
    """While open, products with the given weights round their inputs to FP8, with a scale for 128 elements of a row."""

    def __init__(self, storages):
        self.storages, self.products = storages, 0

    def __enter__(self):
        self.linear = torch.nn.functional.linear

        def linear(x, weight, bias=None):
            if weight.untyped_storage().data_ptr() in self.storages:
                self.products += 1
                groups = x.reshape(*x.shape[:-1], -1, BLOCK)
                scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-12) / F8_MAX
                x = ((groups / scale).to(torch.float8_e4m3fn).float() * scale).reshape(x.shape)
            return self.linear(x, weight, bias)

        torch.nn.functional.linear = linear
        return self

    def __exit__(self, *_):
        torch.nn.functional.linear = self.linear
        assert self.products > 0


def older_spelling(config):
    """The fields as transformers 4 wrote them."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope.get("rope_type", "default") == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    if config["model_type"] == "llama":
        config.pop("head_dim")  # it is hidden_size / num_attention_heads
    else:
        config["max_window_layers"] = config["num_hidden_layers"]
    if "num_local_experts" in config:
        config["num_experts"] = config.pop("num_local_experts")
    config.pop("layer_types", None)
    config["transformers_version"] = "4.51.0"
    return dict(sorted(config.items()))


def greedy(model, prompt, count):
    ids, gaps = list(prompt), []
    with torch.no_grad():
        for _ in range(count):
            top = torch.topk(model(torch.tensor([ids])).logits[0, -1].float(), 2)
            ids.append(int(top.indices[0]))
            gaps.append(round(float(top.values[0] - top.values[1]), 6))
    return ids[len(prompt):], gaps


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def golden(folder, load, ids, fp8):
    (folder / "golden").mkdir()
    model = load(torch.float32)
    storages = put_values(model, dequantized(folder / "model.safetensors")) if fp8 else set()
    exact = logits(model, ids)
    np.save(folder / "golden/ids.npy", np.array(ids, dtype=np.int32))
    np.save(folder / "golden/logits.npy", exact)
    if fp8:
        with RoundedInputs(storages):
            np.save(folder / "golden/logits_fp8.npy", logits(model, ids))
    else:
        narrow = torch.tensor(logits(load(torch.bfloat16), ids)).to(torch.bfloat16)
        np.save(folder / "golden/logits_bf16.npy", narrow.view(torch.uint16).numpy())
    prompt = ids[:6]
    continued, gaps = greedy(model, prompt, 24)
    write_json(folder / "golden/greedy.json", {"prompt": prompt, "ids": continued, "gaps": gaps})
    return exact


def make(name, out, tokens, template):
    spec = dict(MODELS[name])
    llama = spec.pop("llama", False)
    if llama:
        tokens, template = llama_tokenizer(), (ROOT / "tests/mortar/data/llama_template.jinja").read_text(encoding="utf-8")
    fp8, older, shard, count, scaling, theta = (spec.pop(k, d) for k, d in (("fp8", None), ("older", False), ("shard", "1GB"),
                                                                           ("tokens", TOKENS), ("scaling", {}), ("rope_theta", None)))
    family = "Llama" if llama else "Qwen3Moe" if "num_experts" in spec else "Qwen3"
    end, pad = ((tokens.token_to_id(s) for s in ("<|eot_id|>", "<|begin_of_text|>")) if llama else
                (tokens.token_to_id(s) for s in ("<|im_end|>", "<|endoftext|>")))
    spec.setdefault("max_position_embeddings", 1024)
    spec["rope_parameters"] = {"rope_theta": theta, "rope_type": "default", **scaling}
    config = getattr(transformers, family + "Config")(vocab_size=VOCABULARY, bos_token_id=pad, eos_token_id=end, dtype="bfloat16", **spec)
    architecture = getattr(transformers, family + "ForCausalLM")
    model = architecture(config)
    randomize(model, seed=SEEDS.index(name) + 1)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=shard)

    def load(dtype):
        return architecture.from_pretrained(folder_of_bf16, dtype=dtype, attn_implementation="sdpa", experts_implementation="eager")

    folder_of_bf16 = folder
    if fp8:
        folder_of_bf16 = out / (name + ".bf16")
        shutil.rmtree(folder_of_bf16, ignore_errors=True)
        shutil.copytree(folder, folder_of_bf16)
        quantize_file(folder / "model.safetensors", fp8)
    write_json(folder / "generation_config.json", {
        "bos_token_id": pad, "do_sample": True, "eos_token_id": [end, tokens.token_to_id("<|end_of_text|>") if llama else pad], "pad_token_id": pad, "temperature": 0.6, "top_k": 20,
        "top_p": 0.95, "transformers_version": "4.51.0" if older else transformers.__version__})
    (write_llama_tokenizer if llama else write_tokenizer)(folder, tokens, template)
    ids = torch.randint(0, tokens.get_vocab_size(), (count,), generator=torch.Generator().manual_seed(7)).tolist()
    exact = golden(folder, load, ids, fp8)
    if llama:
        write_json(folder / "golden/tokens.json", [{"text": text, "ids": tokens.encode(text).ids} for text in LLAMA_TEXTS])
    if fp8:
        shutil.rmtree(folder_of_bf16)
    written = json.loads((folder / "config.json").read_text())
    if fp8:
        written["quantization_config"] = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                          "modules_to_not_convert": ["lm_head"], "weight_block_size": [BLOCK, BLOCK]}
    write_json(folder / "config.json", older_spelling(written) if older else written)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{name}: {size / 1e3:.0f} kB, logits have a deviation of {exact.std():.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/mortar/data/models")
    parser.add_argument("--template", type=pathlib.Path, default=ROOT / "tests/mortar/data/chat_template.jinja")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)} (default: all)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # the order of sums does not depend on the machine's cores
    tokens = tokenizer()
    for name in options.names or MODELS:
        make(name, options.out, tokens, options.template.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
