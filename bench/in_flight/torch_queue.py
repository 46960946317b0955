#!/usr/bin/env python3
"""The queues of queue.cpp by PyTorch (cuBLAS) on as many streams; prints {figure: {peer: units/s}}."""

import json
import random
import statistics
import sys
import time

import torch

COUNTS = (1, 2, 4, 8, 16, 32)


def main():
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    operands = {n: [torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2)] for n in (512, 2048)}
    streams = [torch.cuda.Stream() for _ in range(max(COUNTS))]

    def run(is_large, count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i, large in enumerate(is_large):
            with torch.cuda.stream(streams[i % count]):
                torch.mm(*operands[2048 if large else 512])
        torch.cuda.synchronize()
        return time.perf_counter() - start

    chooser = random.Random(7)
    queues = {"queue of small and large products": [chooser.randrange(5) == 0 for _ in range(2000)],
              "queue of small products": [False] * 2000}
    figures = {}
    for name, is_large in queues.items():
        units = sum(64 if large else 1 for large in is_large)
        for count in COUNTS:
            run(is_large, count)
        seconds = {count: [] for count in COUNTS}
        for _ in range(7):
            for count in COUNTS:
                seconds[count].append(run(is_large, count))
        for count in COUNTS:
            figures[f"{name}, {count} stream{'' if count == 1 else 's'}"] = {
                "PyTorch": units / statistics.median(seconds[count])}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
