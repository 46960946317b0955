"""`tessera opt`, `tessera verify` and `tessera run`: text and bytecode in, text and bytecode out, passes, runs over arrays, and errors
with their places.

usage: ir_files.py TESSERA FOLDER    FOLDER: for files
"""
import os
import pathlib
import struct
import subprocess
import sys

tessera, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)

PROGRAM = """entry @scale(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) {
  %cst_0_i32 = constant <i32: 0> : tile<i32>
  %0 = addi %arg1, %cst_0_i32 : tile<i32>
  %unused = muli %0, %0 : tile<i32>
  %cst_2_f32 = constant <f32: 2.000000e+00> : tile<f32>
  %bcast = reshape %arg0 : tile<ptr<f32>> -> tile<1xptr<f32>>
  %ptrs = broadcast %bcast : tile<1xptr<f32>> -> tile<64xptr<f32>>
  %iota = iota : tile<64xi32>
  %at = offset %ptrs, %iota : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
  %x, %t = load_ptr_tko weak %at : tile<64xptr<f32>> -> tile<64xf32>, token
  %one = reshape %cst_2_f32 : tile<f32> -> tile<1xf32>
  %two = broadcast %one : tile<1xf32> -> tile<64xf32>
  %y = mulf %x, %two : tile<64xf32>
  %done = store_ptr_tko weak %at, %y token=%t : tile<64xptr<f32>>, tile<64xf32> -> token
  return
} loc("scale.cpp":3:1)
"""
BROKEN = PROGRAM.replace("mulf %x, %two", "mulf %x, %tow").replace("%unused = muli", "%unused = mulj")


def file_of(name, text):
    path = folder / name
    path.write_text(text)
    return str(path)


def run(*words):
    return subprocess.run([tessera, *words], capture_output=True, text=True, env={**os.environ, "TESSERA_CACHE": "0"})


def expect(condition, what, run):
    if not condition:
        sys.exit(f"{what}\nexit code {run.returncode}\n--- standard output\n{run.stdout}\n--- standard error\n{run.stderr}")


scale = file_of("scale.tir", PROGRAM)
plain = run("opt", "--passes", "none", scale)
expect(plain.returncode == 0 and "mulf %result, %bcast_1" in plain.stdout and "loc(" not in plain.stdout, "the text as it is", plain)
again = run("opt", "--passes", "none", file_of("again.tir", plain.stdout))
expect(again.stdout == plain.stdout, "text that was printed is printed as it was", again)
located = run("opt", "--passes", "none", "--locations", scale)
expect('} loc("scale.cpp":3:1)' in located.stdout, "locations", located)

# Text to bytecode to text.
for version in ("13.1", "13.4"):
    bytecode = str(folder / f"scale-{version}.tilebc")
    written = run("opt", "--passes", "none", "--bytecode", version, "-o", bytecode, scale)
    expect(written.returncode == 0 and pathlib.Path(bytecode).read_bytes()[:12] == b"\x7fTileIR\0\x0d" + bytes([int(version[3:]), 0, 0]),
           "bytecode of that version", written)
    back = run("opt", "--passes", "none", bytecode)
    expect(back.stdout == plain.stdout, "the text of the bytecode", back)
    checked = run("verify", bytecode)
    expect(checked.stdout == f"{bytecode}: valid (bytecode {version}, needs 13.1; 1 function, 14 operations)\n", "what is in it", checked)

# Passes.
clean = run("opt", "--passes", "clean_up", scale)
expect(clean.returncode == 0 and "muli" not in clean.stdout and "addi" not in clean.stdout and "optimization_hints" not in clean.stdout,
       "one pass", clean)
until = run("opt", "--until", "clean_up", scale)
expect(until.stdout == clean.stdout, "the passes up to one", until)
whole = run("opt", scale)
expect(whole.returncode == 0 and "optimization_hints=<default = {num_worker_warps_per_cta" in whole.stdout, "the whole pipeline chooses hints", whole)
other = run("opt", "--target", "sm_100", scale)
expect(other.returncode == 0 and "optimization_hints=<" in other.stdout, "another GPU", other)
cpu = run("opt", "--target", "cpu", scale)
expect(cpu.returncode == 0 and "optimization_hints" not in cpu.stdout and "muli" not in cpu.stdout, "the CPU", cpu)
valid = run("verify", file_of("whole.tir", whole.stdout), file_of("clean.tir", clean.stdout))
expect(valid.returncode == 0 and valid.stdout.count(": valid (text, needs 13.") == 2, "what passes make is valid", valid)



# Runs.
def save(name, code, shape, values):
    """A .npy file; `code` is that of struct."""
    kind = {"f": "<f4", "i": "<i4", "d": "<f8", "I": "<u4"}[code]
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path = folder / name
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{code}", *values))
    return str(path)


def load(path, code):
    data = pathlib.Path(path).read_bytes()
    data = data[10 + struct.unpack("<H", data[8:10])[0]:]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


numbers = [n / 4 - 3 for n in range(64)]
array, doubled = save("x.npy", "f", [8, 8], numbers), str(folder / "doubled.npy")
for file in (scale, str(folder / "scale-13.4.tilebc"), str(folder / "clean.tir")):
    pathlib.Path(doubled).unlink(missing_ok=True)
    done = run("run", file, "--with", f"{array}={doubled}", "-7")
    expect(done.returncode == 0 and load(doubled, "f") == [2 * n for n in numbers] and load(array, "f") == numbers, "numbers are doubled", done)
    checked = run("run", "--checked", file, f"{array}={doubled}", "64")
    expect(checked.returncode == 0 and load(doubled, "f") == [2 * n for n in numbers], "checked mode", checked)
bad = run("run", "--checked", scale, save("short.npy", "f", [32], numbers[:32]), "64")
expect(bad.returncode == 1 and "array 1" in bad.stderr, "checked mode finds an access outside the array", bad)
bad = run("run", "--checked", scale, f"f32[64]={doubled}", "64")
expect(bad.returncode == 1 and "load of an element that nothing has written: array 1" in bad.stderr, "checked mode finds a read of what was never written", bad)

BLOCKS = """entry @blocks(%out: tile<ptr<i32>>, %rows: tile<i32>, %columns: tile<i32>, %stride0: tile<i32>, %stride1: tile<i32>, %f: tile<f32>) {
  %x, %y, %z = get_tile_block_id : tile<i32>
  %row = muli %y, %stride0 : tile<i32>
  %column = muli %x, %stride1 : tile<i32>
  %place = addi %row, %column : tile<i32>
  %at = offset %out, %place : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %n = ftoi %f signed : tile<f32> -> tile<i32>
  %ten = muli %rows, %n : tile<i32>
  %v = addi %ten, %place : tile<i32>
  %t = store_ptr_tko weak %at, %v : tile<ptr<i32>>, tile<i32> -> token
  return
}
"""
both = file_of("both.tir", PROGRAM + BLOCKS)
out = str(folder / "blocks.npy")
done = run("run", "--entry", "blocks", "--tensors", "--checked", "--grid", "4,3", both, f"i32[3,4]={out}", "100.5")
expect(done.returncode == 0 and load(out, "i") == [300 + n for n in range(12)], "a grid, extents and strides, a number", done)
done = run("run", "--entry", "blocks", "--grid", "4", both, f"u32[4]={out}", "0", "0", "0", "1", "1")
expect(done.returncode == 0 and load(out, "I") == [0, 1, 2, 3], "unsigned elements", done)
LISTED = """entry @total(%list: tile<ptr<i64>>, %n: tile<i32>, %out: tile<ptr<f32>>, %size: tile<i32>, %stride: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %words = constant <i32: 3> : tile<i32>
  %none = constant <f32: 0.0> : tile<f32>
  %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%before = %none) -> (tile<f32>) {
    %row = muli %i, %words : tile<i32>
    %at = offset %list, %row : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
    %word, %t = load_ptr_tko weak %at : tile<ptr<i64>> -> tile<i64>, token
    %begin = int_to_ptr %word : tile<i64> -> tile<ptr<f32>>
    %last = offset %begin, %one : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %x, %t2 = load_ptr_tko weak %last : tile<ptr<f32>> -> tile<f32>, token
    %next = addf %before, %x : tile<f32>
    continue %next : tile<f32>
  }
  %t3 = store_ptr_tko weak %out, %sum : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""
listed = file_of("listed.tir", LISTED)
pairs = [save(f"pair{i}.npy", "f", [2], [0, 10**i]) for i in range(3)]
for words in (["--tensors", listed, f"[{','.join(pairs)}]", f"f32[1]={out}"], [listed, f"[{','.join(pairs)}]", "3", f"f32[1]={out}", "1", "1"]):
    done = run("run", "--checked", *words)
    expect(done.returncode == 0 and load(out, "f") == [111], "a list of arrays", done)
bad = run("run", "--checked", "--tensors", listed, f"[{pairs[0]},{save('one.npy', 'f', [1], [5])}]", "f32[1]")
expect(bad.returncode == 1 and "load outside" in bad.stderr, "an access outside an array of a list", bad)
bad = run("run", "--checked", listed, f"[{pairs[0]}]", "2", "f32[1]", "1", "1")
expect(bad.returncode == 1 and "load outside list 1: element 3, but it holds 3 elements" in bad.stderr, "an access outside a list", bad)
for words, message in [
    (["--tensors", "--entry", "blocks", both, "i32[1,3,4]", "1.5"],
     "array 1 has more axes than blocks takes: 2 of its extents and strides are left at argument 5 (tile<f32>)"),
    (["--tensors", "--entry", "scale", both, "f32[4,4]"], "array 1 has more axes than scale takes: 3 of its extents and strides are left at the end of its arguments"),
    ([listed, f"[{pairs[0]}", "1", "f32[1]"], "expected a list of arrays such as [x.npy,f32[4,8]=y.npy], found ["),
    ([listed, "[]", "1", "f32[1]"], "expected a list of arrays such as [x.npy,f32[4,8]=y.npy], found []"),
    ([listed, "[f32[4,2],f32[4]]", "1", "f32[1]"], "expected arrays of one rank in a list, found 2 and 1 axes"),
    ([listed, f"[{pairs[0]}]", "1", "[f32[1]]"], "expected an array for an argument of type tile<ptr<f32>>, found the list [f32[1]]"),
    ([both, array, "1"], "expected --entry with one of scale, blocks"),
    (["--entry", "scal", both, array, "1"], "there is no entry scal; expected one of scale, blocks"),
    ([scale, array], "expected a value for argument 1 (tile<i32>) of scale, found 1 values"),
    ([scale, array, "1", "2"], "expected 2 values for the arguments of scale, found 3"),
    ([scale, array, "1.5"], "expected a number of i32, found 1.5"),
    ([scale, "f16[4]", "1"], "expected the element type and extents of a new array, such as f32[4,8], found f16[4]"),
    ([scale, "f32[1099511627776,2]", "1"], "expected an extent, found 2"),
    (["--grid", "4194304,2097152,2097152", scale, array, "1"], "at most 4294967295 blocks in all"),
    (["--grid", "0", scale, array, "1"], "expected a number of blocks for --grid, found 0"),
    ([], "expected a file of Tile IR"),
]:
    bad = run("run", *words)
    expect(bad.returncode == 2 and message in bad.stderr, message, bad)
bad = run("run", scale, save("d.npy", "d", [2], [1, 2]), "1")
expect(bad.returncode == 1 and "expected a .npy file of f32, row-major, found: " in bad.stderr and "holds f64" in bad.stderr, "another element type", bad)

# Errors.
broken = file_of("broken.tir", BROKEN)
bad = run("verify", broken, scale)
expect(bad.returncode == 1 and bad.stderr == f"{broken}:4:13: expected an operation, found `mulj`\n"
       f"{broken}:13:17: expected a value that is defined before its use, found %tow\n" and "scale.tir: valid" in bad.stdout,
       "all problems with their places", bad)
bad = run("opt", broken)
expect(bad.returncode == 1 and bad.stdout == "" and ":4:13: expected an operation" in bad.stderr and ":13:17:" in bad.stderr,
       "an invalid file is not optimized", bad)
cut = folder / "cut.tilebc"
cut.write_bytes((folder / "scale-13.4.tilebc").read_bytes()[:-20])
bad = run("verify", str(cut))
expect(bad.returncode == 1 and f"{cut}, byte " in bad.stderr and "expected" in bad.stderr, "cut bytecode", bad)
invalid = file_of("invalid.tir", PROGRAM.replace("tile<64xi32>\n  %at", "tile<64xi64>\n  %at").replace("64xptr<f32>>, tile<64xi32>", "64xptr<f32>>, tile<64xi64>")
                  .replace("  return\n", ""))
bad = run("verify", invalid)
expect(bad.returncode == 1 and f"{invalid}:1:1: entry @scale: expected a body that ends with return\n" == bad.stderr, "the verifier", bad)
for words, message in [
    (["opt", "--passes", "tidy", scale], "there is no pass tidy"),
    (["opt", "--until", "apply_claims", scale], "the pass apply_claims needs what only a launch knows"),
    (["opt", "--target", "sm_75", scale], "--target takes a GPU such as sm_90, or cpu, found sm_75"),
    (["opt", "--bytecode", "13.9", "-o", "x", scale], "--bytecode takes a version from 13.1 to 13.4, found 13.9"),
    (["opt", "--bytecode", "13.4", scale], "--bytecode needs -o FILE"),
    (["opt", "--passes", "fold", "--until", "clean_up", scale], "expected one of --passes and --until, found both"),
    (["opt"], "expected one file of Tile IR, found 0"),
    (["verify"], "expected files of Tile IR"),
]:
    bad = run(*words)
    expect(bad.returncode == 2 and message in bad.stderr and "tessera " + words[0] in bad.stderr, message, bad)
bad = run("verify", str(folder / "missing.tir"))
expect(bad.returncode == 1 and "cannot open" in bad.stderr, "a file that is not there", bad)
