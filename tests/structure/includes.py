"""Files that use parts of the standard library include the header that declares them, themselves or through the project's headers.
What libstdc++ 12 happens to include on the way, libstdc++ 13 and 14 do not (their porting guides name these headers). Programs that use
Tessera include a header of it: where tessera.hpp is precompiled (cmake/TesseraPrecompile.cmake) the compiler does not notice."""
import functools
import os
import re

import tree

ALGORITHMS = ("sort|stable_sort|partial_sort|nth_element|copy|copy_n|copy_if|copy_backward|fill|fill_n|find|find_if|find_if_not|count|count_if|all_of|any_of|none_of|"
              "lower_bound|upper_bound|binary_search|equal_range|reverse|rotate|unique|remove_if|transform|generate|generate_n|max_element|min_element|"
              "minmax|clamp|for_each|mismatch|search|replace|shuffle|is_sorted|lexicographical_compare|merge|set_difference|next_permutation")
NEEDS = {
    "cstdint": r"\bstd::u?int(?:_fast|_least)?(?:8|16|32|64|ptr|max)_t\b",
    "stdexcept": r"\bstd::(?:runtime_error|logic_error|invalid_argument|out_of_range|length_error|overflow_error|domain_error)\b",
    "algorithm": rf"\bstd::(?:(?:{ALGORITHMS})\s*\(|ranges::)",
    "numeric": r"\bstd::(?:accumulate|iota|reduce|inner_product|partial_sum|exclusive_scan|inclusive_scan|gcd|lcm)\s*\(",
    "cstring": r"\bstd::(?:memcpy|memset|memcmp|memmove|strlen|strcmp|strncmp|strerror|strchr)\b",
    "cmath": r"\bstd::(?:sqrt|exp|exp2|log|log2|sin|cos|tan|pow|fma|fabs|floor|ceil|isnan|isinf|isfinite|ldexp|frexp|nextafter|signbit|nearbyint|tanh|hypot|rint|lround)\s*\(",
    "optional": r"\bstd::(?:optional\b|nullopt\b|make_optional)", "variant": r"\bstd::(?:variant\b|visit\s*\(|get_if|holds_alternative|monostate)",
    "memory": r"\bstd::(?:unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared)\b", "array": r"\bstd::array\b",
    "mutex": r"\bstd::(?:mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once)\b", "atomic": r"\bstd::atomic\w*\b",
    "thread": r"\bstd::(?:thread|jthread|this_thread)\b", "condition_variable": r"\bstd::condition_variable\b", "chrono": r"\bstd::chrono\b",
    "limits": r"\bstd::numeric_limits\b", "bit": r"\bstd::(?:bit_cast|popcount|countr_zero|countl_zero|bit_width|has_single_bit|bit_ceil|bit_floor)\b",
    "functional": r"\bstd::(?:function|plus|less|greater|hash)\s*<", "unordered_map": r"\bstd::unordered_map\b", "map": r"\bstd::map\b",
    "set": r"\bstd::set\b", "deque": r"\bstd::deque\b", "tuple": r"\bstd::(?:tuple|make_tuple|apply|tie)\b", "vector": r"\bstd::vector\b",
    "string": r"\bstd::(?:string|to_string|stoi|stol)\b", "span": r"\bstd::span\b", "cstdlib": r"\bstd::(?:getenv|abort|strtol|strtod|malloc|free|exit)\b",
    "cstdio": r"\bstd::(?:printf|fprintf|snprintf|puts|fputs|fopen|FILE|remove|rename)\b", "charconv": r"\bstd::(?:to_chars|from_chars)\b",
    "filesystem": r"\bstd::filesystem\b", "random": r"\bstd::(?:mt19937\w*|uniform_\w+_distribution|normal_distribution|random_device)\b",
    "complex": r"\bstd::complex\b", "coroutine": r"\bstd::(?:coroutine_handle|suspend_always|suspend_never)\b", "exception": r"\bstd::(?:exception_ptr|current_exception|rethrow_exception)\b",
}
# A header that the standard says declares another's names.
ALSO = {"cstdio": {"cstdio", "stdio.h"}, "optional": {"optional"}, "string": {"string", "stdexcept"}}


def strip(text):
    """Without comments and string literals."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"', "", text, flags=re.S)


def resolve(path, include):
    """The project's file that an include means, or None."""
    for base in (os.path.dirname(path), "include", "src", "tests"):
        candidate = os.path.normpath(os.path.join(base, include))
        if os.path.isfile(os.path.join(tree.ROOT, candidate)):
            return candidate
    return None


@functools.lru_cache(maxsize=None)
def standard_headers(path):
    """Standard headers that `path` includes, itself or through the project's headers."""
    found = set()
    for include in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', tree.read(path), re.M):
        inner = resolve(path, include)
        found |= standard_headers(inner) if inner and inner != path else {include}
    return frozenset(found)


@functools.lru_cache(maxsize=None)
def includes_tessera(path):
    """True if `path` includes a header of the library, itself or through headers of the project."""
    inner = {resolve(path, i) for i in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', tree.read(path), re.M)} - {None, path}
    return any(i.startswith(("include/tessera/", "src/")) or includes_tessera(i) for i in inner)


problems = []
for source in tree.files(".hpp", ".cpp"):
    if source.split("/")[0] not in ("src", "include", "tests", "examples", "bench", "tools", "kernels"):
        continue
    text = strip(tree.read(source))
    headers = standard_headers(source)
    if source.endswith(".cpp") and re.search(r"\busing namespace tessera;|\btessera::\w+[<(]", text) and not includes_tessera(source):
        problems.append(f"{source}: no header of Tessera is included")
    for header, pattern in NEEDS.items():
        if header == "filesystem" and source.startswith(("src/", "include/")) and re.search(pattern, text):
            problems.append(f"{source}: std::filesystem in the library: use tessera/base/folders.hpp, which says why")
        if not headers & ALSO.get(header, {header}) and (match := re.search(pattern, text)):
            problems.append(f"{source}: {match.group(0).strip('( ')} needs <{header}>")
tree.finish(problems, "Include the header; g++ 13 and 14 do not supply it by accident.")
