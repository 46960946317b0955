#!/usr/bin/env python3
"""`mortar serve` is killed under load, and started again as systemd does for Restart=always (man 5 systemd.service).

usage: server_restart_test.py MORTAR MODELS TEMPLATES

It must answer again on the same port within the time that it takes to load, and must not wait for what the killed one has left behind: connections
in TIME_WAIT, a port, files. It needs nothing but Python.
"""
import http.client
import json
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import serving

RESTART_SECONDS = 0.1  # systemd's default of RestartSec
MARGIN = 30.0  # seconds on a busy machine; a port whose connections are in TIME_WAIT would take 60
ROUNDS = 4
STARTS, START_SECONDS = 5, 10  # systemd's defaults of StartLimitBurst and StartLimitIntervalSec: more starts are none


class Supervisor(threading.Thread):
    """Restart=always: whatever ends the process, it is started again RestartSec later, unless it ends too often."""

    def __init__(self, command):
        super().__init__(daemon=True)
        self.command, self.stopped, self.starts, self.codes = command, False, [], []
        self.process = None
        self.log = tempfile.TemporaryFile()
        self.start()

    def run(self):
        while not self.stopped and sum(time.monotonic() - start < START_SECONDS for start in self.starts) < STARTS:
            self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
            self.starts.append(time.monotonic())
            self.codes.append(self.process.wait())
            if not self.stopped:
                time.sleep(RESTART_SECONDS)

    def stop(self):
        self.stopped = True
        self.process.send_signal(signal.SIGTERM)
        self.join(30)

    def text(self):
        self.log.seek(0)
        return self.log.read().decode()


def ask(port, timeout=20, **fields):
    """The status of an answer; None: no connection, or one that has ended."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        body = {"prompt": "a", "max_tokens": 4, "ignore_eos": True} | fields
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class Load(threading.Thread):
    """A client that asks without end, with streams and without, and never sees an answer that is none of the promised ones."""

    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.port, self.random, self.stopped, self.statuses = port, random.Random(seed), False, []
        self.start()

    def run(self):
        while not self.stopped:
            self.statuses.append(ask(self.port, stream=self.random.random() < 0.5, max_tokens=self.random.randrange(1, 60)))
            time.sleep(0.05)


class Restart(unittest.TestCase):
    def answers_within(self, port):
        """Seconds until a request is answered."""
        start = time.monotonic()
        while ask(port) != 200:
            self.assertLess(time.monotonic() - start, serving.PATIENCE)
            time.sleep(0.01)
        return time.monotonic() - start

    def test_killed_under_load(self):
        with tempfile.TemporaryDirectory() as folder:
            port = serving.free_port()
            supervisor = Supervisor(serving.command(serving.make_model(pathlib.Path(folder) / "small"), port=port))
            load = self.answers_within(port)
            clients = [Load(port, seed) for seed in range(8)]
            back = []
            for number in range(ROUNDS):
                time.sleep(0.3)
                held = socket.create_connection(("127.0.0.1", port))  # says nothing, and is there when the process ends
                supervisor.process.send_signal(signal.SIGKILL)
                while len(supervisor.starts) < number + 2:
                    time.sleep(0.005)
                back.append(self.answers_within(port))
                held.close()
            for client in clients:
                client.stopped = True
            for client in clients:
                client.join(30)
            supervisor.stop()
            self.addCleanup(supervisor.log.close)
            self.assertEqual(supervisor.codes, [-signal.SIGKILL] * ROUNDS + [0], supervisor.text())
            self.assertLess(max(back), load + RESTART_SECONDS + MARGIN, f"loading takes {load} s")
            print(f"loading {load:.2f} s, back after {', '.join(f'{b:.2f}' for b in back)} s")
            statuses = [s for client in clients for s in client.statuses]
            self.assertGreater(statuses.count(200), ROUNDS)
            self.assertLessEqual(set(statuses), {200, 503, None}, "503: the model is being loaded")


if __name__ == "__main__":
    serving.use(*sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
