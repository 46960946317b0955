"""The tuner from outside: tune.py TESSERA. Records of the library's kernels on the CPU, kept by a second run; a killed run
leaves a valid file and continues; invalid input; a dry run if there is an assembler."""

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


def check_device():
    text = run("--device", "cpu", "softmax", "columns=512", "rows=64")
    assert "on cpu" in text and "0 failed" in text, text
    text = run("--device", "gpu7", "softmax", "columns=512", expect=1)
    assert "gpu7" in text, text
    text = run("--device", "cpu", "--dry-run", "softmax", "columns=512", expect=2)
    assert "--dry-run compiles for --gpu and runs on no device" in text, text


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


SPLIT = (
    "split_k m=64 n=128 k=512 parts=2, split_k m=64 n=64 k=256 layout=TN, stream_k m=320 n=64 k=128 slots=4,"
    " stream_k m=320 n=64 k=128 slots=4 tiles=whole, gemm n=128 dtype=f8e4m3"
).split()
DECODING = (
    "decode batch=2 length=2048 heads=8 kv_heads=2 parts=4, decode batch=2 length=300 heads=8 kv_heads=2 parts=1 d=64,"
    " paged batch=2 length=500 heads=8 kv_heads=2 page=32 parts=2, paged length=64 heads=8 kv_heads=8 page=16 parts=1,"
    " paged batch=2 length=130 heads=8 kv_heads=2 page=64 cache=f8e4m3 parts=1, block_scaled m=70 n=192 k=320"
).split()


def check_every_space(folder):
    """Each candidate gives the default's result: split-K, and contiguous and paged caches."""
    file = os.path.join(folder, "spaces.tune")
    text = run("-v", "--out", file, *SPLIT)
    assert "of 5, worst" in text and "0 failed" in text and "wrong" not in text, text
    text = run("-v", "--out", file, *DECODING)
    assert "of 6, worst" in text and "0 failed" in text and "wrong" not in text, text
    for keys in (64, 128, 256):
        assert len(re.findall(rf"^    {keys} keys", text, re.M)) == 2, text
    listed = run("--list", file)
    for kernel in "split_k stream_k stream_k_whole decode paged block_scaled".split():
        assert re.search(rf"^{kernel}  ", listed, re.M), f"{kernel}:\n{listed}"
    assert "11 records" in listed, listed
    names = run("--list")
    for kernel in "gemm linear split_k stream_k attention decode paged block_scaled softmax rms_norm layer_norm".split():
        assert re.search(rf"^{kernel} ", names, re.M), f"{kernel}:\n{names}"


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


def check_types_of_products():
    for dtype in ("tf32", "f32", "f64"):
        assert "1 of 1" in run("gemm", f"dtype={dtype}", "n=64"), dtype


def check_rejections():
    assert "there is no kernel" in run("nothing", "n=1", expect=1)
    assert "expected words like" in run("--hints", "speed=9", "--dry-run", "softmax", "columns=512", expect=1)
    assert "KERNEL key=value" in run("--seconds", "never", "gemm", expect=2)
    assert "KERNEL key=value" in run(expect=2)
    assert "no option --limit" in run("--limit", "1", "gemm", expect=2)
    assert "gemm has no argument N, only n=" in run("gemm", "N=64", expect=1)
    assert "expected words like" in run("--hints", "warps=3x", "gemm", "n=64", expect=1)
    assert "layout must be" in run("gemm", "layout=XX", "n=64", expect=1)
    assert "dtype must be" in run("gemm", "dtype=i8", "n=64", expect=1)
    assert "parts must be 1 to k" in run("split_k", "m=64", "n=64", "k=64", "parts=65", expect=1)
    assert "tiles must be" in run("stream_k", "m=64", "n=64", "k=64", "tiles=some", expect=1)
    full_waves = "stream_k m=256 n=64 k=64 slots=4".split()
    assert "4 tiles, 4 at a time: none is left for the last wave" in run(*full_waves, expect=1)
    assert "0 failed" in run(*full_waves, "tiles=whole")
    assert "no wave is full" in run("stream_k", "m=64", "n=64", "k=64", "slots=4", "tiles=whole", expect=1)
    assert "multiple of 4 parts of 256 keys" in run("decode", "length=1000", "batch=1", "parts=4", expect=1)
    assert "multiple of kv_heads" in run("decode", "heads=5", "kv_heads=2", expect=1)
    assert "page must be" in run("paged", "page=48", "length=64", expect=1)
    assert "cache must be" in run("paged", "cache=f16", "length=64", expect=1)


def check_dry_run():
    if "no assembler" in subprocess.run([TESSERA, "doctor"], capture_output=True, text=True, timeout=60).stdout:
        print("no assembler here: the dry run was left out")
        return
    text = run("--dry-run", "--gpu", "sm_90", "--hints", "warps=2,8", "softmax", "columns=1024")
    assert text.count(" registers,") == 3 and "3 points: 3 compiled" in text, text
    shapes = "split_k m=512 n=512 k=1024, stream_k n=640 m=4096 k=256, decode length=4096 batch=1 parts=4".split()
    text = run("--dry-run", "--gpu", "sm_90", "--hints", "-", *shapes)
    assert all(line in text for line in ("7 points: 7 compiled", "1 points: 1 compiled", "3 points: 3 compiled")), text


def check_rejected_code():
    """An assembler that rejects hints: without requested hints the fallback form is used, and reported."""
    ENV.update(TESSERA_TILEIRAS=os.path.join(os.path.dirname(__file__), "rejecting_assembler.sh"), TESSERA_CACHE="0")
    text = run("--dry-run", "--gpu", "sm_90", "--hints", "warps=2", "softmax", "columns=1024")
    assert re.search(r"default hints\) +compiled +form bare \(ahead=0 pieces=1 guards=0 pipeline=0 unmask=0 tiles=0 limit=0 hints=0\)\n", text), text
    assert re.search(r"warps=2 +failed .*the assembler rejects", text), text


with tempfile.TemporaryDirectory() as temporary:
    check_records(temporary)
    check_every_space(temporary)
    check_damage(temporary)
    check_kill(temporary)
check_device()
check_rejections()
check_dry_run()
check_rejected_code()
print("ok")
