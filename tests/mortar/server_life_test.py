#!/usr/bin/env python3
"""`mortar serve` from its start to its end: loading, full queues, keys, signals, what cannot start.

usage: server_life_test.py MORTAR MODELS TEMPLATES

Skipped as server_test.py.
"""
import concurrent.futures
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import serving
from server_test import openai  # skips where it is not installed
from serving import Server, make_model


class Life(unittest.TestCase):
    """Starts, ends, rejections."""

    def test_full_queue_retries_and_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("alice secret-a\nbob secret-b\n")
            log = pathlib.Path(folder) / "log"
            server = Server(make_model(pathlib.Path(folder) / "small"), "--batch-size", 1, "--max-queue", 1, "--api-key-file", keys, "--log", log,
                            "--name", "mine", env={"MORTAR_PORT": "tcp://10.0.0.1:8080"})
            self.assertEqual(server.name, "mine")
            with self.assertRaises(openai.AuthenticationError):
                openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0).models.list()
            self.assertEqual(server.get("/health")[0], 200)
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="secret-a", max_retries=0)
            patient = openai.OpenAI(base_url=server.url + "/v1", api_key="secret-b", max_retries=100)
            ask = lambda c, n: c.completions.create(model="mine", prompt="a", max_tokens=n, extra_body={"ignore_eos": True})
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                long = [pool.submit(ask, client, 150) for _ in range(4)]
                rejected = [f.exception() for f in long if f.exception()]
                self.assertTrue(rejected and all(isinstance(e, openai.InternalServerError) and e.status_code == 503 for e in rejected), rejected)
                self.assertEqual(rejected[0].response.headers["Retry-After"], "1")
                self.assertEqual(rejected[0].code, "queue_full")
                busy = [pool.submit(ask, client, 60) for _ in range(2)]
                self.assertEqual(ask(patient, 2).usage.completion_tokens, 2)  # tries again by itself
                for f in busy:
                    f.exception()
                # SIGTERM: the stream that runs ends, nothing new begins, the process ends with 0.
                stream = client.completions.create(model="mine", prompt="a", max_tokens=150, stream=True, extra_body={"ignore_eos": True})
                first = next(iter(stream))
                server.process.send_signal(signal.SIGTERM)
                self.assertTrue(serving.eventually(lambda: not server.accepts()))
                with self.assertRaises((openai.InternalServerError, openai.APIConnectionError)):
                    ask(client, 1)
                rest = list(stream)
                self.assertEqual(rest[-1].choices[0].finish_reason, "length")
                self.assertIsNotNone(first)
            code = server.process.wait(serving.PATIENCE)
            self.assertEqual(code, 0, server.error_text())
            server.process.stdout.close()
            server.errors.close()
            client.close()
            patient.close()
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            self.assertIn("alice", {line.get("key") for line in lines})
            self.assertNotIn("secret", log.read_text())

    def test_loading(self):
        """While the model is loaded, the server is alive and not ready."""
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder)
            config = json.loads((serving.MODELS / "dense-untied" / "config.json").read_text())
            config |= {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}  # takes a while to make
            (model / "config.json").write_text(json.dumps(config))
            shutil.copy(serving.MODELS / "dense-untied" / "tokenizer.json", model)
            port = serving.free_port()
            process = subprocess.Popen([serving.MORTAR, "serve", str(model), "--device", "cpu", "--port", str(port), "--quiet", "--random-weights", "1"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            server = Server.__new__(Server)
            server.port = port
            self.assertTrue(serving.eventually(server.accepts))
            seen = server.get("/health")[0], server.get("/ready")[0], server.post("/v1/completions", {"prompt": "a"})
            process.kill()
            process.communicate()
            self.assertEqual(seen[:2], (200, 503))
            self.assertEqual(seen[2][0], 503)
            self.assertEqual(seen[2][1]["error"]["code"], "loading")

    def test_a_cache_in_fp8(self):
        """By the option or its variable: other numbers, near those of bf16; prompts find the pages of others."""
        prompt, seen = {"prompt": list(range(1, 90)), "max_tokens": 8, "temperature": 0, "logprobs": 2, "ignore_eos": True}, {}
        for name, words, env in (("bf16", [], {}), ("f8", ["--kv-dtype", "f8"], {}), ("variable", [], {"MORTAR_KV_DTYPE": "f8"})):
            server = serving.Server(serving.MODELS / "dense-tied", *words, "--batch-size", 2, "--max-context", 256, env=env)
            answers = [server.post("/v1/completions", prompt | {"model": server.name}) for _ in range(2)]  # the second one finds pages
            self.assertEqual([status for status, _ in answers], [200, 200])
            self.assertGreater(answers[1][1]["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            seen[name] = answers[0][1]["choices"][0]["logprobs"]["token_logprobs"]
            self.assertEqual(server.stop()[0], 0)
        self.assertEqual(seen["f8"], seen["variable"])
        self.assertNotEqual(seen["f8"], seen["bf16"])
        self.assertLess(abs(seen["f8"][0] - seen["bf16"][0]), 0.3)

    def test_what_cannot_start(self):
        run = lambda *words: subprocess.run([serving.MORTAR, "serve", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            done = run(serving.MODELS / "dense-tied", "--device", "cpu", "--port", s.getsockname()[1])
            self.assertEqual(done.returncode, 1)
            self.assertIn("127.0.0.1", done.stderr)
        done = run(serving.MODELS / "dense-tied", "--tls-cert", "x")
        self.assertEqual(done.returncode, 2)
        done = run(serving.MODELS / "dense-tied", "--device", "cpu", "--kv-dtype", "f16")
        self.assertEqual(done.returncode, 2)
        self.assertIn('--kv-dtype: expected bf16 or f8, found "f16"', done.stderr)
        done = run(serving.MODELS / "nothing", "--device", "cpu", "--port", 0)
        self.assertEqual(done.returncode, 1)
        self.assertIn("config.json", done.stderr)


if __name__ == "__main__":
    serving.use(*sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
