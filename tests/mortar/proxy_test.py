#!/usr/bin/env python3
"""Runs the configurations of mortar/deploy: nginx and HAProxy in front of one and of two `mortar serve`, as ordinary processes on loopback;
the unit file through systemd-analyze; Prometheus' rules through promtool.

usage: proxy_test.py MORTAR MODELS TEMPLATES FOLDER

FOLDER gets the configurations as they were run. What is changed in them: ports, paths, and the user. Parts whose program is not
installed are skipped, and if none is, returns 77; MORTAR_REQUIRE_CLIENTS=1 makes that a failure.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serving
from serving import Server, make_model

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "mortar" / "deploy"
FOLDER = None
WHOLE = {"stream": False, "stream_options": None}
SECRET = {"Authorization": "Bearer secret-a"}
NGINX = """daemon off;
master_process off;
pid FOLDER/nginx.pid;
error_log FOLDER/nginx-errors.log;
events { worker_connections 512; }
http {
    access_log FOLDER/nginx-access.log;
    client_body_temp_path FOLDER/t1; proxy_temp_path FOLDER/t2; fastcgi_temp_path FOLDER/t3; uwsgi_temp_path FOLDER/t4; scgi_temp_path FOLDER/t5;
    include FOLDER/CONFIGURATION;
}
"""


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def needs(*names):
    """Skips a test whose programs are not installed."""
    missing = [n for n in names if find(n) is None]
    return unittest.skipIf(missing and os.environ.get("MORTAR_REQUIRE_CLIENTS") != "1", f"{', '.join(missing)} is not installed")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def changed(text, *changes):
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement, text)
        assert count, f"there is no {pattern}"
    return text


def stream_of(tokens):
    return {"prompt": "a", "max_tokens": tokens, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}


class Proxy:
    """`kind` is nginx or haproxy; `ports` are those of the servers."""

    def __init__(self, kind, shape, ports):
        for attempt in range(3):
            try:
                return self.start(kind, shape, ports)
            except AssertionError:  # another program may have taken the port
                if attempt == 2:
                    raise

    def start(self, kind, shape, ports):
        self.port = free_port()
        self.socket = tempfile.TemporaryDirectory()  # whose path is short enough for one
        folder = FOLDER / f"{kind}-{shape}-{self.port}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        name = f"{kind}-{shape}.{'conf' if kind == 'nginx' else 'cfg'}"
        servers = [(f"127.0.0.1:{8081 + i}", f"127.0.0.1:{port}") for i, port in enumerate(ports)]
        if kind == "nginx":
            text = changed((DEPLOY / name).read_text(), (r"listen 443 ", f"listen 127.0.0.1:{self.port} "), (r" *listen \[::\]:443 .*\n", ""),
                           (r"/etc/ssl/mortar.crt", str(FOLDER / "certificate.pem")), (r"/etc/ssl/private/mortar.key", str(FOLDER / "key.pem")), *servers)
            (folder / "nginx.conf").write_text(NGINX.replace("FOLDER", str(folder)).replace("CONFIGURATION", name))
            command = [find("nginx"), "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "nginx-errors.log"]
        else:
            text = changed((DEPLOY / name).read_text(), (r"bind :443 ", f"bind 127.0.0.1:{self.port} "), (r" *(user|group) haproxy\n", ""),
                           (r"log /dev/log local0", "log stdout format raw local0"), (r"/etc/haproxy/mortar.pem", str(FOLDER / "both.pem")),
                           *([(r"/run/haproxy/admin.sock", f"{self.socket.name}/s")] if shape == "replicas" else []), *servers)
            command = [find("haproxy"), "-db", "-f", folder / name]
        (folder / name).write_text(text)
        self.output = open(folder / "output", "w+")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.output)
        self.folder = folder
        self.context = ssl.create_default_context(cafile=FOLDER / "certificate.pem")
        for _ in range(6000):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.process.kill()
        self.process.wait()
        self.output.seek(0)
        with self.output:
            raise AssertionError(f"{kind} does not start: {self.output.read()}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(serving.PATIENCE)
        self.output.close()
        self.socket.cleanup()

    def command(self, text):
        """One line to the socket of HAProxy; the answer."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.socket.name}/s")
            s.sendall(text.encode() + b"\n")
            return s.makefile().read()

    def open(self, path, value=None, headers=None):
        """The response of a request, whose body has not been read."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=serving.PATIENCE, context=self.context)
        body = None if value is None else json.dumps(value)
        connection.request("GET" if body is None else "POST", path, body, {"Content-Type": "application/json"} | SECRET | (headers or {}))
        response = connection.getresponse()
        response.own = connection
        return response

    def get(self, path, value=None, headers=None):
        response = self.open(path, value, headers)
        text = response.read().decode()
        response.own.close()
        return response.status, response.headers, text

    @staticmethod
    def tokens_of(response):
        """Reads the answer of a completion: its number of tokens, or what went wrong."""
        text = ""
        try:
            text = response.read().decode()
            response.own.close()
            events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
            if events and events[-1] != "[DONE]":
                return f"cut: {text[-300:]}"
            return json.loads(events[-2] if events else text)["usage"]["completion_tokens"]
        except (OSError, http.client.HTTPException, LookupError, ValueError) as error:
            return f"{response.status}: {text[-300:]} {error!r}"

    def complete(self, tokens, session=None, stream=False):
        """Asks for so many tokens; as tokens_of."""
        try:
            return self.tokens_of(self.open("/v1/completions", {**stream_of(tokens), **({} if stream else WHOLE)}, {"X-Session-Id": session} if session else {}))
        except (OSError, http.client.HTTPException) as error:
            return repr(error)


def setUpModule():
    """A certificate, keys, a model."""
    if find("openssl"):
        make_certificate()
    (FOLDER / "keys").write_text("alice secret-a\n")
    shutil.rmtree(FOLDER / "small", ignore_errors=True)
    make_model(FOLDER / "small")


def make_certificate():
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=mortar.example.org",
                    "-addext", "subjectAltName=IP:127.0.0.1,DNS:mortar.example.org", "-keyout", FOLDER / "key.pem", "-out", FOLDER / "certificate.pem"],
                   check=True, capture_output=True)
    (FOLDER / "both.pem").write_text((FOLDER / "certificate.pem").read_text() + (FOLDER / "key.pem").read_text())


def start(port=0, *words):
    return Server(FOLDER / "small", "--port", port, "--api-key-file", FOLDER / "keys", "--drain", 100, "--max-context", 2048, *words, key="secret-a")


class One:
    """One server behind a proxy."""
    kind = None

    @classmethod
    def setUpClass(cls):
        cls.log = FOLDER / f"{cls.kind}-log"
        cls.log.unlink(missing_ok=True)
        cls.server = start(0, "--log", cls.log)
        cls.proxy = Proxy(cls.kind, "one", [cls.server.port])
        for _ in range(6000):  # HAProxy asks /ready first
            if cls.proxy.get("/ready")[0] == 200:
                break
            time.sleep(0.02)

    @classmethod
    def tearDownClass(cls):
        cls.proxy.stop()
        code, errors = cls.server.stop()
        assert (code, errors) == (0, ""), (code, errors)

    def test_tokens_arrive_as_they_are_computed_and_leaving_ends_the_request(self):
        response = self.proxy.open("/v1/completions", stream_of(1900))
        self.assertEqual((response.status, response.getheader("Content-Type").split(";")[0]), (200, "text/event-stream"))
        for _ in range(3):
            self.assertTrue(response.readline().startswith(b"data: {"))
            self.assertEqual(response.readline(), b"\n")
        self.assertEqual(self.server.metric("mortar_requests_running"), 1)  # the proxy holds nothing back
        response.own.sock.close()
        response.close()
        self.assertTrue(self.server.idle())
        for _ in range(6000):
            cancelled = self.server.metric(r'mortar_requests_ended_total\{[^}]*result="cancelled"\}')
            if cancelled:
                break
            time.sleep(0.02)
        self.assertEqual(cancelled, 1)
        self.assertEqual(self.proxy.complete(5, stream=True), 5)

    def test_request_ids_keys_and_addresses(self):
        _, headers, _ = self.proxy.get("/v1/models", headers={"X-Request-Id": "mine-1"})
        self.assertEqual(headers["X-Request-Id"], "mine-1")
        _, headers, _ = self.proxy.get("/v1/models")
        own = headers["X-Request-Id"]
        self.assertRegex(own, r"^[0-9a-f-]{32,36}$")
        self.assertEqual(self.proxy.get("/v1/models", headers={"Authorization": "Bearer wrong"})[0], 401)
        for _ in range(6000):
            lines = [json.loads(line) for line in self.log.read_text().splitlines()]
            if len([l for l in lines if l["path"] == "/v1/models"]) == 3:
                break
            time.sleep(0.02)
        self.assertIn("mine-1", [l["id"] for l in lines])
        self.assertIn(own, [l["id"] for l in lines])

    def test_bodies_errors_and_routes(self):
        status, _, text = self.proxy.get("/v1/completions", {"prompt": "a " * 1500000, "max_tokens": 1})  # 3 MB
        self.assertEqual((status, json.loads(text)["error"]["type"]), (400, "invalid_request_error"))  # the server has seen it
        for path in ("/metrics", "/state"):
            self.assertEqual(self.proxy.get(path)[0], 404)
            self.assertEqual(self.server.get(path, headers=SECRET)[0], 200)

    def test_the_page(self):
        status, headers, text = self.proxy.get("/")
        self.assertEqual(status, 200)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertIn("<title>Mortar</title>", text)
        value = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}
        name = f"127.0.0.1:{self.proxy.port}"
        self.assertEqual(self.proxy.get("/v1/chat/completions", value, {"Origin": f"https://{name}"})[0], 200)
        self.assertEqual(self.proxy.get("/v1/chat/completions", value, {"Origin": "https://example.org"})[0], 403)


class Replicas:
    """Two servers behind a proxy."""
    kind = None

    @classmethod
    def setUpClass(cls):
        cls.servers = [start() for _ in range(2)]
        cls.proxy = Proxy(cls.kind, "replicas", [s.port for s in cls.servers])

    @classmethod
    def tearDownClass(cls):
        cls.proxy.stop()
        for server in cls.servers:
            code, errors = server.stop()
            assert (code, errors) == (0, ""), (code, errors)

    def counts(self):
        return [s.metric("mortar_requests_total") for s in self.servers]

    def received(self, before):
        return [int(b - a) for a, b in zip(before, self.counts())]

    def test_least_connections(self):
        streams = []
        for _ in range(4):
            streams.append(self.proxy.open("/v1/completions", stream_of(1900)))
            streams[-1].readline()
        self.assertEqual([s.metric("mortar_requests_running") for s in self.servers], [2, 2])
        for stream in streams:
            stream.own.sock.close()
            stream.close()
        for server in self.servers:
            self.assertTrue(server.idle())

    def test_sessions_stay(self):
        long = [{"role": "user", "content": "What is a warp? " * 20}]
        before = self.counts()
        cached = []
        for turn in range(4):
            status, _, text = self.proxy.get("/v1/chat/completions", {"messages": long, "max_tokens": 4}, {"X-Session-Id": "conversation-1"})
            self.assertEqual(status, 200, text)
            cached.append(json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"])
            long += [{"role": "assistant", "content": "x"}, {"role": "user", "content": f"And {turn}?"}]
        self.assertEqual(sorted(self.received(before)), [0, 4])
        self.assertEqual(cached[0], 0)
        self.assertTrue(all(n >= 64 for n in cached[1:]), cached)  # whole pages of the conversation are there
        before = self.counts()
        for n in range(12):
            self.assertEqual(self.proxy.complete(1, session=f"session-{n}"), 1)
        self.assertGreaterEqual(min(self.received(before)), 2)  # sessions are spread

    def test_draining_one_under_load(self):
        """One server ends and comes back while clients ask: no request fails, and answers that have begun are completed."""
        done, failed, stop = [], [], threading.Event()

        def client(number):
            while not stop.is_set():
                result = self.proxy.complete(4, session=f"client-{number}" if number % 2 else None, stream=number > 1)
                (done if result == 4 else failed).append(result)

        def wait_for(more):
            goal = len(done) + more
            for _ in range(6000):
                if len(done) >= goal or failed:
                    return
                time.sleep(0.02)
            self.fail("the clients hang")

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            clients = [pool.submit(client, n) for n in range(4)]
            try:
                wait_for(8)
                long = [self.proxy.open("/v1/completions", stream_of(200)) for _ in range(2)]
                for response in long:
                    self.assertTrue(response.readline().startswith(b"data: {"))
                self.servers[0].process.send_signal(signal.SIGTERM)
                self.assertEqual([self.proxy.tokens_of(response) for response in long], [200, 200])
                self.assertEqual(self.servers[0].process.wait(serving.PATIENCE), 0)
                wait_for(12)
                port = self.servers[0].port
                self.servers[0].stop()
                self.servers[0] = start(port)
                for _ in range(6000):
                    if self.servers[0].metric("mortar_requests_total") >= 3 or failed:
                        break
                    time.sleep(0.02)
                self.assertEqual(failed, [])
                self.assertGreaterEqual(self.servers[0].metric("mortar_requests_total"), 3)  # it takes part again
            finally:
                stop.set()
                for f in clients:
                    f.result()
        self.assertEqual(failed, [])

    def test_no_server(self):
        with contextlib.ExitStack() as stack:
            taken = [stack.enter_context(socket.socket()) for _ in range(2)]
            for s in taken:
                s.bind(("127.0.0.1", 0))  # held, and without a listener
            ports = [s.getsockname()[1] for s in taken]
            for shape, count in (("replicas", 2), ("one", 1)):
                self.check_no_server(shape, ports[:count])

    def check_no_server(self, shape, ports):
        proxy = Proxy(self.kind, shape, ports)
        try:
            status, headers, text = proxy.get("/v1/models")
            self.assertEqual((status, headers["Retry-After"], headers["Content-Type"]), (503, "2", "application/json"))
            self.assertEqual(json.loads(text)["error"]["code"], "unavailable")
        finally:
            proxy.stop()


@needs("nginx", "openssl")
class NginxOne(One, unittest.TestCase):
    kind = "nginx"


@needs("haproxy", "openssl")
class HaproxyOne(One, unittest.TestCase):
    kind = "haproxy"


@needs("nginx", "openssl")
class NginxReplicas(Replicas, unittest.TestCase):
    kind = "nginx"


@needs("haproxy", "openssl")
class HaproxyReplicas(Replicas, unittest.TestCase):
    kind = "haproxy"

    def setUp(self):
        """HAProxy asks each server once a second; on a busy machine an answer may come too late for one of them."""
        for _ in range(6000):
            table = self.proxy.command("show stat")
            if len(re.findall(r"(?m)^mortar,(?:one|two),.*,UP,", table)) == 2:
                return
            time.sleep(0.02)
        self.fail(f"HAProxy holds a server for down:\n{table}")

    def test_taking_a_server_out(self):
        """The lines of the page: a server in maintenance gets no request, neither of a session that it had."""
        sessions = [f"taken-{n}" for n in range(4)]
        for state, fewest in (("ready", 1), ("maint", 0), ("ready", 0)):
            self.assertEqual(self.proxy.command(f"set server mortar/one state {state}").strip(), "")
            before = self.counts()
            for session in sessions:
                self.assertEqual(self.proxy.complete(1, session=session), 1)
            first, second = self.received(before)
            self.assertEqual(first + second, 4)
            self.assertGreaterEqual(first, fewest)
            if state == "maint":
                self.assertEqual(first, 0)
        before = self.counts()
        for _ in range(4):
            self.assertEqual(self.proxy.complete(1), 1)
        self.assertGreaterEqual(min(self.received(before)), 1)  # it takes part again


class Unit(unittest.TestCase):
    @needs("systemd-analyze")
    def test_systemd_accepts_the_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "mortar@small.service"
            unit.write_text(changed((DEPLOY / "mortar@.service").read_text(), ("/usr/local/bin/mortar", str(serving.MORTAR))))
            done = subprocess.run([find("systemd-analyze"), "verify", "--man=no", unit], capture_output=True, text=True, check=False)
            own = [line for line in done.stderr.splitlines() if "mortar" in line]  # not what it says about other units
            self.assertEqual((done.returncode, own), (0, []))
            done = subprocess.run([find("systemd-analyze"), "security", "--offline=true", "--no-pager", "--threshold=20", unit], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)  # 20: an exposure of 2.0

    def test_the_command_runs(self):
        """The command of the unit with the variables of example.env serves; each variable is an option, and the drain is shorter than the stop."""
        unit = (DEPLOY / "mortar@.service").read_text()
        variables = dict(line.split("=", 1) for line in (DEPLOY / "example.env").read_text().splitlines() if not line.startswith("#"))
        options = subprocess.run([serving.MORTAR, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        for name in set(variables) | set(re.findall(r"^Environment=(MORTAR_\w+)", unit, re.M)):
            if name != "MODEL":
                self.assertRegex(options, rf"--{name.removeprefix('MORTAR_').lower().replace('_', '-')}\b")
        self.assertGreater(int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)[1]), int(variables["MORTAR_DRAIN"]) + 10)
        variables |= {"MODEL": str(FOLDER / "small"), "MORTAR_PORT": "0", "MORTAR_DEVICE": "cpu", "MORTAR_API_KEY_FILE": str(FOLDER / "keys")}
        words = [variables["MODEL"] if w == "${MODEL}" else w for w in re.search(r"^ExecStart=(.*)$", unit, re.M)[1].split()]
        process = subprocess.Popen([serving.MORTAR, *words[1:]], env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")} | variables, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.assertRegex(process.stdout.readline(), r"^ready: http://127\.0\.0\.1:\d+  qwen3-8b ")
        process.send_signal(signal.SIGTERM)
        self.assertEqual((process.communicate(timeout=serving.PATIENCE)[1], process.returncode), ("", 0))


class Rules(unittest.TestCase):
    @needs("promtool")
    def test_promtool_accepts_the_rules(self):
        for words in (["check", "rules", DEPLOY / "prometheus-rules.yml"], ["test", "rules", pathlib.Path(__file__).with_name("prometheus_rules_test.yml")]):
            done = subprocess.run([find("promtool"), *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_metrics_are_there(self):
        """Every metric of the rules is one that a server has."""
        server = start()
        ask = lambda value: server.post("/v1/completions", value, **SECRET)[0]
        self.assertEqual([ask({"prompt": "a", "max_tokens": 3}), ask({"prompt": "a", "max_tokens": -1})], [200, 400])
        have = set(re.findall(r"^(mortar_\w+)", server.get("/metrics")[2], re.M))
        server.stop()
        used = set(re.findall(r"(?<!:)\bmortar_\w+", re.sub(r"#.*", "", (DEPLOY / "prometheus-rules.yml").read_text())))
        self.assertGreater(len(used), 8)  # names of rules have a colon
        self.assertLessEqual(used, have)


if __name__ == "__main__":
    programs = ("nginx", "haproxy", "systemd-analyze", "promtool")
    if not any(map(find, programs)):
        print(f"skipped: none of {', '.join(programs)} is installed; scripts/test.sh --full gets them")
        sys.exit(1 if os.environ.get("MORTAR_REQUIRE_CLIENTS") == "1" else 77)
    serving.use(*sys.argv[1:4])
    FOLDER = pathlib.Path(sys.argv[4]).resolve()
    FOLDER.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
