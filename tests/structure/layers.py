"""Every #include follows the table of docs/layers.md, and CMakeLists.txt declares the same edges. Inside the jit includes follow
the floors of docs/jit.md.

    layers.py             check the project
    layers.py --selftest  check the checker on includes that are known to be right or wrong
"""
import os
import re
import sys

import tree

# Of tests: fuzz feeds the readers of bytes, which are private and in many layers; generate launches without the typed
# host.
ALL_PRIVATE = ("fuzz/", "generate/")
UMBRELLAS = {"tessera.hpp": "host", "kernels.hpp": "kernels", "mesh.hpp": "kernels", "torch.hpp": "torch"}  # public headers that stand in no folder
PUBLIC_ONLY = ("kernels", "mortar", "tools", "examples", "bench", "python")


def table():
    """folder -> set of folders, from the Markdown table."""
    edges = {}
    for row in re.findall(r"^\| `([^`]+)` \|[^|]*\|([^|]*)\|$", tree.read("docs/layers.md"), re.M):
        edges[row[0]] = set(re.findall(r"`([^`]+)`", row[1]))
    return edges


def folder_of(path, edges):
    """The layer that a path below src/ or include/tessera/ belongs to; None if it is in no layer."""
    parts = path.split("/")
    for length in (2, 1):
        if len(parts) > length and "/".join(parts[:length]) in edges:
            return "/".join(parts[:length])
    return None


def problem_of(source, include, edges):
    """Why `source` may not include `include`, or None."""
    top = source.split("/")[0]
    public = include[len("tessera/"):] if include.startswith("tessera/") else None
    target = UMBRELLAS.get(public) or folder_of(public if public is not None else include, edges)
    if target is None:
        return f'"{include}" is in no layer' if public is not None and top != "tests" else None
    if top in PUBLIC_ONLY:
        return f"the private header {include}; {top} uses public headers only" if public is None else None
    if top == "tests":
        own = source[len("tests/"):]
        if public is None and not own.startswith((target + "/",) + ALL_PRIVATE):
            return f"the private header {include}; only tests/{target} may"
        return None
    inner = source[len("include/tessera/"):] if top == "include" else source[len("src/"):]
    own = UMBRELLAS.get(inner) or folder_of(inner, edges)
    if own is None:
        return "the file itself is in no layer"
    if target == own:
        return "a public header includes a private one: " + include if public is None and top == "include" else None
    if public is None:
        return f"the private header {include} of {target}"
    if target not in edges[own]:
        return f"{include}; {own} may include {', '.join(sorted(edges[own])) or 'nothing'}"
    return None


def check(edges):
    problems = []
    for path in tree.files(".hpp", ".cpp", ".def"):
        if path.split("/")[0] not in ("src", "include", "tests") + PUBLIC_ONLY:
            continue
        for number, line in enumerate(tree.read(path).split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if match and "<" in line and not os.path.isfile(os.path.join(tree.ROOT, "src", match.group(1))) and not match.group(1).startswith("tessera/"):
                continue  # another library's, which may have a folder named as one of ours
            if match and path.startswith("tests/") and os.path.isfile(os.path.join(tree.ROOT, "tests", match.group(1))):
                continue  # tests share their own helpers
            if match and (problem := problem_of(path, match.group(1), edges)):
                problems.append(f"{path}:{number}: {problem}")
    declared = {}
    for call in re.findall(r"^tessera_layer\(([^)]*)\)", tree.read("CMakeLists.txt"), re.M):
        name, _, depends = call.partition("DEPENDS")
        declared[name.strip()] = set(depends.split())
    for folder in sorted(set(edges) | set(declared)):
        if edges.get(folder) != declared.get(folder):
            problems.append(f"CMakeLists.txt: tessera_layer({folder}) depends on {declared.get(folder)}, docs/layers.md says {edges.get(folder)}")
    return problems


def floors():
    """The folders of src/jit from the bottom, and the floor of each public header, from the table of docs/jit.md."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", tree.read("docs/jit.md"), re.M)
    return [name for name, _ in rows], {header: name for name, headers in rows for header in re.findall(r"`(\w+\.hpp)`", headers)}


def floor_problem(source, include, order, headers):
    """Why a file of the jit may not include another one, or None."""
    def floor(path):
        match = re.match(r"(?:src/)?jit/(\w+)/\w+\.[ch]pp$", path)
        return match.group(1) if match else headers.get(path.split("/")[-1])

    if not source.startswith(("src/jit/", "include/tessera/jit/")) or not include.startswith(("jit/", "tessera/jit/")):
        return None
    for path in (source, include):
        if floor(path) not in order:
            return f"{path} is on no floor of docs/jit.md"
    if order.index(floor(include)) > order.index(floor(source)):
        return f"{include} is of the floor {floor(include)}, which stands above {floor(source)}"
    return None


def check_floors():
    order, headers = floors()
    return [f"{path}:{number}: {problem}" for path in tree.files(".hpp", ".cpp") if path.startswith(("src/jit/", "include/tessera/jit/"))
            for number, line in enumerate(tree.read(path).split("\n"), 1) if (match := re.match(r'#include "([^"]+)"', line))
            if (problem := floor_problem(path, match.group(1), order, headers))]


def selftest_floors():
    order, headers = ["code", "store", "load"], {"forms.hpp": "code", "bundle.hpp": "store"}
    wrong = [("src/jit/code/a.cpp", "jit/store/b.hpp"), ("src/jit/code/a.cpp", "tessera/jit/bundle.hpp"), ("include/tessera/jit/forms.hpp", "tessera/jit/bundle.hpp"),
             ("src/jit/a.cpp", "jit/code/b.hpp"), ("src/jit/load/a.cpp", "tessera/jit/unlisted.hpp")]
    right = [("src/jit/load/a.cpp", "jit/store/b.hpp"), ("src/jit/load/a.cpp", "tessera/jit/forms.hpp"), ("src/jit/code/a.cpp", "tessera/base/error.hpp"),
             ("tests/jit/a.cpp", "jit/load/b.hpp")]
    return ([f"accepted: {pair}" for pair in wrong if floor_problem(*pair, order, headers) is None] +
            [f"rejected: {pair}" for pair in right if floor_problem(*pair, order, headers) is not None])


def selftest(edges):
    wrong = [("src/runtime/a.cpp", "tessera/ir/types.hpp"), ("include/tessera/lang/a.hpp", "tessera/runtime/stream.hpp"),
             ("src/base/a.cpp", "tessera/ir/types.hpp"), ("src/lang/a.cpp", "ir/soft_float.hpp"), ("examples/a.cpp", "ir/soft_float.hpp"),
             ("include/tessera/ir/a.hpp", "ir/soft_float.hpp"), ("src/codegen/tileiras/a.cpp", "tessera/analysis/range.hpp"),
             ("tests/lang/a_test.cpp", "ir/soft_float.hpp"), ("src/jit/a.cpp", "tessera/lang/trace.hpp"),
             ("src/host/a.cpp", "tessera/kernels.hpp")]
    right = [("src/lang/a.cpp", "tessera/ir/types.hpp"), ("src/ir/a.cpp", "ir/soft_float.hpp"), ("src/ir/a.cpp", "vector"),
             ("tests/ir/a_test.cpp", "ir/soft_float.hpp"), ("tests/fuzz/a.cpp", "ir/soft_float.hpp"), ("src/codegen/cpu/a.cpp", "codegen/cpu/b.hpp"),
             ("src/jit/a.cpp", "tessera/codegen/cpu/program.hpp"), ("examples/a.cpp", "tessera/tessera.hpp"),
             ("include/tessera/kernels/a.hpp", "tessera/tessera.hpp")]
    return ([f"accepted: {pair}" for pair in wrong if problem_of(*pair, edges) is None] +
            [f"rejected: {pair}: {problem_of(*pair, edges)}" for pair in right if problem_of(*pair, edges) is not None])


layers = table()
tree.finish(selftest(layers) + selftest_floors() if "--selftest" in sys.argv else check(layers) + check_floors(),
            "The permitted edges are in docs/layers.md; move the code to the layer where it belongs.")
