#!/usr/bin/env python3
"""Measures the time from the start of `mortar serve` to /ready, beside the time of reading the model's files.

    ninja -C build/release mortar_command mortar_make_checkpoint
    scripts/mortar/measure_start.py build/release/mortar FOLDER --device cuda:0

BUILD is the folder of the programs `mortar` and `mortar_make_checkpoint`. FOLDER has the model. If it does not exist, it
is made: a checkpoint of the size of Qwen3-0.6B (or of --config) with random weights, 1.2 GB, and a copy of the
tokenizer.json of --tokenizer (scripts/mortar/qwen_tokenizer.py makes one of the published size).

Each repetition reads all files from the page cache into memory that is used again, with as many threads as loading has,
then starts the server and asks it until it is ready. The first round, which fills the page cache and compiles kernels,
is not counted. Prints one line of JSON.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = 1 << 22


def make_model(args):
    args.folder.mkdir(parents=True)
    subprocess.run([args.build / "mortar_make_checkpoint", args.config / "config.json", args.folder], check=True)
    for source, names in ((args.config, ("generation_config.json", "tokenizer_config.json")), (args.tokenizer, ("tokenizer.json",))):
        for name in names:
            if (source / name).exists():
                shutil.copy(source / name, args.folder)
    shutil.copy(args.template, args.folder / "chat_template.jinja")


def read_files(folder, threads):
    """Seconds for reading all files."""
    parts = [(f, at) for f in sorted(folder.iterdir()) if f.is_file() for at in range(0, f.stat().st_size, BLOCK)]

    def reader(number):
        memory, files, total = bytearray(BLOCK), {}, 0
        for path, at in parts[number::threads]:
            if path not in files:
                files[path] = os.open(path, os.O_RDONLY)
            total += os.preadv(files[path], [memory], at)
        for file in files.values():
            os.close(file)
        return total

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        total = sum(pool.map(reader, range(threads)))
    return time.monotonic() - start, total


def start_server(args):
    """Seconds until /ready is 200."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    words = [args.build / "mortar", "serve", args.folder, "--port", port, "--device", args.device, "--quiet", *args.options]
    start = time.monotonic()
    server = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=60) as answer:
                    if answer.status == 200:
                        return time.monotonic() - start
            except (urllib.error.URLError, ConnectionError):
                if server.poll() is not None:
                    raise SystemExit(f"the server has ended with exit code {server.returncode}") from None
            time.sleep(0.002)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "bench/mortar/configs/Qwen3-0.6B", help="folder of a config.json")
    parser.add_argument("--template", type=pathlib.Path, default=ROOT / "tests/mortar/data/templates/qwen3.jinja", help="a chat template")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "tests/mortar/data/small_tokenizer", help="folder of a tokenizer.json")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=min(8, os.cpu_count()))
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="further options of mortar serve; last")
    args = parser.parse_args()
    if not args.folder.exists():
        make_model(args)
    rows = []
    for _ in range(args.repetitions + 1):
        read, total = read_files(args.folder, args.threads)
        rows.append((read, start_server(args)))
    read, ready = (statistics.median(column) for column in zip(*rows[1:]))
    print(json.dumps({"bytes": total, "device": args.device, "read_s": round(read, 4), "ready_s": round(ready, 4), "ready_by_read": round(ready / read, 2),
                      "within_1.3_reads_and_1_s": ready <= 1.3 * read + 1}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
