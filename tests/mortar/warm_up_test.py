"""What a server on a GPU compiles, it compiles before it is ready. Arguments: mortar, the folders of models and templates,
the library of the null driver (bench/host/null_driver.cpp), on which kernels are launched and none runs.

NVIDIA's assembler makes one kernel; all others get a copy of its file, because only their number matters here."""
import concurrent.futures
import os
import pathlib
import random
import stat
import sys
import tempfile
import unittest

import serving

DRIVER = None
BATCH, CONTEXT = 24, 512


def assembler():
    """The path of tileiras, by the variable of the library or as `tessera get-tileiras` left it."""
    named = os.environ.get("TESSERA_TILEIRAS")
    if named:
        return pathlib.Path(named)
    cache = pathlib.Path(os.environ.get("TESSERA_CACHE_DIR") or pathlib.Path.home() / ".cache" / "tessera")
    found = sorted(cache.glob("tileiras-*/bin/tileiras"))
    return found[-1] if found else None


def write_assembler(path, real):
    path.write_text(f"""#!/bin/sh
case "$*" in *--version*) exec '{real}' "$@";; esac
for word; do [ "$last" = -o ] && out=$word; last=$word; done
kept='{path}.cubin'
if [ ! -f "$kept" ]; then
  '{real}' "$@" || exit $?
  cp "$out" "$kept.new" && mv "$kept.new" "$kept"
else
  cp "$kept" "$out"
fi
""")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class Gpu:
    """A server on the GPU that is not there, and what it has compiled."""

    def __init__(self, folder, model, *words):
        self.dumps = pathlib.Path(folder) / "dumps"
        self.dumps.mkdir()
        tool = pathlib.Path(folder) / "tileiras"
        write_assembler(tool, assembler())
        environment = {"TESSERA_TILEIRAS": str(tool), "TESSERA_CACHE_DIR": f"{folder}/cache", "TESSERA_DUMP": f"{self.dumps}/",
                       "LD_LIBRARY_PATH": str(DRIVER.parent), "NULL_DRIVER_SM": "90", "NULL_DRIVER_ZEROS": "1", "CUDA_HOME": "",
                       "TESSERA_BUNDLE": ""}
        self.server = serving.Server(model, "--device", "cuda:0", "--max-context", CONTEXT, "--batch-size", BATCH, "--min-memory", 0,
                                     *words, env=environment)

    def compiled(self):
        return {path.name for path in self.dumps.iterdir()}

    def answer(self, many, seed):
        """Requests of all kinds, with prompts and answers of random lengths."""
        rng = random.Random(seed)
        requests = []
        for _ in range(many):
            prompt = [rng.randrange(1, 300) for _ in range(int(CONTEXT ** rng.random() / 2) + 1)]
            body = {"model": self.server.name, "prompt": prompt, "max_tokens": rng.randrange(1, 60), "ignore_eos": True}
            body |= rng.choice([{"temperature": 0}, {}, {"frequency_penalty": 0.5}, {"logprobs": 3}, {"allowed_token_ids": [0, 1, 2]},
                                {"presence_penalty": 0.1, "logprobs": 1}, {"logit_bias": {"5": 2}}, {"n": 3}])
            requests.append(body)
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            return list(pool.map(lambda body: self.server.post("/v1/completions", body)[0], requests))


class WarmUp(unittest.TestCase):
    def test_nothing_is_compiled_once_the_server_is_ready(self):
        for model, *options in (("dense-untied",), ("fp8",), ("moe",), ("dense-untied", "--kv-dtype", "f8")):
            with self.subTest(model, options=options), tempfile.TemporaryDirectory() as folder:
                gpu = Gpu(folder, serving.MODELS / model, *options)
                ready = gpu.compiled()
                self.assertGreater(len(ready), 20)
                self.assertEqual(set(gpu.answer(1, 1) + gpu.answer(150, 2)), {200})
                self.assertEqual(sorted(gpu.compiled() - ready), [])
                self.assertEqual(gpu.server.stop()[0], 0)

    def test_without_it_requests_compile(self):
        with tempfile.TemporaryDirectory() as folder:
            gpu = Gpu(folder, serving.MODELS / "dense-untied", "--no-warm-up")
            ready = gpu.compiled()
            self.assertEqual(gpu.answer(3, 3), [200] * 3)
            self.assertGreater(len(gpu.compiled() - ready), 5)
            self.assertEqual(gpu.server.stop()[0], 0)


if __name__ == "__main__":
    serving.use(*sys.argv[1:4])
    if assembler() is None:
        print("tileiras was not found: run tessera get-tileiras")
        sys.exit(1 if os.environ.get("TESSERA_REQUIRE_TILEIRAS") else 77)
    DRIVER = pathlib.Path(sys.argv[4]).resolve()
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
