"""A benchmark as a process: a command is a line, its answer is a line of JSON. Tensors and kernels are created once."""

import json
import os
import select
import subprocess
import sys
import time


# Variables with which a user changes what the compiler chooses, or what it writes.
CHOICES = ("TESSERA_TUNING", "TESSERA_RECORDS", "TESSERA_BUNDLE", "TESSERA_DUMP")


class CannotStart(Exception):
    """A process that ended before it said what it is: it would do so for every case."""


class Side:
    """Starts at the first use, and again after it has ended or did not answer in time."""

    def __init__(self, command, environment=None, removed=CHOICES):
        """`environment`: variables beside those of this process; `removed`: those that it does not get."""
        self.command = command
        self.environment = dict(os.environ, **(environment or {}))
        for word in removed:
            self.environment.pop(word, None)
        self.process = None
        self.rest = b""
        self.description = ""
        self.peer = ""  # the version of PyTorch, of a process that is PyTorch's

    def ask(self, line, seconds=120):
        """The answer, a dictionary; "failed" has the reason if there is none. Raises CannotStart."""
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(self.command, env=self.environment, stdin=pipe, stdout=pipe, stderr=sys.stderr)
            self.rest = b""
            hello = self._answer(120)
            if "failed" in hello:
                if not self.description:
                    raise CannotStart(f"{' '.join(map(str, self.command))}: {hello['failed']}; what it wrote is above")
                return hello
            self.description = hello.get("device", "")
            self.peer = hello.get("torch", "")
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has died: there is no answer either
        return self._answer(seconds)

    def send(self, line):
        """Sends a command to a process that runs already; take() waits for the answer."""
        if self.process is None:
            return self.ask("free")
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass
        return None

    def take(self, seconds=120):
        if self.process is None:
            return {"failed": f"{self.command[0]} has ended"}
        return self._answer(seconds)

    def close(self):
        if self.process is None:
            return
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process = None

    def _answer(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return self._ended(f"did not answer within {seconds} s")
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            if not some:
                return self._ended("ended")
            self.rest += some
        line, self.rest = self.rest.split(b"\n", 1)
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            return self._ended(f"answered {line[:80]!r}")

    def _ended(self, how):
        self.process.kill()
        code = self.process.wait()
        self.process = None
        return {"failed": f"{os.path.basename(self.command[0])} {how} (exit status {code})"}
