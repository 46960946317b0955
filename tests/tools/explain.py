"""`tessera explain` goes on after a kernel that does not compile, names it with its line, and keeps the report apart from what the program
prints.

usage: explain.py TESSERA PROGRAM ASSEMBLER    PROGRAM: that of docs/guide/04-tiles.md; ASSEMBLER: rejecting_assembler.sh
"""
import os
import re
import subprocess
import sys

tessera, program, assembler = sys.argv[1:]


def explain(*words, reject):
    env = {**os.environ, "TESSERA_TILEIRAS": assembler, "TESSERA_CACHE": "0", "REJECT_WORD": reject}
    return subprocess.run([tessera, "explain", *words, "--", program], env=env, capture_output=True, text=True)


def expect(condition, what, run):
    if not condition:
        sys.exit(f"{what}\nexit code {run.returncode}\n--- standard output\n{run.stdout}\n--- standard error\n{run.stderr}")


run = explain(reject="arithmetic")
kernels = re.findall(r"^kernel (\w+) for sm_90$", run.stdout, re.M)
failed = re.findall(r"^  (\w+) at (\S+:\d+) does not compile: .*the assembler rejects the kernel for sm_90 \(exit code 1\): too many warps$",
                    run.stdout, re.M)
expect(run.returncode == 1, "the exit code of a kernel that does not compile", run)
expect([name for name, _ in failed] == ["arithmetic"], "the kernel that does not compile is named", run)
expect({"creation", "arithmetic", "center", "running"} <= set(kernels), "the kernels before and after it are there", run)
expect(re.search(r"tessera explain: 1 of \d+ kernels do not compile", run.stderr), "their number", run)
expect("Tensor<" not in run.stdout and "Tensor<f32, 2> [4, 8] on cpu" in run.stderr, "the program's output is not in the report", run)

run = explain("--kernel", "center", reject="no_kernel_has_this_name")
expect(run.returncode == 0 and re.findall(r"^kernel (\w+) ", run.stdout, re.M) == ["center"], "one kernel", run)
expect("does not compile" not in run.stdout + run.stderr, "it compiles", run)
