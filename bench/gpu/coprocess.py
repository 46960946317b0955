"""gpu_bench as a co-process that measures one case after the other: its tensors and kernels are created once."""

import concurrent.futures
import json
import os
import subprocess
import sys


class Bench:
    """Starts at the first use, and again after it has ended or did not answer in time."""

    def __init__(self, program, ms, device="cuda", tuning=None, checked=True):
        """`ms`: the length of one measurement. `tuning`: its TESSERA_TUNING ("": none); None: ours.
        `checked`: results are compared with the reference, which may take seconds."""
        self.command = [program, "--device", device, "--ms", str(ms), "--serve"]
        if not checked:
            self.command.insert(1, "--unchecked")
        self.environment = dict(os.environ)
        if tuning is not None:
            self.environment["TESSERA_TUNING"] = tuning
        if not self.environment.get("TESSERA_TUNING"):
            self.environment.pop("TESSERA_TUNING", None)
        self.process = None
        self.description = ""

    def run(self, command, seconds=90):
        """Its answer, a dictionary; "failed" has the reason if there is none."""
        if self.process is None:
            self._start()
            if self.process is None:
                return {"failed": "gpu_bench does not start"}
        try:
            self.process.stdin.write(f"run {command}\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has died: there is no answer either
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

    def _start(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self.command, env=self.environment, stdin=pipe, stdout=pipe, stderr=sys.stderr, text=True
        )
        self.description = self._answer(120).get("device", "")

    def _answer(self, seconds):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            line = pool.submit(self.process.stdout.readline)
            try:
                return json.loads(line.result(timeout=seconds))
            except (concurrent.futures.TimeoutError, json.JSONDecodeError):
                self.process.kill()
        code = self.process.wait()
        self.process = None
        return {"failed": f"gpu_bench ended with {code} or did not answer within {seconds} s"}
