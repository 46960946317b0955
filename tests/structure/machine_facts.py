"""Facts about GPUs stand in one place: src/machine and include/tessera/machine. No other source has numbers of SMs,
registers or shared memory of its own, or a table by compute capability.

    machine_facts.py             check the project
    machine_facts.py --selftest  check that what is wrong is found
"""
import re
import sys

import tree

HOME = ("src/machine/", "include/tessera/machine/")
# A constant that is named as a fact of a GPU, with a number of its own. (?<!:): not machine::kRegisters.
CONSTANT = re.compile(r"(?<![:\w])k(Registers|RegistersAThread|RegisterLimit|RegisterGranule|SharedKib|SharedBytes|ReservedShared|Sms|NumSms"
                      r"|Processors|UsualSms|Partitions|TensorCopies|WarpgroupProducts|DependentLaunch)\s*=\s*\d")
# A row that begins with a compute capability and a number: {90, 132}.
ROW = re.compile(r"\{\s*(80|86|87|88|89|90|100|103|110|120|121)\s*,\s*\d+\s*[,}]")
REGISTERS = re.compile(r"\b65'?536\b|\b64 \* 1024 registers")
# Not of a GPU: registers of the interpreter of scalar programs; sizes of samples; texts of help.
OTHERS = {"src/ir/scalar_program.cpp", "src/analysis/collect_conditions.cpp"}


def problems_of(path, text):
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line.split("//")[0])
        for pattern, what in ((CONSTANT, "a fact about GPUs"), (ROW, "a row of a table of GPUs"), (REGISTERS, "the registers of an SM")):
            if pattern.search(code):
                found.append(f"{path}:{number}: {what}: {line.strip()}")
    return found


def check():
    problems = []
    for path in tree.files(".hpp", ".cpp", ".def"):
        if path.startswith(("src/", "include/", "tools/")) and not path.startswith(HOME) and path not in OTHERS:
            problems += problems_of(path, tree.read(path))
    return problems


def selftest():
    wrong = ["constexpr int kRegisters = 65536;", "  constexpr int kProcessors = 132;  // of an H200", "{80, 108}, {86, 84}", "unsigned r = 65'536;",
             "inline constexpr int kTensorCopies = 90;"]
    right = ["constexpr int kRowRegisters = 16;", "m = machine::kRegisters / 4;", "// 65536 registers", 'text("n=1024..65536")', "f({90, rows})",
             "constexpr unsigned kLimit = machine::kRegistersAThread;"]
    return [f"accepted: {line}" for line in wrong if not problems_of("a.cpp", line)] + [f"rejected: {line}" for line in right if problems_of("a.cpp", line)]


tree.finish(selftest() if "--selftest" in sys.argv else check(),
            "Facts about GPUs are rows of src/machine/machines.def or constants of tessera/machine/machine.hpp (docs/machine.md).")
