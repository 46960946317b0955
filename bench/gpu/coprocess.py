"""gpu_bench as a co-process that measures one case after the other: its tensors and kernels are created once."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
from side import Side  # noqa: E402


class Bench:
    """Starts at the first use, and again after it has ended or did not answer in time."""

    def __init__(self, program, ms, device="cuda", tuning=None, checked=True):
        """`ms`: the length of one measurement. `tuning`: its TESSERA_TUNING ("": none); None: ours.
        `checked`: results are compared with the reference, which may take seconds."""
        command = [program] + ([] if checked else ["--unchecked"]) + ["--device", device, "--ms", str(ms), "--serve"]
        words = os.environ.get("TESSERA_TUNING", "") if tuning is None else tuning
        self.side = Side(command, {"TESSERA_TUNING": words}, removed=() if words else ("TESSERA_TUNING",))

    @property
    def description(self):
        """What gpu_bench says of its device; empty before the first use."""
        return self.side.description

    def run(self, command, seconds=90):
        """Its answer, a dictionary; "failed" has the reason if there is none."""
        return self.side.ask(f"run {command}", seconds)

    def close(self):
        self.side.close()
