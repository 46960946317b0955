#!/usr/bin/env python3
"""`tessera bench` from outside, on the CPU at tiny sizes.

    bench.py TESSERA OWN_BENCH
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

TESSERA, OWN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
SVG = "{http://www.w3.org/2000/svg}"


def run(*words, code=0):
    done = subprocess.run([TESSERA, "bench", *words], capture_output=True, text=True, timeout=300)
    if done.returncode != code:
        sys.exit(f"FAILED: {words} ended with {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def expect(condition, what, text=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{text}")


def quick(*words, code=0):
    return run("--device", "cpu", "--ms", "1", *words, code=code)


def check_table_and_files(folder):
    svg, figures = pathlib.Path(folder, "a.svg"), pathlib.Path(folder, "a.json")
    text = quick("add", "n=1024..8192", "dtype=f32,f16", "--svg", str(svg), "--json", str(figures))
    rows = re.findall(r"^  n=(\d+) dtype=(f\d+) +[\d.e+-]+ ms +[\d.e+-]+ GB/s +[\d.]+ %", text, re.M)
    expect(rows == [(str(1024 << i), t) for t in ("f32", "f16") for i in range(4)], "a row for each size", text)
    runs = json.loads(figures.read_text())["runs"]
    expect(len(runs) == 8 and all(r["ms"] > 0 and r["GB/s"] > 0 and r["roofline_ms"] > 0 for r in runs), "figures", text)
    for r in runs:
        expect(abs(r["GB/s"] - r["bytes"] / r["ms"] / 1e6) < 1e-3 * r["GB/s"], "a rate is bytes by time", str(r))
    root = ElementTree.parse(svg).getroot()
    lines = [line for line in root.iter(SVG + "polyline") if "stroke-dasharray" not in line.attrib]
    expect(len(lines) == 2 and len(list(root.iter(SVG + "circle"))) == 8, "two series of four points")
    width, height = float(root.get("width")), float(root.get("height"))
    for index, line in enumerate(lines):
        points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
        expect(all(0 < x < width and 0 < y < height for x, y in points), "points are inside")
        steps = [b[0] - a[0] for a, b in zip(points, points[1:])]
        expect(max(steps) - min(steps) < 0.21, "doubling is one step to the right")
        rates = [r["GB/s"] for r in runs[4 * index : 4 * index + 4]]
        best = max(range(4), key=rates.__getitem__)
        expect(points[best][1] == min(y for _, y in points), "the highest rate is highest")
    legend = " ".join(t.text for t in root.iter(SVG + "text"))
    expect("dtype=f16" in legend and "roofline" in legend and "GB/s" in legend, "the legend", legend)


def check_own_program():
    text = quick("saxpy", "--", OWN)
    expect(len(re.findall(r"^  n=\d+ .* GB/s", text, re.M)) == 3, "the program's own sizes", text)
    expect("WRONG" in quick("saxpy", "n=1024", "wrong=1", "--", OWN, code=1), "wrong results are reported")
    expect("ended with code 7" in quick("dying", "--", OWN, code=1), "a program that dies is reported")
    expect("saxpy" in run("--list", "--", OWN), "its cases are listed")
    printed = json.loads(quick("saxpy", "n=1024", "--json", "-", "--", OWN))
    expect(printed["runs"][0]["correct"] is True, "JSON alone", str(printed))


with tempfile.TemporaryDirectory() as folder:
    check_table_and_files(folder)
check_own_program()
for kernel in ("softmax", "rms_norm", "layer_norm", "row_sum", "transpose"):
    expect(" GB/s" in quick(kernel, "rows=4", "columns=256", "dtype=bf16"), kernel)
expect(" TFLOP/s" in quick("gemm", "n=64", "dtype=f32"), "gemm")
expect(" GB/s" in quick("linear", "n=64", "k=64", "m=1"), "linear")
expect(" TFLOP/s" in quick("attention", "length=64", "heads=1", "d=64"), "attention")
expect("--most-ms" in quick("add", "n=1024,2048", "dtype=f32", "--most-ms", "0"), "a slow series ends early")
expect("no kernel nothing" in quick("nothing", code=2), "an unknown kernel")
expect("whole number" in quick("add", "n=many", "dtype=f32", code=1), "a size that is no number")
expect("gemm has no argument N" in quick("gemm", "N=64", code=2), "a misspelt argument of the library's")
unread = quick("saxpy", "n=1024", "spare=1", "--", OWN)
expect("warning: saxpy does not read the argument spare" in unread, "an argument that a program's case does not read")
for words in ([], ["--device", "cpu"], ["--ms", "5"]):
    alone = subprocess.run([OWN, *words], capture_output=True, text=True)
    expect(alone.returncode == 2 and "usage:" in alone.stderr, "a program without a command", str(alone))
served = subprocess.run([OWN, "--serve"], input="run \nquit\n", capture_output=True, text=True)
expect(served.returncode == 0 and "there is no case" in served.stdout, "a command without a name", str(served))
expect("wrong=2" in quick("saxpy", "n=1024", "wrong=2", "spare=1", "--", OWN, code=1), "a program's own may be any")
for words, what in (
    (("--ms", "x"), "--ms takes a number"),
    (("--most-ms", "-1"), "--most-ms takes a number"),
    (("--bogus",), "no option --bogus"),
    (("sub",), "found add and sub"),
    (("--device",), "a value after --device"),
    (("n=9..3",), "expected a range such as 1024..65536, found 9..3"),
    (("n=",), "key=low..high, found n="),
    (("n=1024,",), "key=low..high, found n=1024,"),
    (("n=,1024",), "key=low..high, found n=,1024"),
    (("=1024",), "key=low..high, found =1024"),
):
    expect(what in run("add", *words, code=2), f"{words} are rejected by name")
for option in ("--json", "--svg"):
    text = quick("add", "n=1024", option, "/nowhere/file", code=1)
    expect("cannot write /nowhere/file: No such" in text and "GB/s" not in text, "reported before anything is measured", text)
expect("cannot start" in run("x", "--", "/nowhere/program", code=1), "a program that is not there")
expect("tessera bench" in run(code=2) and "tessera bench" in run("add", "--device", code=2) and "tessera bench" in run("--help"), "usage")
print("tables, charts, figures and errors are as they should be")
