"""All-reduce of f32 by size with torch.distributed over NCCL: the peer of collective_bench, with its sizes and its chain.

    torchrun --nproc-per-node N bench/mesh/torch_collectives.py [--least BYTES] [--most BYTES] [--chain N] [--repeats N]

Rank 0 prints a JSON object for each size."""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=int, default=8 << 10)
    parser.add_argument("--most", type=int, default=64 << 20)
    parser.add_argument("--chain", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=15)
    o = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    ranks = dist.get_world_size()

    def seconds(renew, run):
        times = []
        for i in range(-2, o.repeats):
            renew()
            dist.barrier()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            run()
            torch.cuda.synchronize()
            # As the slowest rank, like collective_bench.
            own = torch.tensor([time.perf_counter() - begin], device="cuda")
            dist.all_reduce(own, op=dist.ReduceOp.MAX)
            if i >= 0:
                times.append(own.item() / o.chain)
        return times

    size = o.least
    while size <= o.most:
        values = (torch.rand(size // 4, device="cuda") - 0.5) * 2.0 ** -45  # stay finite when they are added again and again
        x = values.clone()

        def renew():
            x.copy_(values)

        def launched():
            for _ in range(o.chain):
                dist.all_reduce(x)

        graph = torch.cuda.CUDAGraph()
        launched()
        with torch.cuda.graph(graph):
            launched()
        for how, run in (("launched", launched), ("graph", graph.replay)):
            times = seconds(renew, run)
            if dist.get_rank() == 0:
                us = statistics.median(times) * 1e6
                print(json.dumps({"program": "torch", "ranks": ranks, "how": how, "bytes": size, "us": round(us, 3),
                                  "least_us": round(min(times) * 1e6, 3), "gb_per_s": round(2 * (ranks - 1) / ranks * size / us / 1e3, 3)}),
                      flush=True)
        size *= 2
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
