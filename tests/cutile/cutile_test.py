"""Kernels in cuTile, exported by NVIDIA's package cuda-tile without a GPU, are read, verified, printed, written and run by
the `tessera` command, in checked mode too, with NumPy's numbers; mistakes are found at their Python lines.

usage: cutile_test.py TESSERA FOLDER [NAME ...]    FOLDER: for files; NAME: only these kernels

Exit code 77: cuda-tile or NumPy is not installed.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE / "kernels"), str(HERE / "../ir/golden")]
try:
    import cuda.tile
    import numpy as np
except ImportError as error:
    print(f"cuda-tile is not installed ({error}); `scripts/test.sh --full` brings it", file=sys.stderr)
    sys.exit(1 if os.environ.get("TESSERA_REQUIRE_TILEIRAS") else 77)
import elementwise  # noqa: F401  (its cases)
import memory  # noqa: F401
import mistakes  # noqa: F401
import models  # noqa: F401
import options  # noqa: F401
import parameters  # noqa: F401
import products  # noqa: F401
import rows  # noqa: F401
from elements import ELEMENTS
from make_text import find_disassembler
from launches import CASES, REJECTED, SEVERAL, WRONG, Input, Number, Output, Random, export, export_all, marked_line, name_of, seen, strides

TARGETS = ["cpu", "sm_90", "sm_100"]  # what the compiler's passes are run for: one in each launch of a case
VERSIONS = ["13.1", "13.2", "13.3", "13.4"]  # of bytecode


class Failure(Exception):
    """What differs from what was expected."""


def tessera(*words, fails=False):
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, env={**os.environ, "TESSERA_CACHE": "0"})
    if done.returncode != (1 if fails else 0):
        raise Failure(f"tessera {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if fails else done.stdout


def flat(parameters):
    """Parameters without tuples."""
    for parameter in parameters:
        if isinstance(parameter, tuple):
            yield from flat(parameter)
        else:
            yield parameter


def array_word(parameter, file, outputs):
    """An array on the command line: its file, or its extents if only the kernel writes it."""
    if isinstance(parameter, Input):
        np.save(file, parameter.stored)
        word = str(file)
    else:
        word = f"{ELEMENTS[parameter.element].name}[{','.join(map(str, np.shape(parameter.expected)))}]"
    if parameter.expected is None:
        return word
    outputs.append((parameter, file.with_suffix(".out.npy")))
    return f"{word}={outputs[-1][1]}"


def words_of(launch, folder):
    """The command line of a launch after `tessera run FILE`, and the outputs: parameter, file."""
    parameters = list(flat(launch.parameters))
    # Where the kernel sees a part of an array, extents and strides are given one by one.
    plain = not any(isinstance(p, Input) and p.view for p in parameters)
    values, outputs = [], []
    for i, parameter in enumerate(parameters):
        if isinstance(parameter, Number):
            values.append(repr(parameter.value))
        elif isinstance(parameter, list):
            items = [array_word(item, folder / f"{i}.{j}.npy", outputs) for j, item in enumerate(parameter)]
            values.append(f"[{','.join(items)}]")
        elif isinstance(parameter, (Input, Output)):
            values.append(array_word(parameter, folder / f"{i}.npy", outputs))
            if not plain:
                values += map(str, (*seen(parameter).shape, *strides(seen(parameter))))
    return ["--grid", ",".join(map(str, launch.grid)), *(["--tensors"] if plain else []), "--with", *values], outputs


def compare(parameter, file, what):
    element = ELEMENTS[parameter.element]
    stored = np.load(file)
    expected = np.asarray(parameter.expected)
    if stored.shape != expected.shape or stored.dtype != element.stored:
        raise Failure(f"{what}: expected {expected.shape} of {element.name}, found {stored.shape} of {stored.dtype}")
    found = element.numbers(stored)
    if not element.is_float:
        wrong = found != expected
    else:
        tolerance = getattr(parameter, "tolerance", None) or element.tolerance
        same = np.isnan(found) & np.isnan(expected) | (found == expected)
        with np.errstate(invalid="ignore"):
            wrong = ~same & ~(np.abs(found - expected) <= tolerance * (1 + np.abs(expected)))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Failure(f"{what}: {wrong.sum()} of {wrong.size} elements differ; at {at} expected {expected[at]}, found {found[at]}")


def arguments_of(text):
    """The number of arguments of the only entry of a file of text."""
    return text.read_text().partition("{")[0].count("%arg")


def run(file, launch, folder, *options, more=()):
    words, outputs = words_of(launch, folder)
    tessera("run", *options, file, *words, *more)
    for parameter, output in outputs:
        compare(parameter, output, f"{file.name}, {' '.join(options) or 'run'}, {output.stem}")
        output.unlink()


def check_text(file):
    """The text is that of NVIDIA's tileirdisasm, which loses the sign of f64 identities that the package writes with 65 bits."""
    theirs = subprocess.run([DISASSEMBLER, file], capture_output=True, text=True, check=True).stdout
    ours = tessera("opt", "--passes", "none", file).replace("0xFFF0000000000000 : f64", "0x7FF0000000000000 : f64")
    if ours != theirs:
        different = [f"{a}\n{b}" for a, b in zip(ours.splitlines(), theirs.splitlines()) if a != b]
        raise Failure(f"the text of {file.name} is not that of tileirdisasm:\n" + "\n".join(different[:5]))


def check_fixed_points(file, version, folder):
    """print(parse(x)) is x and write(read(x)) is x. Returns the file of the text."""
    text, again = folder / "text.tir", folder / "again.tir"
    tessera("opt", "--passes", "none", "--locations", "-o", text, file)
    tessera("opt", "--passes", "none", "--locations", "-o", again, text)
    if text.read_bytes() != again.read_bytes():
        raise Failure(f"the text of {file.name} is printed otherwise once it was parsed: {text}, {again}")
    written, twice = folder / "written.tilebc", folder / "twice.tilebc"
    for source, target in ((file, written), (written, twice)):
        tessera("opt", "--passes", "none", "--bytecode", version, "-o", target, source)
    if written.read_bytes() != twice.read_bytes():
        raise Failure(f"the bytecode of {file.name} is written otherwise once it was read: {written}, {twice}")
    return text


def versions_of(kernel, launch, folder):
    """The oldest version and the newest that can hold the kernel."""
    for version in VERSIONS:
        try:
            export(kernel, launch, folder / "kernel.tilebc", version)
            return sorted({version, VERSIONS[-1]})
        except cuda.tile.TileUnsupportedFeatureError:
            continue
    raise Failure("no version of bytecode can hold it")


def check_file(file, version, newest, folder):
    """What holds for a file without running it. Returns its text."""
    if f"valid (bytecode {version}, " not in tessera("verify", file):
        raise Failure(f"{file} is not bytecode {version}")
    if DISASSEMBLER and newest:
        check_text(file)
    return check_fixed_points(file, version, folder)


def check_case(name, kernel, make, folder):
    random = Random(zlib.crc32(name.encode()))
    file = folder / f"{name}.tilebc"
    for shape, target in enumerate(TARGETS):
        launch = make(random)
        for version in versions_of(kernel, launch, folder) if shape == 0 else VERSIONS[-1:]:
            export(kernel, launch, file, version)
            if shape == 0:
                text = check_file(file, version, version == VERSIONS[-1], folder)
            run(file, launch, folder)
        run(file, launch, folder, "--checked")
        optimized = folder / "optimized.tir"
        tessera("opt", "--target", target, "-o", optimized, file)
        # For GPUs the passes may add an argument for the flags of a launch.
        run(optimized, launch, folder, "--checked", more=["0"] * (arguments_of(optimized) - arguments_of(text)))


def check_wrong(name, kernel, make, message, folder):
    for legal in (True, False):
        launch = make(Random(zlib.crc32(name.encode())), legal)
        file = folder / f"{name}.tilebc"
        export(kernel, launch, file, VERSIONS[-1])
        if legal:
            run(file, launch, folder, "--checked")
            continue
        words, _ = words_of(launch, folder)
        error = tessera("run", "--checked", file, *words, fails=True)
        source, line = marked_line(kernel)
        if f"{source}:{line}" not in error or not re.search(message, error):
            raise Failure(f"expected {message!r} at {source}:{line}, found\n{error}")
        if VERBOSE:
            print(f"{name}: {error}", end="")


def check_entries(name, kernel, make, folder):
    """A file with an entry for each of two element types."""
    launches = [make(Random(zlib.crc32(name.encode())), element) for element in ("f32", "f64")]
    file = folder / f"{name}.tilebc"
    export_all(kernel, launches, file, VERSIONS[-1])
    for i, launch in enumerate(launches):
        run(file, launch, folder, "--checked", "--entry", f"{name_of(kernel)}_{i}")


def check_rejected(name, kernel, make, message, folder):
    file = folder / f"{name}.tilebc"
    export(kernel, make(Random(0)), file, VERSIONS[-1])
    error = tessera("verify", file, fails=True)
    source, line = marked_line(kernel)
    if f"{source}:{line}: {message}" not in error:
        raise Failure(f"expected {message!r} at {source}:{line}, found\n{error}")


def attempt(name, check, *rest):
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        check(name, *rest, folder)
        return None
    except Exception as error:  # the others go on
        return f"{name}: {type(error).__name__}: {error}"


def disassembler():
    """NVIDIA's tileirdisasm, or None."""
    try:
        return find_disassembler(None)
    except SystemExit:
        return None


DISASSEMBLER = disassembler()
if DISASSEMBLER is None and os.environ.get("TESSERA_REQUIRE_TILEIRAS"):
    sys.exit("tileirdisasm is missing")
COMMAND, FOLDER, ONLY = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
VERBOSE = bool(ONLY)
kinds = ((check_case, CASES), (check_wrong, WRONG), (check_rejected, REJECTED), (check_entries, SEVERAL))
work = [(name, check, *rest) for check, of_kind in kinds for name, *rest in of_kind]
work = [item for item in work if not ONLY or item[0] in ONLY]
if not work:
    sys.exit(f"no kernel is named {' or '.join(ONLY)}")
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    failures = [failure for failure in pool.map(lambda item: attempt(*item), work) if failure]
print("\n\n".join(failures))
kernels = len({id(kernel) for _, kernel, *_ in CASES})
print(f"{len(work) - len(failures)} of {len(work)} passed: {kernels} kernels that are right, {len(WRONG)} that are wrong")
sys.exit(1 if failures else 0)
