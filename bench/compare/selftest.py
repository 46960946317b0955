"""Tests the comparison without a GPU: the rules of run.py and the report with scripted sides, and a whole run of one program
against itself on the CPU, at tiny shapes.

    selftest.py COMPARE_BENCH
"""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile

import against_torch
import decision
import run
from side import CannotStart, Side

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
import report


class Scripted:
    """Answers as compare_bench would; `factor(command)` multiplies its times. Writes down who works when."""

    def __init__(self, who, factor, order, wrong=""):
        self.who, self.factor, self.order, self.wrong = who, factor, order, wrong
        self.process, self.case, self.pending = True, "", None

    def ask(self, line, seconds=0):
        verb, _, rest = line.partition(" ")
        if verb == "time":
            self.order.append(self.who)
            return {"ms": 0.02 * int(rest) * self.factor(self.case)}
        if verb == "prepare":
            self.case = rest
            right = rest != self.wrong
            return {"correct": right, "error": 0.5, "tolerance": 0.01, "unwritten": 0, "compiled": 0, "sets": 64, "bytes": 1e7}
        return {"ok": True}

    def send(self, line):
        self.pending = self.ask(line)

    def take(self, seconds=0):
        return self.pending

    def close(self):
        self.order.append("closed")


def scripted_run(factor, wrong="", seconds=60):
    """(exit status, report, order) of 40 cases of which the new build's times are multiplied by factor(command)."""
    order = []
    pair = run.Pair.__new__(run.Pair)
    pair.sides = {"A": Scripted("A", lambda _: 1.0, order), "B": Scripted("B", factor, order, wrong)}
    pair.random = run.random.Random(1)
    pair.factor = {"A": 1.0, "B": 1.0}
    cases = [run.Case(f"case n={n}") for n in range(40)]
    limits = run.Limits(batch_ms=1.0, screen=2)
    run.REST_SECONDS = 0
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        suspects = run.measure(pair, cases, limits, run.time.monotonic() + seconds)
        status = run.report(cases, suspects, limits)
    return status, text.getvalue(), order


def test_rules():
    status, text, order = scripted_run(lambda _: 1.0)
    assert status == 0 and "0 slower" in text and "new / old 1.0000" in text, text
    batches = order[order.index("A") + 4 :]  # after the first four single launches
    assert batches[2:10] == list(decision.ORDER), batches[:12]
    status, text, order = scripted_run(lambda c: 1.05 if c == "case n=7" else 1.0)
    assert status == 1 and "SLOWER 1.050 [1.050, 1.050]" in text and "case n=7" in text and "1 slower" in text, text
    assert order.count("closed") == 2 * decision.RESTARTS, "the second stage has new processes"
    status, text, _ = scripted_run(lambda c: 1.01)
    assert status == 0, "a loss below the margin"
    status, text, _ = scripted_run(lambda c: 0.8 if c == "case n=3" else 1.0)
    assert status == 0 and "faster 0.800" in text, text
    status, text, _ = scripted_run(lambda _: 1.0, seconds=0)
    assert status == 3 and "no time was left for 40 cases" in text, text
    status, text, _ = scripted_run(lambda _: 1.0, wrong="case n=5")
    assert status == 1 and "PROBLEM case n=5: new: WRONG, error 0.5" in text, text


def test_peers():
    """The report of a comparison with PyTorch, and its place among the benchmarks."""
    case = run.Case("matmul type=bf16 layout=NN m=1024 n=1024 k=4096 seed=7", microseconds=100.0, screen=[1.25], bytes=1e7, flops=8.6e9)
    short = run.Case("softmax type=bf16 rows=64 columns=64 seed=8", microseconds=10.0, screen=[0.5], bytes=1e4)
    text = "\n".join(against_torch.summary([case, short], 5))
    assert text.index("0.800") < text.index("2.000") and "1 of 1 products of more than 20 us are below 0.9" in text, text
    assert "products: 1 cases, geometric mean 0.800, least 0.800: matmul" in text and "seed 5" in text, text
    lines = [against_torch.line_of(c, "GPU A", "2.11", 5) for c in (case, short)]
    assert [report.judge(line) for line in lines] == [(False, "0.9 of the best"), (None, "")], lines
    section = report.section(lines, "")
    assert "library at random shapes" in section and "shapes=5" in section and "Least 0.800." in section, section
    kept = report.section([lines[0] | {"group": "gemm"}], "", section)
    assert "m=1024 n=1024 k=4096 shapes=5" in kept.split("library at random shapes")[1], "rows stay until others replace them"


def test_starting():
    """A process that cannot start ends the run: it would be started for each case. One that ends later is started again."""
    broken = Side([sys.executable, "-c", "raise SystemExit(3)"])
    try:
        broken.ask("prepare a")
        raise AssertionError("expected CannotStart")
    except CannotStart as error:
        assert "exit status 3" in str(error), error
    hello = 'import json; print(json.dumps({"device": "cpu"}), flush=True); input()'
    once = Side([sys.executable, "-c", hello])
    answers = [once.ask("prepare a"), once.ask("prepare b")]
    assert all("ended" in a["failed"] for a in answers), answers


def test_program(program):
    """One program on both sides. Its times on a busy processor say nothing, so its verdict does not count here."""
    scripts = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        prepared = [sys.executable, "-B", scripts / "prepare.py", folder, "--old", program, "--new", program]
        subprocess.run([*map(str, prepared), "--tiny", "--count", "8", "--seed", "5"], check=True, stdout=subprocess.DEVNULL)
        measured = [sys.executable, "-B", f"{folder}/run.py", folder, "--device", "cpu", "--sessions", "2", "--batch-ms", "0.1"]
        done = subprocess.run([*measured, "--seconds", "40"], capture_output=True, text=True)
        print(done.stdout, done.stderr)
        assert done.returncode in (0, 1, 3) and "PROBLEM" not in done.stdout, "every result is right"
        assert "of 8 cases: new / old" in done.stdout and "seed 5" in done.stdout
        lines = (pathlib.Path(folder) / "results.jsonl").read_text().splitlines()
        assert len(lines) == 8


def main():
    test_rules()
    test_peers()
    test_starting()
    test_program(sys.argv[1])
    print("what is slower is found, what is equal is not, what is wrong fails")
    return 0


if __name__ == "__main__":
    sys.exit(main())
