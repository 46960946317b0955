#!/usr/bin/env python3
"""The table of docs/mortar/operations.md: which model fits on which GPU, by the memory plan of `mortar info --memory`.

usage: sizing.py MORTAR [--write | --check]

Configurations are those of bench/mortar/configs, and variants of them that are published: other sizes, FP8 weights. A GPU that
is sold with N GB has N GiB, of which one is left to the driver and what the name rounds. --write changes the page, --check
fails where it differs.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mortar" / "operations.md"
CONFIGS = ROOT / "bench" / "mortar" / "configs"
MARKS = "<!-- sizing -->\n", "<!-- end -->"
GPUS = (16, 24, 32, 48, 80, 141)
ANSWER = 4096  # tokens of a prompt with its answer
BATCHES = (256, 128, 64, 32, 16, 8, 4, 2, 1)  # 256 is what serve takes
# name, the configuration it is like, fields that differ, FP8, parameters as published
MODELS = [
    ("Qwen3-0.6B", "Qwen3-0.6B", {}, False, 596_049_920),
    ("Qwen3-1.7B", "Qwen3-0.6B", {"hidden_size": 2048, "intermediate_size": 6144}, False, 1_720_574_976),
    ("Qwen3-4B", "Qwen3-4B", {}, False, 4_022_468_096),
    ("Qwen3-8B-FP8", "Qwen3-8B", {}, True, 8_190_735_360),
    ("Qwen3-8B", "Qwen3-8B", {}, False, 8_190_735_360),
    ("Qwen3-14B-FP8", "Qwen3-32B", {"num_hidden_layers": 40, "num_attention_heads": 40, "intermediate_size": 17408}, True, 14_768_307_200),
    ("Qwen3-14B", "Qwen3-32B", {"num_hidden_layers": 40, "num_attention_heads": 40, "intermediate_size": 17408}, False, 14_768_307_200),
    ("Qwen3-30B-A3B-FP8", "Qwen3-30B-A3B", {}, True, 30_532_122_624),
    ("Qwen3-30B-A3B", "Qwen3-30B-A3B", {}, False, 30_532_122_624),
    ("Qwen3-32B-FP8", "Qwen3-32B", {}, True, 32_762_123_264),
    ("Qwen3-32B", "Qwen3-32B", {}, False, 32_762_123_264),
]


def plan(mortar, folder, gigabytes, batch):
    done = subprocess.run([mortar, "info", folder, "--random-weights", "0", "--memory", f"{gigabytes - 1}G", "--batch-size", str(batch), "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def cell(mortar, folder, gigabytes):
    """The longest context, and as many answers at a time as the cache has room for."""
    room = plan(mortar, folder, gigabytes, 1)["cache_tokens"] // ANSWER  # of steps of one sequence: less for more
    for batch in [b for b in BATCHES if b <= room] or [1]:
        found = plan(mortar, folder, gigabytes, batch)
        if found["cache_tokens"] >= batch * ANSWER:
            return f"{min(found['max_context'], found['cache_tokens']) // 1024} k, {batch}"
    context = found["cache_tokens"] // 1024
    return f"{context} k, 1" if context else "-"


def rows(mortar):
    fp8 = json.loads((CONFIGS / "Qwen3-8B-FP8" / "config.json").read_text())["quantization_config"]
    yield "| model | weights, GB | a token, KB | " + " | ".join(f"{g} GB" for g in GPUS) + " |"
    yield "|---|---|---|" + "---|" * len(GPUS)
    with tempfile.TemporaryDirectory() as folder:
        for name, like, fields, is_fp8, parameters in MODELS:
            config = json.loads((CONFIGS / like / "config.json").read_text()) | fields | ({"quantization_config": fp8} if is_fp8 else {})
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
            info = plan(mortar, folder, GPUS[-1], 1)
            assert info["parameters"] == parameters, (name, info["parameters"])
            cells = [cell(mortar, folder, g) for g in GPUS]
            yield f"| {name} | {info['bytes']['total'] / 1e9:.1f} | {info['kv_bytes_per_token'] / 1000:.0f} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mortar")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", action="store_true")
    group.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table = "\n".join(rows(options.mortar)) + "\n"
    if not options.write and not options.check:
        print(table, end="")
        return 0
    page = PAGE.read_text()
    begin = page.index(MARKS[0]) + len(MARKS[0])
    new = page[:begin] + table + page[page.index(MARKS[1], begin):]
    if options.check and new != page:
        print(f"{PAGE.relative_to(ROOT)}: the table is not what the memory plan gives; run {sys.argv[0]} MORTAR --write. It is:\n{table}")
        return 1
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
