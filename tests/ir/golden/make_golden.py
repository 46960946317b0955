#!/usr/bin/env python3
"""Writes every program of cases.txt as bytecode of every version with cuda-tile's own writer (package cuda-tile, NVIDIA).

    make_golden.py [--check GOLDEN] [--output GOLDEN]

The result is the reference of golden_test.cpp. One line per case and version:

    <case> <version> <hex of the file>      what NVIDIA's writer gives
    <case> <version> =<older version>       the same bytes, but for the version number in the header
    <case> <version> unsupported            the version cannot hold the program

Exit codes: 0 written or equal, 1 --check found a difference, 77 cuda-tile is not installed.
"""

import argparse
import inspect
import pathlib
import re
import shlex
import sys

HERE = pathlib.Path(__file__).resolve().parent

try:
    import cuda.tile._bytecode as bc
    from cuda.tile._bytecode import attribute, encodings, type as bctype
except ImportError as error:
    print(f"cuda-tile is not installed ({error}); `scripts/test.sh --full` brings it", file=sys.stderr)
    sys.exit(77)

VERSIONS = [bc.BytecodeVersion.V_13_1, bc.BytecodeVersion.V_13_2, bc.BytecodeVersion.V_13_3, bc.BytecodeVersion.V_13_4]


class Unsupported(Exception):
    """The asked version cannot hold the program."""


def since(comment):
    """130x00 of a `# since 13.x` comment; the first version where there is none."""
    found = re.search(r"# since 13\.(\d+)", comment)
    return 130000 + 100 * (int(found.group(1)) if found else 1)


def op_names():
    """Mnemonic -> name of the encode function, from the table of operations."""
    table = (HERE / "../../../include/tessera/ir/ops.def").read_text()
    names = dict(re.findall(r'^TESSERA_IR_OP\((\w+), "(\w+)"', table, re.M))
    renamed = {"Pow": "FPowF"}  # since 13.4
    return {mnemonic: f"encode_{renamed.get(name, name)}Op" for name, mnemonic in names.items()}


SIMPLE_SINCE = {}
for source_line in inspect.getsource(bctype.SimpleType).splitlines():
    match = re.match(r"\s+(\w+) = b", source_line)
    if match:
        SIMPLE_SINCE[match.group(1)] = since(source_line)

SIMPLE = {"fnv8E5M3FNU": bc.SimpleType.FNV8E5M3FNU}
for element in "i1 i4 i8 i16 i32 i64 f16 bf16 f32 tf32 f64 f8E4M3FN f8E5M2 f8E8M0FNU f4E2M1FN".split():
    SIMPLE[element] = bc.SimpleType[element.upper()]

PADDING = {"-": bc.PaddingValue.Missing, "zero": bc.PaddingValue.Zero, "neg_zero": bc.PaddingValue.NegZero,
           "nan": bc.PaddingValue.Nan, "pos_inf": bc.PaddingValue.PosInf, "neg_inf": bc.PaddingValue.NegInf}

ENUMS = {
    "overflow": {"none": "NONE", "no_signed_wrap": "NSW", "no_unsigned_wrap": "NUW", "no_wrap": "NW"},
    "signedness": {"signed": "Signed", "unsigned": "Unsigned"},
}

# What an absent attribute stands for.
ABSENT = {"exp": {"rounding_mode": "full"}, "tanh": {"rounding_mode": "full"}, "divi": {"rounding": "zero"},
          "ftoi": {"rounding_mode": "nearest_int_to_zero"}}


class Program:
    """Drives one case through a writer."""

    def __init__(self, lines, version, names):
        self.lines = lines
        self.version = version
        self.names = names
        self.values = {}
        self.position = 0

    # -- types ----------------------------------------------------------------------------------------------------

    def simple(self, name):
        kind = SIMPLE[name]
        if self.version < SIMPLE_SINCE[kind.name]:
            raise Unsupported(name)
        return self.types.simple(kind)

    def dims(self, text, sep="x"):
        return [bc.DYNAMIC_SHAPE if d == "?" else int(d) for d in text.split(sep) if d]

    def type(self, text):
        if text == "token":
            return self.types.Token
        kind, _, rest = text.partition(":")
        if kind == "tile":
            element, _, shape = rest.partition(":")
            if element.startswith("ptr."):
                inner = self.types.pointer(self.simple(element[4:]), bc.PtrAttr.Missing)
            else:
                inner = self.simple(element)
            return self.types.tile(inner, self.dims(shape))
        if kind == "view":
            element, shape, strides = rest.split(":")
            return self.types.tensor_view(self.simple(element), self.dims(shape), self.dims(strides),
                                          bc.PtrAttr.Missing)
        return self.tiled_view(kind, rest)

    def tiled_view(self, kind, rest):
        if kind == "part":
            tile, dim_map, padding, view = rest.split(":", 3)
        elif kind == "strided":
            tile, strides, dim_map, padding, view = rest.split(":", 4)
        else:
            tile, sparse, padding, view = rest.split(":", 3)
        if kind != "part" and self.version < bc.BytecodeVersion.V_13_3:
            raise Unsupported(kind)
        view = self.type(view)
        tile = self.dims(tile)
        if kind == "gather":
            return self.types.gather_scatter_view(tile, view, int(sparse), PADDING[padding])
        dim_map = list(range(len(tile))) if dim_map == "-" else self.dims(dim_map)
        if kind == "part":
            return self.types.partition_view(tile, view, dim_map, PADDING[padding])
        return self.types.strided_view(tile, self.dims(strides), view, dim_map, PADDING[padding])

    # -- attributes -----------------------------------------------------------------------------------------------

    @staticmethod
    def dense(text, element):
        """Wire bytes of a constant given as bytes in memory (i1: a byte 0 or 1; tf32: the high end of 32 bits)."""
        form, _, digits = text.partition(":")
        data = bytes.fromhex(digits)
        if element == "i1":
            if form == "splat":
                return b"\xff" if data[0] else b"\x00"
            bits = sum(1 << i for i, b in enumerate(data) if b)
            return bits.to_bytes((len(data) + 7) // 8, "little")
        if element == "tf32":
            words = [int.from_bytes(data[i:i + 4], "little") >> 13 for i in range(0, len(data), 4)]
            return b"".join(w.to_bytes(3, "little") for w in words)
        return data

    def number(self, text):
        element, _, digits = text.partition(":")
        type_id = self.simple(element)
        if element.startswith("i"):
            return bc.Integer(type_id, int(element[1:]), int(digits))
        number = bc.Float(0.0, SIMPLE[element], self.types)
        number.value_bits = int(digits, 16)
        return number

    @staticmethod
    def predicate(text):
        kind, *rest = text.split(":")
        bounds = [None if r == "?" else int(r) for r in rest]
        return bc.DivBy(*bounds) if kind == "divby" else bc.Bounded(*bounds)

    @staticmethod
    def hints(text):
        by_arch = []
        for entry in text.strip("{}").split(","):
            arch, *items = entry.split(":")
            values = []
            for key, value in (item.split("=") for item in items):
                values.append((key, bc.Bool(value == "true") if value in ("true", "false")
                               else bc.Integer.create_i32(int(value))))
            by_arch.append((arch, attribute.Dictionary(values)))
        return bc.OptimizationHints(by_arch)

    def attr(self, op, name, annotation, attrs, result_types):
        """The argument of an encode function for attribute `name` of type `annotation`."""
        text = attrs.get(name)
        if annotation is bool:
            return text not in (None, "false")
        if annotation is int:
            return int(text)
        if annotation is bytes:
            return self.dense(text, result_types[0].split(":")[1])
        if annotation is str:
            return text.encode().decode("unicode_escape")
        described = str(annotation)
        if "OptimizationHints" in described:
            return self.hints(text) if text else None
        if "AssumePredicate" in described:
            return self.predicate(text)
        if "TaggedAttribute" in described:
            return [self.number(n) for n in text.strip("[]").split(",")]
        if "bool" in described:
            count = len([v for v in self.groups.get("index", "").split(",") if v])
            return [v == "true" for v in text.strip("[]").split(",")] if text else [False] * count
        if "int" in described:
            return [int(v) for v in text.strip("[]").split(",")]
        optional = "Optional" in described
        enum = [a for a in annotation.__args__ if a is not type(None)][0] if optional else annotation
        if text is None:
            if optional:
                return None
            text = ABSENT.get(op, {}).get(name, "none" if name == "overflow" else "nearest_even")
        spelled = ENUMS.get("signedness" if enum is encodings.Signedness else name, {}).get(text, text.upper())
        return enum[spelled]

    # -- operations -----------------------------------------------------------------------------------------------

    def operands(self, name, annotation):
        values = [self.values[v] for v in self.groups.get(name, "").split(",") if v]
        if "Sequence" in str(annotation):
            return values
        if "Optional" in str(annotation):
            return values[0] if values else None
        return values[0]

    def results(self, parameter, types, queue):
        """Consumes result types for one `..._type(s)` parameter."""
        if parameter == "result_types":
            taken, queue[:] = [self.type(t) for t in queue], []
            return taken
        return self.type(queue.pop(0)) if queue else None

    def op(self, line):
        left, _, right = line.partition(" ; ")
        attrs = {}
        for word in shlex.split(right, posix=True):
            key, eq, value = word.partition("=")
            attrs[key] = value if eq else "true"
        left, _, types = left.partition(" -> ")
        words = left.split()
        names = []
        if "=" in words:
            names, words = words[:words.index("=")], words[words.index("=") + 1:]
        mnemonic, types = words[0], types.split()
        self.groups = dict(w.split("=") for w in words[1:])
        encode = getattr(encodings, self.names[mnemonic])
        signature = inspect.signature(encode)
        source = inspect.getsource(encode)
        if self.version < since(source.splitlines()[0]):
            raise Unsupported(mnemonic)
        self.builder.cur_debug_attr = self.debug_attr(self.loc)
        arguments, queue = {}, list(types)
        if mnemonic == "print_tko" and not types and self.version >= bc.BytecodeVersion.V_13_2:
            queue = ["token"]
        parameters = list(signature.parameters.values())[1:]
        known = set(self.groups) | set(attrs)
        for p in parameters:  # result types first, then the rest, in the order of first use
            if p.annotation is bc.TypeId or (p.name.endswith(("_type", "_types")) and "TypeId" in str(p.annotation)):
                arguments[p.name] = self.results(p.name, types, queue)
        for p in parameters:
            if p.name in arguments:
                continue
            name = p.name.rstrip("_")
            known.discard(name)
            if "Value" in str(p.annotation) and "PaddingValue" not in str(p.annotation):
                arguments[p.name] = self.operands(name, p.annotation)
            else:
                arguments[p.name] = self.attr(mnemonic, name, p.annotation, attrs, types)
        assert not known, f"{mnemonic}: unknown {known}"
        try:
            result = encode(self.builder, **arguments)
        except (AssertionError, ValueError) as error:
            raise Unsupported(str(error)) from error
        if isinstance(result, encodings.NestedBlockBuilder):
            result = self.regions(result)
        if result is None:
            result = ()
        elif isinstance(result, bc.Value):
            result = (result,)
        self.values.update(zip(names, result))
        return mnemonic

    def regions(self, nested):
        while self.position < len(self.lines) and self.lines[self.position].startswith("{"):
            words = self.lines[self.position].split()[1:]
            self.position += 1
            with nested.new_block([self.type(t) for t in words[1::2]]) as arguments:
                self.values.update(zip(words[0::2], arguments))
                while self.lines[self.position] != "}":
                    self.step()
                self.position += 1
        return nested.done()

    def step(self):
        line = self.lines[self.position]
        self.position += 1
        if line.startswith("loc "):
            self.loc = self.location(line)
            return "loc"
        return self.op(line)

    # -- the module -----------------------------------------------------------------------------------------------

    @staticmethod
    def location(line):
        _, file, row, column = line.split()
        return None if file == "-" else (file, int(row), int(column))

    def debug_attr(self, loc):
        if loc is None or self.entry_loc is None:
            return bc.MISSING_DEBUG_ATTR_ID
        table = self.writer.debug_attr_table

        def file(path):
            directory, _, name = path.rpartition("/")
            return table.file(name, directory)

        home, row, _ = self.entry_loc
        scope_file = file(home)
        scope = table.subprogram(scope_file, row, "kernel", "kernel", table.compile_unit(scope_file), row)
        if loc[0] != home:
            scope = table.lexical_block(scope, file(loc[0]), loc[1], loc[2])
        return table.loc(scope, *loc)

    def define_global(self, line):
        _, name, type_text, data, alignment, *flags = line.split()
        if flags and self.version < bc.BytecodeVersion.V_13_3:
            raise Unsupported("private or constant global")
        visibility = encodings.SymbolVisibility.Private if "private" in flags else encodings.SymbolVisibility.Public
        self.writer.global_section.define_global(
            name, self.type(type_text), self.dense(data, type_text.split(":")[1]), int(alignment),
            constant="constant" in flags, symbol_visibility=visibility)

    def write(self):
        buffer = bytearray()
        self.loc = self.entry_loc = None
        hints, arguments, body = [], [], []
        with bc.write_bytecode(1, buffer, self.version) as self.writer:
            self.types = self.writer.type_table
            for line in self.lines:
                if line.startswith("hints "):
                    hints.append(line.split())
                elif line.startswith("arg "):
                    arguments.append(line.split()[1:])
                elif line.startswith("global "):
                    self.define_global(line)
                elif line.startswith("loc ") and not arguments and not body:
                    self.loc = self.entry_loc = self.location(line)
                else:
                    body.append(line)
            entry_hints = {}
            for _, arch, *items in hints:
                entry_hints[arch] = bc.EntryHints(**{k: int(v) for k, v in (i.split("=") for i in items)})
            types = [self.type(t) for _, t in arguments]
            debug = self.debug_attr(self.loc)
            with self.writer.function("kernel", types, [], True, entry_hints, debug) as (builder, parameters):
                self.builder = builder
                self.values.update(zip((n for n, _ in arguments), parameters))
                self.lines, last = body, None
                while self.position < len(body):
                    last = self.step()
                if last != "return":
                    self.op("return")
        return bytes(buffer)


def read_cases(path):
    cases, current = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("case "):
            current = cases.setdefault(line[5:], [])
        else:
            current.append(line)
    return cases


def golden(path):
    names = op_names()
    lines = [f"# Written by make_golden.py from {path.name} with NVIDIA's cuda-tile; not to be edited."]
    for case, program in read_cases(path).items():
        older = {}
        for version in VERSIONS:
            text = version.as_string()
            try:
                data = Program(list(program), version, names).write()
            except Unsupported:
                lines.append(f"{case} {text} unsupported")
                continue
            rest = data[:9] + data[10:]
            lines.append(f"{case} {text} " + (f"={older[rest]}" if rest in older else data.hex()))
            older.setdefault(rest, text)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=pathlib.Path, metavar="GOLDEN", help="compare instead of writing")
    parser.add_argument("--output", type=pathlib.Path, metavar="GOLDEN", default=HERE / "golden.txt")
    options = parser.parse_args()
    text = golden(HERE / "cases.txt")
    if options.check:
        if options.check.read_text() == text:
            return 0
        print(f"{options.check} differs from what cuda-tile writes: run make_golden.py and look at the difference",
              file=sys.stderr)
        return 1
    options.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
