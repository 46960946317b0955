#!/usr/bin/env python3
"""Runs `mortar load` against a server of this script: rows, charts, exit codes.

usage: load_command_test.py MORTAR
"""
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.dom.minidom

MORTAR = None


class Server(http.server.BaseHTTPRequestHandler):
    """OpenAI's routes, as far as `mortar load` uses them: a word is a token, an answer has max_tokens."""
    protocol_version = "HTTP/1.1"
    status, seen = 200, []

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        Server.seen.append(dict(self.headers))
        self.answer({"data": [{"id": "a<b"}]})

    def chunk(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = sum(len(m["content"].split()) for m in body["messages"])
        if self.path == "/tokenize":
            return self.answer({"count": words + 5})
        if Server.status != 200:
            return self.answer({"error": {"message": "no room"}}, Server.status)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(body["max_tokens"]):
            self.chunk("data: " + json.dumps({"choices": [{"delta": {"content": f"w{i} "}}]}) + "\n\n")
            time.sleep(0.002)
        usage = {"prompt_tokens": words + 5, "completion_tokens": body["max_tokens"]}
        self.chunk("data: " + json.dumps({"choices": [], "usage": usage}) + "\n\ndata: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")


class Load(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        cls.server.daemon_threads = True
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.url = f"http://127.0.0.1:{cls.server.server_port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()

    def setUp(self):
        Server.status, Server.seen = 200, []

    def run_load(self, *words, code=0, env=None):
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("MORTAR_", "OPENAI_"))} | (env or {})
        done = subprocess.run([MORTAR, "load", *map(str, words)], capture_output=True, timeout=60, env=variables, check=False)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return done.stdout.decode(), done.stderr.decode()

    def test_rows_and_chart(self):
        with tempfile.TemporaryDirectory() as folder:
            chart = pathlib.Path(folder) / "load.svg"
            out, err = self.run_load(self.url, "--concurrency", "1,3", "--requests", 6, "--prompt-tokens", 40, "--max-tokens", 4,
                                     "--json", "--svg", chart)
            rows = [json.loads(line) for line in out.splitlines()]
            self.assertEqual([row["concurrency"] for row in rows], [1, 3])
            for row in rows:
                self.assertEqual((row["model"], row["requests"], row["errors"]), ("a<b", 6, {}))
                self.assertEqual((row["prompt_tokens"], row["output_tokens"]), (240, 24))
                for name in ("first_token_ms", "between_tokens_ms", "per_token_ms", "request_ms"):
                    p = row[name]
                    self.assertLessEqual(p["p50"], p["p90"])
                    self.assertLessEqual(p["p95"], p["p99"])
                    self.assertLessEqual(p["p99"], p["max"])
            self.assertIn("35 words are 40 tokens", err)
            texts = [t.firstChild.data for t in xml.dom.minidom.parse(str(chart)).getElementsByTagName("text")]
            self.assertIn("a<b: output tokens per second", texts)
            self.assertIn("3 clients", texts)

    def test_table_and_rate(self):
        out, err = self.run_load(self.url, "--rate", 200, "--requests", 5, "--max-tokens", 2, "--quiet")
        self.assertEqual(len(out.splitlines()), 3)
        self.assertIn("| 200 requests/s ", out)
        self.assertEqual(err, "")

    def test_key(self):
        for env in ({"MORTAR_API_KEY": "k"}, {"OPENAI_API_KEY": "k"}, {"MORTAR_API_KEY": "k", "OPENAI_API_KEY": "other"}):
            Server.seen = []
            self.run_load(self.url + "/v1", "--requests", 1, "--max-tokens", 1, env=env)
            self.assertEqual(Server.seen[0]["Authorization"], "Bearer k")

    def test_errors(self):
        Server.status = 503
        out, err = self.run_load(self.url, "--requests", 3, "--json", code=1)
        self.assertEqual(json.loads(out)["errors"], {"status 503": 3})
        self.assertIn("the first status 503: no room", err)
        self.assertIn("no request was answered", err)
        _, err = self.run_load("http://127.0.0.1:1", code=1)
        self.assertIn("connect", err)
        _, err = self.run_load("localhost", code=1)
        self.assertIn("expected an address such as", err)
        for words in ((), (self.url, "--concurrency", "0"), (self.url, "--rate", "0"), (self.url, "--rate", "1", "--concurrency", "1")):
            self.run_load(*words, code=2)
        self.run_load(self.url, "--svg", "/no/such/folder/x.svg", code=1)


if __name__ == "__main__":
    MORTAR = sys.argv.pop(1)
    unittest.main()
