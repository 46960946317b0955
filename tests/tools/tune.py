"""The tuner from outside: tune.py TESSERA. Records of the library's kernels on the CPU, kept by a second run; a run that
is killed leaves a file that is whole and continues; what the command refuses; a dry run where there is an assembler."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

TESSERA = sys.argv[1]
ENV = dict(os.environ, TESSERA_DEVICE="cpu")
SHAPES = "softmax columns=512 rows=64, rms_norm columns=512 rows=64, gemm n=128".split()


def run(*words, expect=0):
    done = subprocess.run([TESSERA, "tune", *words], env=ENV, capture_output=True, text=True, timeout=240)
    text = done.stdout + done.stderr
    assert done.returncode == expect, f"exit {done.returncode} of tune {' '.join(words)}:\n{text}"
    return text


def check_records(folder):
    file = os.path.join(folder, "cpu.tune")
    text = run("--out", file, *SHAPES)
    assert re.search(r"within 5 %: \d of 3, worst [\d.]+; 0 failed, 0 not begun", text), text
    assert "gemm n=128" in text and "row 0" in text, text
    listed = run("--list", file)
    assert "3 records" in listed and "cpu" in listed and "softmax_row" in listed, listed
    assert run("--out", file, *SHAPES).count("known") == 3
    assert "known" not in run("--out", file, "--again", *SHAPES)
    assert sorted(os.listdir(folder)) == ["cpu.tune", "cpu.tune.lock"], os.listdir(folder)


def check_damage(folder):
    file = os.path.join(folder, "damaged.tune")
    run("--out", file, "softmax", "columns=512", "rows=64")
    with open(file, encoding="utf-8") as f:
        text = f.read()
    with open(file, "w", encoding="utf-8") as f:
        f.write(text.replace('"hints":""', '"hints":"warps=1"'))
    assert "changed by hand" in run("--list", file, expect=1)
    assert "line 2" in run("--out", file, "softmax", "columns=512", "rows=64", expect=1)


def check_kill(folder):
    file = os.path.join(folder, "killed.tune")
    words = ["gemm", "n=512,", "softmax", "columns=4096", "rows=512,", "rms_norm", "columns=4096", "rows=512"]
    for pause in (0.05, 0.3, 0.8):
        child = subprocess.Popen([TESSERA, "tune", "--out", file, *words], env=ENV, stdout=subprocess.DEVNULL)
        time.sleep(pause)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if os.path.exists(file):
            run("--list", file)
    assert "0 failed, 0 not begun" in run("--out", file, *words)
    assert "3 records" in run("--list", file)
    left = [name for name in os.listdir(folder) if name.startswith("killed.tune") and name.endswith(".journal")]
    assert not left, left


def check_refusals():
    assert "there is no kernel" in run("nothing", "n=1", expect=1)
    assert "expected words like" in run("--hints", "speed=9", "--dry-run", "softmax", "columns=512", expect=1)
    assert "KERNEL key=value" in run("--seconds", "never", "gemm", expect=2)
    assert "KERNEL key=value" in run(expect=2)
    assert "no option --limit" in run("--limit", "1", "gemm", expect=2)
    assert "gemm has no argument N, only n=" in run("gemm", "N=64", expect=1)
    assert "expected words like" in run("--hints", "warps=3x", "gemm", "n=64", expect=1)
    assert "layout must be" in run("gemm", "layout=XX", "n=64", expect=1)


def check_dry_run():
    if "no assembler" in subprocess.run([TESSERA, "doctor"], capture_output=True, text=True, timeout=60).stdout:
        print("no assembler here: the dry run was left out")
        return
    text = run("--dry-run", "--gpu", "sm_90", "--hints", "warps=2,8", "softmax", "columns=1024")
    assert text.count(" registers,") == 3 and "3 points: 3 compiled" in text, text


with tempfile.TemporaryDirectory() as temporary:
    check_records(temporary)
    check_damage(temporary)
    check_kill(temporary)
check_refusals()
check_dry_run()
print("ok")
