"""A running `mortar serve` with a small model on the CPU: what the tests of the server share."""
import atexit
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

MORTAR = MODELS = TEMPLATES = None
CONTEXT = 2048
PATIENCE = 120  # seconds for what is to happen: far more than it takes on a busy machine


def use(mortar, models, templates):
    """The paths that tests get from CMake: the program, and the folders tests/mortar/data/models and templates."""
    global MORTAR, MODELS, TEMPLATES
    MORTAR, MODELS, TEMPLATES = (pathlib.Path(p).resolve() for p in (mortar, models, templates))


def make_model(folder, template="qwen3.jinja", name="dense-untied"):
    """A small checkpoint with a published chat template."""
    shutil.copytree(MODELS / name, folder, ignore=shutil.ignore_patterns("golden"))
    shutil.copy(TEMPLATES / template, folder / "chat_template.jinja")
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": 4096}  # its tokens are short
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def command(model, *words, port=0):
    """The command line; what `words` say of the port and the context counts."""
    words = [str(w) for w in words]
    for option, value in (("--port", port), ("--max-context", CONTEXT), ("--device", "cpu")):
        words += [] if option in words else [option, str(value)]
    return [str(MORTAR), "serve", str(model), "--quiet", *words]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def eventually(condition, seconds=PATIENCE):
    """Waits until the condition holds; false if that does not happen."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Server:
    """`mortar serve` on a free port of the loopback interface, once it is ready."""

    def __init__(self, model, *words, env=None, key=None):
        """With `key`, the state is requested with that API key."""
        self.key = key
        variables = {k: v for k, v in os.environ.items() if not k.startswith("MORTAR_")} | (env or {})
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command(model, *words), stdout=subprocess.PIPE, stderr=self.errors, env=variables, text=True)
        atexit.register(self.process.kill)  # a test that fails stops no server
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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, body, {"Content-Type": "application/json"} | (headers or {}))
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, dict(response.getheaders()), text

    def post(self, path, value, **headers):
        status, _, text = self.get(path, "POST", json.dumps(value), headers)
        return status, json.loads(text)

    def metric(self, pattern):
        status, _, text = self.get("/metrics")
        if status != 200:
            raise AssertionError(f"/metrics: {status} {text}")
        found = re.search(r"(?m)^" + pattern + r"(?:\{[^}]*\})? (\S+)$", text)
        return float(found[1]) if found else 0.0

    def state(self):
        status, _, text = self.get("/state", headers={"Authorization": f"Bearer {self.key}"} if self.key else None)
        if status != 200:
            raise AssertionError(f"/state: {status} {text}")
        return json.loads(text)

    def accepts(self):
        """Whether it takes connections."""
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def idle(self, seconds=PATIENCE):
        """Waits until nothing runs; false if that does not happen."""
        def rests():
            state = self.state()
            return state["running"] == 0 and state["waiting"] == 0

        return eventually(rests, seconds)

    def files(self):
        """Open files of the process."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        """Bytes of the process that are in memory."""
        return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) * 1024

    def stop(self, seconds=PATIENCE):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds)
        self.process.stdout.close()
        text = self.error_text()
        self.errors.close()
        return code, text
