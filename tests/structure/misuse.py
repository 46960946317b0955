"""Every public function of include/tessera/host has a row in the table of misuse (tests/misuse), and every row a function.

    misuse.py             check the project
    misuse.py --selftest  check that the reader of headers finds what it should

The functions are read off the headers: free functions of namespace tessera and of its public inner namespaces, and public members of
classes. What follows `namespace detail` is the library's own, apart from the classes in SHOWN.
"""
import re
import sys

import tree

PUBLIC = {"random", "unsafe_"}  # namespaces in tessera; the names of their functions carry them
RUNTIME = {"include/tessera/runtime/stream.hpp", "include/tessera/runtime/memory.hpp"}  # what users hold of the runtime
SHOWN = {"Kernel": ["Kernel"], "CallOperator": ["Kernel"], "Queries": ["View", "Shared"], "TunedSpace": []}  # of detail: as whose members
EXEMPT = {  # why there is no row
    "candidate": "a constant from literals", "space": "a constant from literals",
    "Candidate::tuned": "called by TuningSpace::tuned",
    "Kernel::launcher": "no operands",
    "TuningSpace::name": "no operands", "TuningSpace::hints": "no operands", "TuningSpace::candidates": "no operands",
    "TuningSpace::index_of": "takes any text", "name_of": "takes an enumerator",
    "FlowPost::operator()": "for the library", "FlowPost::is": "for the library", "FlowStep::operator()": "called once, by the event loop",
    "Fork::awaiter": "for promises", "Task::awaiter": "for promises", "Graph::device": "no operands", "Graph::work_count": "no operands", "Graph::memory": "no operands",
    "GraphScalar::value": "no operands", "GraphScalar": "takes a number: tests/host/graph_control_test.cpp",
    "Stream::wrap": "needs a GPU: tests/runtime/cuda_foreign_stream_test.cpp", "Stream::native": "needs a GPU: the same",
    "Stream::priorities": "no operands", "Stream::default_of": "no operands", "Stream::device": "no operands",
    "Stream::synchronize": "no operands", "Stream::core": "for the library",
    "memory_stats": "no operands", "reset_memory_peak": "no operands", "trim_memory": "no operands",
    "set_memory_limit": "takes any number", "set_allocator": "takes any allocator: tests/runtime/memory_test.cpp",
    "OutOfMemoryError::sizes": "no operands", "Allocator::allocate": "called by the library",
    "Allocator::deallocate": "called by the library", "Allocator::trim": "called by the library",
    "Address::arg": "for the library",
    "check_mode": "no operands", "set_check_mode": "takes a truth value", "strict_check_mode": "no operands",
    "collected_gpu": "reads a knob: the fuzz target `knobs`",
}
KEYWORDS = {"if", "for", "while", "return", "requires", "noexcept", "explicit", "decltype", "static_assert", "sizeof", "alignas", "operator",
            "constexpr", "else", "using", "typedef", "friend", "enum", "concept", "__attribute__", "defined"}


def bare(text):
    """Without comments, literals and lines of the preprocessor."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', " ", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.M)


def without_brackets(text, opening, closing):
    """Without what stands between angles, with them."""
    out, depth = [], 0
    for c in text:
        depth += c == opening
        if depth == 0:
            out.append(c)
        depth -= c == closing and depth > 0
    return "".join(out)


def declared(statement):
    """The name of the function that a statement declares or begins to define; None if it is something else."""
    s = re.sub(r"\[\[.*?\]\]", " ", statement.replace("->", " ").replace("<=", " ").replace(">=", " ").replace("<<", " "))
    s = s.replace("operator()", "operator_call")
    s = without_brackets(re.sub(r"\brequires\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\brequires[^;{(]*?(?=\b(?:Op|void|auto|detail)\b)", " ", s), "<", ">")
    s = re.sub(r"\bTESSERA_\w+\b(?!\s*\()", " ", s)
    if re.search(r"\b(using|typedef|friend|concept|static_assert|class|struct|enum|return)\b", s.split("(")[0]) or "=" in s.split("(")[0]:
        return None
    match = re.search(r"(~?\b\w+)\s*\(", s)
    if match and s[:match.start()].endswith("::"):
        return None  # defined outside its class, where it is declared
    name = match.group(1) if match else None
    if not name or name in KEYWORDS or name.startswith(("~", "TESSERA")) or "operator " in s.split("(")[0]:
        return None
    return name.replace("operator_call", "operator()")


def functions(text):
    """The public functions of a header."""
    found, scopes, start, text = set(), [], 0, bare(text)
    depth_of_parens = 0
    for i, c in enumerate(text):
        depth_of_parens += (c == "(") - (c == ")")
        if depth_of_parens > 0 or c not in "{};:":
            continue
        statement = text[start:i].strip()
        if c == ":":
            access = re.search(r"\b(public|private|protected)$", statement)
            if access and text[i + 1] != ":" and scopes and scopes[-1]["kind"] == "class":
                scopes[-1]["public"] = access.group(1) == "public"
                start = i + 1
            continue
        start = i + 1
        if c == "}":
            if scopes:
                scopes.pop()
            continue
        visible = all(s["kind"] in ("namespace", "class") and s["public"] for s in scopes) and scopes
        if visible and (name := declared(statement)):
            classes = [s for s in scopes if s["kind"] == "class"]
            inner = [s["name"] for s in scopes if s["kind"] == "namespace"]
            if not classes:
                found.add("::".join([n for n in inner if n] + [name]))
            elif len(classes) == 1 and name != classes[0]["name"]:  # not a constructor
                found.update(f"{owner}::{name}" for owner in classes[0]["shown_as"])
        if c == "{":
            scopes.append(scope_of(statement, scopes))
    return found


def scope_of(statement, scopes):
    """What a brace opens."""
    if match := re.search(r"\bnamespace\s+([\w:]*)\s*$", statement):
        name = match.group(1).removeprefix("tessera").removeprefix("::")
        return {"kind": "namespace", "name": name, "public": name in ("", "detail") or name in PUBLIC or any(s["name"] == "detail" for s in scopes)}
    head = without_brackets(statement, "<", ">")
    match = re.search(r"\b(class|struct)\s+(?:\[\[.*\]\]\s*)?(?:TESSERA_\w+\s+)?(\w+)[^()=]*$", re.sub(r"\[\[.*?\]\]", " ", head))
    if match:
        name, of_library = match.group(2), any(s["name"] == "detail" for s in scopes)
        return {"kind": "class", "name": name, "public": match.group(1) == "struct" or "public:" in statement,
                "shown_as": SHOWN.get(name, []) if of_library else [name]}
    return {"kind": "other", "name": "", "public": False}


def of_detail(name):
    return name.startswith("detail::") or name.startswith("impl::")


def check():
    public = set()
    for path in tree.files(".hpp"):
        if path.startswith("include/tessera/host/") and "dlpack_abi" not in path or path in RUNTIME:
            public |= {f for f in functions(tree.read(path)) if not of_detail(f)}
    rows = set()
    for path in tree.files(".cpp"):
        if path.startswith("tests/misuse/"):
            rows |= set(re.findall(r'MISUSE\(\w+(?:##\w+)?, "([^"]+)"\)', tree.read(path)))
            for handle in re.findall(r"^QUERIES\((\w+),", tree.read(path), re.M):
                rows |= {f"{handle}::{f}" for f in re.findall(r'#Handle "::(\w+)"', tree.read(path))}
    problems = [f"{f}: a public function of include/tessera/host without a row in tests/misuse" for f in sorted(public - rows - set(EXEMPT))]
    problems += [f"{f}: a row of tests/misuse that is about no public function" for f in sorted(rows - public)]
    problems += [f"{f}: is exempt here ({EXEMPT[f]}), but there is no such function" for f in sorted(set(EXEMPT) - public)]
    return problems


def selftest():
    header = """
namespace tessera {
class Late;
namespace detail { void hidden(int); template <class S> class Queries { public: int dims(int a) const { return f(a); } private: int live(); }; }
/// comment with call(x)
template <Element T, int R> requires(!is_x<T>)
Op<Tensor<T, R>> full(const Dims<R>& dims, Number<T> value = f(1)) { return make<T>(dims); }
inline constexpr int kConstant = number(3);
class Shown { public: Shown(int); int query() const; template <int A> View slice(E lo) &&; bool operator==(const Shown&) const; operator int() const;
 private: int inner(); };
struct Plain { int n; void member(); };
namespace random { void normal(); }
template <class T> auto Shown::query() const { return 1; }
}  // namespace tessera
namespace tessera::detail { void also_hidden(); }
namespace tessera::unsafe_ { template <Element T> Address<T> address(T* pointer) noexcept { return Address<T>(pointer); } }
"""
    expected = {"full", "Shown::query", "Shown::slice", "Plain::member", "random::normal", "unsafe_::address", "View::dims", "Shared::dims"}
    found = {f for f in functions(header) if not of_detail(f)}
    return [f"found {sorted(found)}, expected {sorted(expected)}"] if found != expected else []


tree.finish(selftest() if "--selftest" in sys.argv else check(),
            "A public function gets a row in tests/misuse: a legal call with operands from the table (docs/testing.md).")
