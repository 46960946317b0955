"""The pages of the reference that come from public headers: the language, the host API, the kernel library.

A page is a list of headers, each with the comment at its top and its public declarations. Which declarations are shown
is decided here: what is documented or stands beside something documented of the same name, and not what only explains
why a call does not compile. Of the kernel library it is what the comment at the top of a header calls, and what the
signatures of those name.
"""
import re
from dataclasses import dataclass, field

import headers
from md import prose, slug, wrapped


@dataclass
class Page:
    name: str
    title: str
    text: str                                     # in front of the headers
    folders: list                                 # of include/tessera
    first: list = field(default_factory=list)     # headers that come first, in this order
    also: list = field(default_factory=list)      # headers of other folders, after those of `folders`
    without: dict = field(default_factory=dict)   # header -> why it is not for users
    shown: dict = field(default_factory=dict)     # header -> classes of hidden namespaces that users meet
    words: dict = field(default_factory=dict)     # names in signatures -> what they stand for
    notes: dict = field(default_factory=dict)     # class -> Markdown after its comment, for what its bases give
    only_called: bool = False                     # the rule of the kernel library


LOCATION = ("Every function that can fail has one more parameter, left out here: `SourceLocation where = "
            "SourceLocation::current()`, last. It is the line that an error names.")

LANGUAGE = Page(
    "language", "Reference: the kernel language",
    "Everything that may stand in a kernel, from the comments of `include/tessera/lang`. "
    "[language.md](../language.md) explains it in order, [semantics.md](../semantics.md) says what each operation means in "
    "corner cases. All of it is in `<tessera/tessera.hpp>`, namespace `tessera`.\n\n" + LOCATION,
    ["lang"],
    first=["tile.hpp", "shape.hpp", "in.hpp", "mut.hpp", "mut_tiles.hpp", "acc.hpp", "constant.hpp", "create.hpp", "ops.hpp", "math.hpp",
           "reduce.hpp", "mma.hpp", "shape_ops.hpp", "gather.hpp", "control.hpp", "reports.hpp"],
    without={"emit.hpp": "the calls behind the language", "trace.hpp": "recording a kernel without the host layer"},
    words={"Padding<T>": "what a load reads outside of its tensor: `pad::zero` and the other names of `pad`, or `pad(value)`",
           "HostNumber": "any arithmetic type of C++ but `bool`",
           "TileOrNumber": "a `Tile` or a `HostNumber`",
           "IndexFor<D>": "an index along one axis: a `Scalar` of integers or an integer",
           "AxisOf<": "the number of an axis: an integer or `axis<A>`"},
    notes={"Mut": "It has the members of [Piece](#piece), or of [JointPiece](#jointpiece) if an extent is no power of two."})

HOST = Page(
    "host", "Reference: the host API",
    "Tensors, operations and launches, from the comments of `include/tessera/host` and of the parts of `base` and `runtime` "
    "that users meet. [host.md](../host.md) explains them in order, [runtime.md](../runtime.md) the ordering between streams. "
    "All of it is in `<tessera/tessera.hpp>`, namespace `tessera`, unless a header is named.\n\n" + LOCATION,
    ["host"],
    first=["tensor.hpp", "create.hpp", "transfer.hpp", "op.hpp", "kernel.hpp", "print.hpp", "npy.hpp", "borrow.hpp", "dlpack.hpp",
           "tune.hpp"],
    also=["runtime/stream.hpp", "runtime/device.hpp", "base/dims.hpp", "base/error.hpp", "measure/measure.hpp", "jit/learning.hpp"],
    without={"collecting.hpp": "for programs that tessera build runs",
             "layout.hpp": "the library's own"},
    shown={"kernel.hpp": ["Kernel"]},
    words={"Read<T, R>": "a tensor that is read: a `Tensor`, `View` or `Shared`, or an `Op` that makes one",
           "Number<T>": "a number that fits the element type T; a floating-point number does not fit an integer",
           "Handle": "a `View` or `Shared`, or an `Op` that makes a `Tensor`",
           "BracedDims<N>": "extents in braces: `{rows, 1024}`",
           "BracedTensor<T, N>": "`Op<Tensor<T, N>>`",
           "AllOf<": "`Op<std::tuple<...>>` of the results, or `Op<void>` where there are none"})

KERNELS = Page(
    "kernels", "Reference: the kernel library",
    "The functions of `include/tessera/kernels`, namespace `tessera::kernels`, from their comments. [kernels.md](../kernels.md) says how "
    "they are configured, how accurate and how fast they are. `#include <tessera/kernels.hpp>` has all headers, "
    "`#include <tessera/kernels/softmax.hpp>` one. Operands that are read may be a `Tensor`, `View` or `Shared` (`Operand`); a tensor "
    "taken as `Tensor<T, R>&&` is given and comes back as the result.\n\n" + LOCATION,
    ["kernels"],
    first=["elementwise.hpp", "reduce.hpp", "argmax.hpp", "top_k.hpp", "softmax.hpp", "rms_norm.hpp", "layer_norm.hpp",
           "softmax_backward.hpp", "norm_backward.hpp", "cross_entropy.hpp", "rope.hpp",
           "dropout.hpp", "embedding.hpp", "transpose.hpp", "quantize.hpp", "matmul.hpp", "gemm.hpp", "linear.hpp", "epilogue.hpp",
           "split_k.hpp", "stream_k.hpp", "batched_gemm.hpp", "grouped_gemm.hpp", "block_scaled_gemm.hpp", "convolution.hpp", "convolution_transposed.hpp",
           "attention.hpp", "attention_backward.hpp", "attention_varlen.hpp", "decode_attention.hpp", "paged_attention.hpp", "moe_route.hpp", "moe_plan.hpp",
           "moe_combine.hpp"],
    words={"Operand": "a `Tensor`, `View` or `Shared`", "element_of<": "the element type of an operand",
           "product_t<U, element_of<A>>": "U, or the operands' element type where U is void"},
    only_called=True)

API_PAGES = [LANGUAGE, HOST, KERNELS]
OWN_NAMESPACES = re.compile(r"\b(?:ir|lang|runtime|jit)::|\bLayout\b|\bOpNode\b|\bArgRef\b")


class Source:
    """The headers of a page, read once; their classes by name; which members have been shown, and of which class."""

    def __init__(self, page, files):
        """`files`: path under include/tessera -> text."""
        self.page = page
        order = {name: k for k, name in enumerate(page.first)}
        own = [p for p in files if p.split("/")[0] in page.folders]
        known = {p.split("/", 1)[1] for p in own}
        for name in [*page.first, *page.without, *page.shown]:
            if name not in known:
                raise headers.Unreadable(f"scripts/docs/api_pages.py: page {page.name} names {name}, which is not there")
        own.sort(key=lambda p: (order.get(p.split("/", 1)[1], len(order)), p))
        self.headers = [headers.read(p, files[p]) for p in [*own, *page.also]]
        self.classes, self.types, self.members = {}, {}, {}
        for h in self.headers:
            self.classes.update(h.hidden)
        for h in self.headers:
            for namespace, ds in h.public.items():
                self.classes.update({d.name: d for d in ds if d.kind == "class"})
                if namespace == "kernels":
                    self.types.update({d.name: d for d in ds if d.kind in ("class", "enum")})


def intro_calls(header, name):
    return re.search(rf"(?<![\w:])(?:kernels::)?{re.escape(name)}\s*[(<]", "\n".join(header.intro)) is not None


def wanted(page, header):
    """(namespace, declarations) of a header that its page shows."""
    out = []
    for namespace, declarations in header.public.items():
        if namespace.split("::")[-1] in ("dlpack", "reductions", "epilogues"):
            continue
        shown = [d for d in declarations if not d.rejects and not (d.name.startswith("operator") and not d.doc)]
        if page.only_called:
            shown = called(header, namespace, shown)
        shown = [d for d in shown if not is_internal(d)]
        if shown:
            out.append((namespace, shown))
    return out


def called(header, namespace, declarations):
    """Of the kernel library: what the header's comment calls, what a macro makes, and what is documented and takes a caller's
    line in a header whose comment calls something; the types that their signatures name; function classes."""
    if namespace.endswith("functions"):
        return [d for d in declarations if d.kind == "class" and d.doc]
    names = {d.name for d in declarations if d.kind == "function" and (intro_calls(header, d.name) or d.from_macro)}
    if not names:
        return []
    names |= {d.name for d in declarations
              if d.kind == "function" and d.doc and d.located and not d.name.startswith(("check_", "expect_"))}
    return [d for d in declarations if d.name in names]


def named_types(source, found):
    """The structs and enumerations of the library that signatures name and that the page has not shown yet."""
    text, out = " ".join(d.signature for _, ds in found for d in ds if d.kind == "function"), []
    for name, d in source.types.items():
        if name not in source.members and re.search(rf"\b{name}\b", text) and not any(d in ds for _, ds in found):
            source.members[name] = name
            out.append(("", [d]))
    return out


def is_internal(d):
    return d.kind in ("function", "value") and OWN_NAMESPACES.search(d.signature.split(" requires(lang")[0]) and "kernel_params_ok" not in d.signature


def spelled(signature):
    """A signature as users read it."""
    s = re.sub(r"std::type_identity_t<(detail::Read<T, R>)>", r"\1", signature)
    s = s.replace("tessera::", "")
    s = s.replace("requires(lang::kernel_params_ok<K>()) ", "")
    return re.sub(r"\bdetail::", "", s)


def broken(signature):
    """A declaration in lines of 96 columns: the template's head, the constraint, the rest, arguments aligned."""
    signature = spelled(signature)
    lines = []
    while (match := re.match(r"template <", signature)):
        end = closing(signature, match.end() - 1) + 1
        lines.append(signature[:end])
        signature = signature[end:].lstrip()
        if signature.startswith("requires"):
            end = constraint_end(signature)
            lines.append("  " + signature[:end])
            signature = signature[end:].lstrip()
    text = signature + ";"
    if len(text) > 96 and "(" in text:
        opening = call_paren(text)
        pad = " " * (opening + 1 if opening < 48 else 4)
        parts = split_args(text[opening + 1:])
        line = text[:opening + 1] + ("" if opening < 48 else "\n" + pad)
        out, width = line, opening + 1 if opening < 48 else 4
        for k, part in enumerate(parts):
            piece = part + ("," if k + 1 < len(parts) else "")
            if k and width + 1 + len(piece) > 96:
                out += "\n" + pad
                width = len(pad)
            elif k:
                out += " "
                width += 1
            out += piece
            width += len(piece)
        text = out
    return "\n".join([*lines, text])


def nesting(text, k):
    """1 if the sign at k opens a bracket, -1 if it closes one. Less and greater stand between spaces; -> closes nothing."""
    c, compares = text[k], text[k - 1:k] == " " and text[k + 1:k + 2] in (" ", "=")
    if c in "([{" or (c == "<" and not compares):
        return 1
    return -1 if c in ")]}" or (c == ">" and not compares and text[k - 1:k] != "-") else 0


def closing(text, i):
    """The index of the bracket that closes the one at i."""
    depth = 0
    for k in range(i, len(text)):
        depth += nesting(text, k)
        if depth == 0:
            return k
    return len(text) - 1


def constraint_end(text):
    i = len("requires")
    if text[i] == "(":
        return closing(text, i) + 1
    match = re.match(r"requires\s+!?[\w:]+", text)
    end = match.end()
    return closing(text, end) + 1 if text[end:end + 1] == "<" else end


def call_paren(text):
    """The parenthesis of the parameter list: the first one outside of angles."""
    depth = 0
    for k, c in enumerate(text):
        if c == "(" and depth == 0 and not text[:k].endswith("decltype"):
            return k
        depth += nesting(text, k)
    return text.index("(")


def split_args(text):
    """What stands after an opening parenthesis, split at the commas of the list; the rest stays with the last one."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += nesting(text, k)
        if depth < 0:
            break
        if c == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()]


def code(declarations):
    return "```cpp\n" + "\n".join(broken(d.signature) for d in declarations) + "\n```"


def by_name(declarations):
    """Declarations of one name together, in the order of the first of each."""
    groups = {}
    for d in declarations:
        groups.setdefault(d.name, []).append(d)
    return list(groups.values())


def pattern(group):
    name = group[0].name
    return tuple(re.sub(rf"\b{re.escape(name)}\b", "@", d.signature) for d in group)


def merged(groups):
    """Neighbours without comments that differ in their name only (macros make such) as one: [(names, declarations)]."""
    out = []
    for group in groups:
        documented = any(d.doc for d in group)
        if out and not documented and group[0].from_macro and out[-1][2] == pattern(group):
            out[-1][0].append(group[0].name)
        else:
            out.append(([group[0].name], group, None if documented or group[0].kind != "function" else pattern(group)))
    return [(names, group) for names, group, _ in out]


def docs_of(group):
    return "\n\n".join(prose(d.doc) for d in group if d.doc)


def members_of(d, source, seen=()):
    """The members that users see, those of public bases and those made public by name among them."""
    out = [m for m in d.members if not m.rejects and m.kind in ("function", "value", "enum", "alias") and not is_internal(m)]
    for base, is_public in d.bases:
        if base not in source.classes or base in seen:
            continue
        of_base = members_of(source.classes[base], source, (*seen, d.name))
        own = {m.name for m in out}
        for m in out:
            if not m.doc:  # a member that is declared again: its comment stands in the base
                m.doc = next((b.doc for b in of_base if b.name == m.name and b.doc), m.doc)
        for m in of_base:
            if (is_public and m.name not in own) or m.name in d.reexported:
                out.append(m)
    return out


def class_text(d, source):
    members = members_of(d, source)
    plain = [m for m in members if m.kind == "value" and "static" not in m.signature]
    if d.kind == "enum" or re.search(r"(^|> )struct ", d.signature):
        parts = [fields(d, plain if d.kind != "enum" else d.members)]
    else:
        parts = [code([d])]
    parts += [prose(d.doc)] if d.doc else []
    parts += [wrapped(source.page.notes[d.name])] if d.name in source.page.notes else []
    functions = [m for m in members if m.kind == "function" and not m.name.startswith("operator") and
                 not is_copy(m, d.name) and "= delete" not in m.signature]
    known, bare, documented = {}, [], []
    for group in by_comment(functions):
        owner = source.members.get(tuple(m.signature for m in group))
        if owner and any(m.doc for m in group):
            known.setdefault(owner, []).extend(group)
        elif any(m.doc for m in group):
            names = ", ".join(dict.fromkeys(f"{d.name}::{m.name}" for m in group))
            documented.append(f"#### {names}\n\n{code(group)}\n\n{docs_of(group)}")
        else:
            bare += group
        source.members.setdefault(tuple(m.signature for m in group), d.name)
    parts += [code(bare)] if bare else []
    parts += [f"As [{owner}](#{slug(owner)}) has them:\n\n{code(group)}" for owner, group in known.items()]
    return "\n\n".join(parts + documented)


def by_comment(members):
    """Members of one name together; a member without a comment on the line after a documented one shares its comment."""
    groups = {}
    key, last = None, None
    for m in members:
        shares = not m.doc and last is not None and last.doc_shared and 0 < m.line - last.end <= 1 and m.name not in groups
        if not shares:
            key = m.name
        groups.setdefault(key, []).append(m)
        m.doc_shared = bool(m.doc) or shares
        last = m
    return list(groups.values())


def is_copy(m, name):
    return m.name == name and re.search(rf"\({name}(?:<[^>]*>)?&&|\(const {name}(?:<[^>]*>)?&|= default", m.signature) is not None


def fields(d, values):
    """A struct or an enumeration with its values, their comments after them."""
    if not values:
        return code([d])
    head = spelled(d.signature)
    head = re.sub(r"(template <.*>) (?=struct|class)", r"\1\n", head)
    lines = []
    for v in values:
        text = spelled(v.signature) + ("," if d.kind == "enum" else ";")
        comment = " ".join(v.doc)
        lines += ["  // " + line for line in wrapped(comment).split("\n")] if len(text) + len(comment) > 88 and comment else []
        lines.append("  " + text + (f"  // {comment}" if comment and len(text) + len(comment) <= 88 else ""))
    return "```cpp\n" + head + " {\n" + "\n".join(lines) + "\n};\n```"


def entry(names, group, source, title):
    d = group[0]
    if d.kind in ("class", "enum"):
        return f"### {title}\n\n" + "\n\n".join(class_text(x, source) for x in group)
    doc = docs_of(group)
    if len(names) > 1:
        doc = wrapped("The same signatures with each of these names.") + ("\n\n" + doc if doc else "")
    return f"### {title}\n\n{code(group)}" + (f"\n\n{doc}" if doc else "")


def headings(page):
    """Makes headings that no other heading of the page has: a second `min` becomes `min (reduce)`."""
    used = set()

    def unique(text, header, kind=""):
        if slug(text) in used:
            stem = header.path.split("/")[-1].removesuffix(".hpp")
            choices = [f"{text} ({kind})"] if stem == text else [f"{text} ({stem})", f"{text} ({stem}, {kind})"]
            text = next((t for t in choices if slug(t) not in used), text)
        if slug(text) in used:
            raise headers.Unreadable(f"{header.path}: a second heading {text} on page {page.name}")
        used.add(slug(text))
        return text
    return unique


def api_page(page, files):
    """The page as Markdown."""
    source = Source(page, files)
    unique = headings(page)
    parts = [f"# {page.title}", "\n\n".join(wrapped(p) for p in page.text.split("\n\n"))]
    body = []
    for header in source.headers:
        short = header.path.split("/", 1)[1] if header.path.split("/")[0] in page.folders else header.path
        if short in page.without:
            continue
        found = wanted(page, header)
        hidden = [header.hidden[name] for name in page.shown.get(short, [])]
        if not found and not hidden:
            continue
        body.append(f"## {unique(short, header)}\n\n{prose(header.intro)}")
        if page.only_called:
            found = [*named_types(source, found), *found]
        for namespace, declarations in [*found, ("", hidden)]:
            inner = namespace.removeprefix("kernels").removeprefix("::")
            for names, group in merged(by_name(declarations)):
                title = ", ".join(f"{inner}::{n}" if inner else n for n in names)
                body.append(entry(names, group, source, unique(title, header, group[0].kind)))
    text = "\n\n".join(body)
    missing = [word for word in page.words if word not in text]
    if missing:
        raise headers.Unreadable(f"scripts/docs/api_pages.py: page {page.name} explains {missing[0]}, which no signature has")
    legend = "\n".join(wrapped(f"- `{word + '...>' if word.endswith('<') else word}`: {meaning}.").replace("\n", "\n  ")
                       for word, meaning in page.words.items())
    return "\n\n".join([*parts, "In signatures:", legend, text]) + "\n"
