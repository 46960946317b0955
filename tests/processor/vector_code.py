#!/usr/bin/env python3
"""Holds the code of the CPU backend's loops for 64-bit ARM against what a compiler is expected to make of it: Advanced
SIMD instructions in every loop that can have them, and in the hottest ones these instructions.

usage: vector_code.py OBJDUMP OBJECT... (those of build/prims)
"""
import re
import subprocess
import sys

# Loops without a vector form: there is no vector instruction that multiplies or divides elements of 64 bits, converts
# them to f32, or calls the C library; copies move whole registers, which are written q0 and not v0.
WITHOUT = re.compile(r"(MulI|MulhiI|DivI|RemI)Op<\S*Int<\(\S*Elem\)4>|IntegerToFloat<\(\S*Elem\)4, \w+, float>|CastOp<|"
                     r"\(anonymous namespace\)")
LOOP = re.compile(r"::(loop|loop_with_one)<|::combine\(|::register_kernel<|::transpose<|Float<\(\S*Elem\)\d+>( >)?(, unsigned \w+, \S+>)?::(load|store)\(")
VECTOR = re.compile(r"\bv\d+\.(16b|8h|4s|2d|8b|4h|2s)")

# Instructions that a function has at least so often.
EXPECTED = [
    (r"::register_kernel<float, 8, 2>", r"^fmla\s+v\d+\.4s", 16, "products of f32: a multiply-add for each sum"),
    (r"::register_kernel<double, 8, 2>", r"^fmla\s+v\d+\.2d", 16, "products of f64"),
    (r"Float<\(\S*Elem\)5>::load\(", r"^fcvtl2?\s", 2, "f16 to f32"),
    (r"Float<\(\S*Elem\)5>::store\(", r"^fcvtn2?\s", 2, "f32 to f16"),
    (r"Float<\(\S*Elem\)6>, unsigned short, \S+>::load\(", r"^(shll|ushll|shl|zip|uxtl)2?\s", 2, "bf16 to f32"),
    (r"::exponential\(|::exponential_loop\(", r"^fmla\s+v\d+\.4s", 5, "exp of f32"),
    (r"::transpose<float>", r"^(trn|zip)[12]\s", 8, "columns of f32 to rows"),
]


def functions(objdump, objects):
    text = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", *objects], capture_output=True, text=True, check=True).stdout
    code = {}
    lines = None
    for line in text.splitlines():
        if head := re.match(r"^[0-9a-f]+ <(.*)>:$", line):
            lines = code.setdefault(head[1], [])
        elif (found := re.match(r"^\s+[0-9a-f]+:\s+(.*)$", line)) and lines is not None:
            lines.append(found[1])
    return {name: lines for name, lines in code.items() if "::prims::baseline::" in name}


def main():
    code = functions(sys.argv[1], sys.argv[2:])
    loops = {name for name in code if LOOP.search(name) and not WITHOUT.search(name) and len(code[name]) > 3}
    problems = [f"no vector instruction in {name}" for name in sorted(loops) if not any(VECTOR.search(i) for i in code[name])]
    for name, instruction, least, what in EXPECTED:
        found = [sum(bool(re.match(instruction, i)) for i in lines) for n, lines in code.items() if re.search(name, n)]
        if max(found, default=0) < least:
            problems.append(f"{what}: expected {least} of {instruction} in a function {name}, found {found}")
    if len(loops) < 100:
        problems.append(f"expected at least 100 loops, found {len(loops)}: are their names other ones now?")
    print("\n".join(problems) or f"{len(loops)} loops have vector instructions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
