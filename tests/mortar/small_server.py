"""`mortar serve` with the small model of the tests, as a process of its own."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time


def make_model(folder, programs, template="qwen3.jinja"):
    """The small checkpoint with a published chat template. `programs` are the paths of mortar, the models and the templates."""
    _, models, templates = programs
    shutil.copytree(models / "dense-untied", folder, ignore=shutil.ignore_patterns("golden"))
    shutil.copy(templates / template, folder / "chat_template.jinja")
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 4096}  # its tokens are short
    (folder / "config.json").write_text(json.dumps(config))
    return folder


class Server:
    """Ready when it is made. `words` are options, of which --port is 0 unless it is among them."""

    def __init__(self, programs, model, *words, env=None):
        variables = {k: v for k, v in os.environ.items() if not k.startswith("MORTAR_")} | (env or {})
        self.errors = tempfile.TemporaryFile()
        words = [str(w) for w in words]
        self.process = subprocess.Popen([programs[0], "serve", model, "--device", "cpu", "--quiet", *([] if "--port" in words else ["--port", "0"]), *words],
                                        stdout=subprocess.PIPE, stderr=self.errors, env=variables, text=True)
        line = self.process.stdout.readline()
        found = re.match(r"ready: http://127\.0\.0\.1:(\d+)  (\S+)  context (\d+)  batch (\d+)\n", line)
        if not found:
            self.process.kill()
            raise AssertionError(f"not ready: {line!r} {self.error_text()}")
        self.port, self.name, self.batch = int(found[1]), found[2], int(found[4])
        self.url = f"http://127.0.0.1:{self.port}"

    def error_text(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def get(self, path, method="GET", body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, {"Content-Type": "application/json"} | (headers or {}))
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, dict(response.getheaders()), text

    def post(self, path, value, **headers):
        status, _, text = self.get(path, "POST", json.dumps(value), headers)
        return status, json.loads(text)

    def metric(self, pattern):
        found = re.search(r"(?m)^" + pattern + r"(?:\{[^}]*\})? (\S+)$", self.get("/metrics")[2])
        return float(found[1]) if found else 0.0

    def idle(self):
        """Waits until nothing runs."""
        for _ in range(200):
            if self.metric("mortar_requests_running") == 0 and self.metric("mortar_requests_waiting") == 0:
                return
            time.sleep(0.05)
        raise AssertionError("sequences still run")

    def stop(self):
        """Its exit code and what it wrote to standard error."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.process.stdout.close()
        text = self.error_text()
        self.errors.close()
        return code, text
