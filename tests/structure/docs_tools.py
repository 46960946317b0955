"""Tests of scripts/docs: the reader of headers, the pages that are made from tables, the site's links.

Each part is tried on small texts: on right ones, and on wrong ones that it must reject.
"""
import os
import re
import sys

import tree

sys.path.insert(0, os.path.join(tree.ROOT, "scripts", "docs"))
import api_pages  # noqa: E402
import headers  # noqa: E402
import md  # noqa: E402
import reference  # noqa: E402
import site_pages  # noqa: E402
import table_pages  # noqa: E402

HEADER = """// Things, as users hold them.
//
//   auto t = make<f32>(3);
#pragma once
namespace tessera {
namespace detail {
struct Hidden { void inner(); };
/// What all things share.
template <class Self> class Base {
 public:
  /// How many.
  int size(SourceLocation where = SourceLocation::current()) const { return n[0][1]; }
};
}  // namespace detail
/// A thing. Throws ShapeError.
template <Element T, int R>
class [[nodiscard("use it")]] Thing : public detail::Base<Thing<T, R>> {
 public:
  Thing(Thing&&) = default;
  TESSERA_LIVE int first() const;  ///< the first
  /// Both of
  /// these.
  Thing a() &&;
  Thing b() &&;
  template <class X> void no(X) { static_assert(detail::never<X>, "no"); }

 private:
  int n_;
};
/// Makes one.
template <Element T, std::size_t N>
  requires(N > 0)
detail::Made<T, N> make(BracedDims<N> dims, detail::Number<T> value = f(1, {2}), SourceLocation where = SourceLocation::current()) {
  return {};
}
template <class X> void make(X) { static_assert(detail::never<X>, "no"); }
#define TESSERA_MAKE(name) \\
  template <class T>       \\
  T name(const T& x) { return x; }
TESSERA_MAKE(up)
TESSERA_MAKE(down)  // not up
#undef TESSERA_MAKE
struct Options {
  bool fast = false;  ///< less exact
  int (*call)(int n);
};
inline constexpr int kMost = 3;
void undocumented_but_public();
}  // namespace tessera
"""
EXPECTED = """## thing.hpp

Things, as users hold them.

```cpp
auto t = make<f32>(3);
```

### Thing

```cpp
template <Element T, int R>
class Thing;
```

A thing. Throws ShapeError.

#### Thing::first

```cpp
int first() const;
```

the first

#### Thing::a, Thing::b

```cpp
Thing a() &&;
Thing b() &&;
```

Both of these.

#### Thing::size

```cpp
int size() const;
```

How many.

### make

```cpp
template <Element T, std::size_t N>
  requires(N > 0)
Made<T, N> make(BracedDims<N> dims, Number<T> value = f(1, {2}));
```

Makes one.

### up

```cpp
template <class T>
T up(const T& x);
```

### down

```cpp
template <class T>
T down(const T& x);
```

not up

### Options

```cpp
struct Options {
  bool fast = false;  // less exact
  int (*call)(int n);
};
```

### kMost

```cpp
constexpr int kMost = 3;
```

### undocumented_but_public

```cpp
void undocumented_but_public();
```
"""
WRONG_HEADERS = ["namespace tessera { void f(int; }", "namespace tessera { template <class T void f(); }"]
# Signatures that a user looks for: each has an entry on its page.
ENTRIES = {"host.md": ["all", "copy_into", "share", "Kernel::precise, Kernel::approximate", "Kernel::on_device", "Op::then", "Op::on",
                       "borrow", "from_dlpack", "set_check_mode"],
           "language.md": ["mma", "range", "where", "In::load_like", "unsafe_::assume", "Acc"],
           "kernels.md": ["matmul", "softmax", "attention", "AttentionOptions", "rms_norm", "quantize_rows"],
           "errors.md": ["ShapeError", "ConfigError", "InternalError"]}


def page(text, **options):
    made = api_pages.api_page(api_pages.Page("p", "Title", "Text.", ["host"], **options), {"host/thing.hpp": text})
    return made[made.index("## "):]


def rejected(work, what):
    """A problem unless `work` throws Unreadable."""
    try:
        work()
    except headers.Unreadable:
        return []
    return [f"not rejected: {what}"]


def header_problems():
    problems = []
    if page(HEADER) != EXPECTED:
        problems.append(f"the page of the header is\n{page(HEADER)}")
    for text in WRONG_HEADERS:
        problems += rejected(lambda text=text: page(text), text)
    problems += rejected(lambda: page(HEADER, first=["gone.hpp"]), "a page that names a header which is not there")
    problems += rejected(lambda: page(HEADER, words={"Gone": "x"}), "an explanation of a word that no signature has")
    return problems


def table_problems():
    env = 'TESSERA_ENV(A, "0 | 1", "one"\n " line")\n'
    problems = [] if "| `TESSERA_A` | `0 \\| 1` | One line |" in table_pages.environment(lambda path: env) else ["environment: the row is missing"]
    problems += rejected(lambda: table_pages.environment(lambda path: env + 'TESSERA_ENV(B, "1", doc)\n'), "a row of env.def that is not understood")
    options = 'option(TESSERA_X "Do it" OFF)\nset(TESSERA_Y "" CACHE STRING "Say it")\n'
    sources = {table_pages.OPTIONS: options, table_pages.LAYERS: tree.read(table_pages.LAYERS), table_pages.AHEAD: tree.read(table_pages.AHEAD)}
    if "| `TESSERA_Y` | empty | Say it |" not in table_pages.cmake(sources.__getitem__):
        problems.append("cmake: the row is missing")
    sources[table_pages.OPTIONS] += "option(TESSERA_Z OFF)\n"
    problems += rejected(lambda: table_pages.cmake(sources.__getitem__), "an option without a text")
    return problems


def entry_problems():
    made = reference.pages()
    problems = [f"docs/reference/{name}: no entry {entry}" for name, entries in ENTRIES.items() for entry in entries
                if not re.search(rf"^#+ {re.escape(entry)}$", made[name], re.M)]
    name, text = next(iter(made.items()))
    if reference.differences({**made, name: text + "x"}) != [f"docs/reference/{name}: differs from its source"]:
        problems.append("a page that differs from its source is not found")
    if reference.differences({n: t for n, t in made.items() if n != name}) != [f"docs/reference/{name}: is not generated, remove it"]:
        problems.append("a page that is not generated is not found")
    return problems


def site_problems():
    text = "a [x](../cmake/TesseraOptions.cmake#y) [g](guide/README.md)\n```cpp main\n[x](../CMakeLists.txt)\n```\n`[x](../README.md)` [w](https://a.b)\n- l\n  - m\n"
    found = site_pages.for_python_markdown(site_pages.relinked(text, "tools.md", "docs/tools.md"))
    expected = "a [x](repository/cmake/TesseraOptions.cmake.md#y) [g](guide/README.md)\n```cpp\n[x](../CMakeLists.txt)\n```\n" \
               "`[x](../README.md)` [w](https://a.b)\n\n- l\n    - m\n"
    problems = [] if found == expected else [f"site: links and lists became\n{found}"]
    outside = site_pages.outside({"docs/a.md": "[x](../cmake/TesseraLayer.cmake) [y](gone.md) [z](../CONTRIBUTING.md)"})
    if not {"cmake/TesseraLayer.cmake", "CONTRIBUTING.md"} <= set(outside) or "docs/gone.md" in outside:
        problems.append(f"site: outside of docs it found {sorted(outside)}")
    folder = site_pages.relinked(site_pages.text_of("cmake"), site_pages.page_of("cmake"), site_pages.source_of("cmake"))
    if "[TesseraLayer.cmake](TesseraLayer.cmake.md)" not in folder or "TesseraLayerExtras/" not in folder:
        problems.append(f"site: the page of a folder became\n{folder}")
    if not site_pages.has_fence("<p>```cpp main</p>") or site_pages.has_fence("<pre>```</pre>"):
        problems.append("site: a fence in the text of a page is not told from one in code")
    return problems


def markdown_problems():
    slugs = {"Tiles, `a<b>` and more": "tiles-ab-and-more", "What a_b is: C++": "what-a_b-is-c", "[x](y.md) z": "x-z"}
    problems = [f"slug of {text}: {md.slug(text)}, expected {slug}" for text, slug in slugs.items() if md.slug(text) != slug]
    for text, right in {"a < b * c": "a < b \\* c", "In<f32> `a*b`": "In&lt;f32> `a*b`", "docs/ir.md": "[ir.md](../ir.md)"}.items():
        if md.escaped(text) != right:
            problems.append(f"escaped {text}: {md.escaped(text)}, expected {right}")
    return problems


tree.finish(header_problems() + table_problems() + entry_problems() + site_problems() + markdown_problems(),
            "See scripts/docs; a new entry of a page may need a row here.")
