#!/usr/bin/env python3
"""`mortar serve` and what goes wrong around it: signals, its log, a step that takes too long, bodies made to cost memory, templates that fail.

usage: server_faults_test.py MORTAR MODELS TEMPLATES

It needs nothing but Python.
"""
import http.client
import json
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import unittest

import serving
from serving import eventually

COMPLETION = {"prompt": "a", "max_tokens": 3, "ignore_eos": True}


class Signals(unittest.TestCase):
    def test_logs_are_opened_anew_and_broken_pipes_are_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            log, old = pathlib.Path(folder) / "log", pathlib.Path(folder) / "log.1"
            server = serving.Server(serving.make_model(pathlib.Path(folder) / "small"), "--log", log)
            self.assertEqual(server.post("/v1/completions", COMPLETION)[0], 200)
            log.rename(old)
            self.assertEqual(server.post("/v1/completions", COMPLETION)[0], 200)
            self.assertFalse(log.exists(), "the old file goes on under its new name")
            self.assertTrue(eventually(lambda: old.read_text().count("\n") == 2))  # a line may come after its answer
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(eventually(log.exists))
            server.process.send_signal(signal.SIGPIPE)
            self.assertEqual(server.post("/v1/completions", COMPLETION)[0], 200)
            self.assertTrue(eventually(lambda: log.read_text().count("\n") == 1))
            self.assertEqual(old.read_text().count("\n"), 2, "nothing more comes there")
            for line in (log.read_text() + old.read_text()).splitlines():
                self.assertEqual(json.loads(line)["status"], 200)
            self.assertEqual(server.stop(), (0, ""))

    def test_connections_of_one_address_are_limited(self):
        with tempfile.TemporaryDirectory() as folder:
            server = serving.Server(serving.make_model(pathlib.Path(folder) / "small"), "--connections-per-address", 2)
            kept = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=serving.PATIENCE) for _ in range(2)]
            for connection in kept:
                connection.request("GET", "/health")
                self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
            status, headers, text = server.get("/health")
            self.assertEqual((status, headers["Retry-After"], json.loads(text)["error"]["code"]), (503, "1", "too_many_connections"))
            kept[0].request("GET", "/health")
            self.assertEqual(kept[0].getresponse().status, 200, "the others are served")
            for connection in kept:
                connection.close()
            self.assertTrue(eventually(lambda: server.get("/health")[0] == 200))
            self.assertEqual(server.stop(), (0, ""))

    def test_a_second_signal_ends_it_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            server = serving.Server(serving.make_model(pathlib.Path(folder) / "small"), "--drain", 600)
            asking = http.client.HTTPConnection("127.0.0.1", server.port)
            asking.request("POST", "/v1/completions", json.dumps(COMPLETION | {"max_tokens": 2000, "stream": True}), {"Content-Type": "application/json"})
            self.assertEqual(asking.getresponse().status, 200)
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(eventually(lambda: not server.accepts()))  # it has the first: two that come at once are one
            server.process.send_signal(signal.SIGTERM)
            code = server.process.wait(300)  # before the time to drain
            self.assertIn(code, (0, 1), "0: the answer has ended by itself before")
            asking.close()
            server.process.stdout.close()
            server.errors.close()


class Steps(unittest.TestCase):
    def test_a_step_that_takes_too_long_ends_the_process(self):
        """The prompt of a model of some size takes longer than its limit, ten times which the first steps have."""
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "large"
            model.mkdir()
            config = json.loads((serving.MODELS / "dense-untied" / "config.json").read_text())
            config |= {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 8, "max_position_embeddings": 4096}
            (model / "config.json").write_text(json.dumps(config))
            shutil.copy(serving.MODELS / "dense-untied" / "tokenizer.json", model)
            server = serving.Server(model, "--random-weights", 1, "--step-limit", 0.01)
            status, body = server.post("/v1/completions", {"prompt": [5] * 1500, "max_tokens": 1})
            self.assertIn(status, (500, 503), body)
            self.assertEqual(body["error"]["code"], "engine_failed")
            self.assertEqual(server.process.wait(serving.PATIENCE), 1)
            self.assertRegex(server.error_text(), r"mortar serve: a step of the engine has not ended within .* s: steps \d+, running \d, waiting \d .*pages held")
            server.process.stdout.close()
            server.errors.close()


class Bodies(unittest.TestCase):
    """Requests that are wrong in ways that cost memory, and a template that fails."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = serving.Server(serving.make_model(pathlib.Path(cls.folder.name) / "small", "qwen3_5.jinja"))

    @classmethod
    def tearDownClass(cls):
        code, errors = cls.server.stop()
        cls.folder.cleanup()
        assert (code, errors) == (0, ""), (code, errors)

    def rejected(self, body, status=400):
        found, _, text = self.server.get("/v1/chat/completions", "POST", body)
        self.assertEqual(found, status, text)
        return json.loads(text)["error"]

    def test_bodies_that_are_no_json(self):
        text = json.dumps({"messages": [{"role": "user", "content": "a"}]})
        for body in (text.encode("utf-16"), text.encode("utf-8-sig"), b'{"messages": NaN}', b"[" * 10**5, b'{"a":' * 10**5, text[:-1].encode()):
            error = self.rejected(body)
            self.assertRegex(error["message"], r"body|JSON|byte|offset|within", error)

    def test_many_keys_cost_a_bounded_amount(self):
        many = ",".join(f'"k{i}":0' for i in range(10**6))
        for _ in range(3):  # every worker has had one
            self.rejected("{" + many + "}")
        before = self.server.memory()
        for _ in range(2):
            self.rejected("{" + many + "}")
        self.assertTrue(eventually(lambda: self.server.memory() - before < 2**26), f"{before} bytes before, now {self.server.memory()}")
        text = '{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, ' + ",".join(f'"k{i}":0' for i in range(10**4)) + "}"
        self.assertEqual(self.server.get("/v1/chat/completions", "POST", text)[0], 200)
        names = re.findall(r'mortar_unknown_fields_total\{[^}]*field="([^"]*)"', self.server.get("/metrics")[2])
        self.assertLessEqual(len(names), 65)

    def test_counts_that_nobody_needs(self):
        message = {"messages": [{"role": "user", "content": "a"}]}
        for field, value in (("n", 10**6), ("stop", ["x"] * 10**5), ("logit_bias", {str(i): 1 for i in range(10**5)}), ("top_logprobs", 10**9)):
            self.assertIn(field, self.rejected(json.dumps(message | {"logprobs": True, field: value}))["param"])

    def test_what_a_template_raises(self):
        error = self.rejected(json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}))
        self.assertEqual(error["param"], "messages")
        self.assertRegex(error["message"], "System message must be at the beginning")


if __name__ == "__main__":
    serving.use(*sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
