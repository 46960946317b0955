// Fixed points of text and bytecode: what is written, read and written again is the same.
#pragma once
#include <algorithm>
#include <exception>
#include <string>

#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/parser.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"

namespace tessera::ir::testing {

inline void sort_hints(DictAttr& hints) {
  for (auto& entry : hints.entries) {
    DictAttr inner = *entry.second.as<DictAttr>();
    std::ranges::stable_sort(inner.entries, {}, [](const auto& e) { return e.first; });
    entry.second = inner;
  }
  std::ranges::stable_sort(hints.entries, {}, [](const auto& e) { return e.first; });
}

/// A list of i1 that is packed into one byte 00 or FF is, in bytecode, the same as a splat.
inline DenseAttr as_in_bytecode(DenseAttr data) {
  const bool truth = data.type.is_tile() && data.type.element_type() == Type::element(Elem::I1) && !data.splat;
  const auto n = static_cast<std::size_t>(std::ranges::count(data.bytes, std::byte{1}));
  if (truth && data.bytes.size() <= 8 && (n == 0 || n == 8)) {
    data.splat = true;
    data.bytes.resize(1);
  }
  return data;
}

/// A copy in which what text or bytecode cannot tell apart is the same: hints are in the order of their names, lists of
/// i1 as in bytecode.
inline std::unique_ptr<Module> canonical(const Module& module) {
  auto copy = clone(module);
  for (Global& g : copy->globals) g.value = as_in_bytecode(g.value);
  for (const auto& f : copy->functions) {
    sort_hints(f->hints);
    walk(f->body(), [](Operation& op) {
      if (const Attribute* hints = op.attr(AttrName::optimization_hints)) {
        DictAttr sorted = *hints->as<DictAttr>();
        sort_hints(sorted);
        op.set_attr(AttrName::optimization_hints, sorted);
      }
      const Attribute* value = op.attr(AttrName::value);
      if (value && value->as<DenseAttr>()) op.set_attr(AttrName::value, as_in_bytecode(*value->as<DenseAttr>()));
    });
  }
  return copy;
}

/// The first line in which two texts differ.
inline std::string difference(const std::string& wanted, const std::string& found) {
  const auto [w, f] = std::mismatch(wanted.begin(), wanted.end(), found.begin(), found.end());
  const std::size_t at = static_cast<std::size_t>(w - wanted.begin());
  const auto line = [at](const std::string& text) {
    const std::size_t start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    return text.substr(start, text.find('\n', at) - start);
  };
  return concat("expected \"", line(wanted), "\", found \"", line(found), "\"");
}

/// What print() writes of the module is read as a module of the same text, and of the same bytes in every version that
/// can hold it. Empty if so, else what differs.
inline std::string text_problem(const Module& given) {
  try {
    const auto module = canonical(given);
    const std::string text = print(*module), located = print(*module, {true});
    if (const std::string again = print(*parse(text)); again != text) return difference(text, again);
    const auto read = parse(located);
    if (const std::string again = print(*read, {true}); again != located) return difference(located, again);
    for (std::uint8_t minor = required_version(*module).minor; minor <= 4; ++minor)
      if (write_bytecode(*read, {{13, minor}, true}) != write_bytecode(*module, {{13, minor}, true}))
        return concat("the bytecode 13.", int{minor}, " of what was read differs from that of what was printed");
  } catch (const std::exception& error) { return concat("text: ", error.what()); }
  return "";
}

/// In every version that can hold the module, its bytecode is read as a module of the same text and the same bytes.
inline std::string bytecode_problem(const Module& module) {
  bool located = true;
  for (const auto& f : module.functions) located = located && f->loc.known();
  try {
    const std::string text = print(*canonical(module), {located});
    for (std::uint8_t minor = required_version(module).minor; minor <= 4; ++minor) {
      const std::vector<std::byte> bytes = write_bytecode(module, {{13, minor}, true});
      const ReadModule read = read_bytecode(bytes);
      if (read.version != BytecodeVersion{13, minor} || write_bytecode(*read.module, {read.version, true}) != bytes)
        return concat("the bytecode 13.", int{minor}, " of what was read differs from what was read");
      if (minor < 3) read.module->producer = module.producer;  // came with 13.3
      if (const std::string again = print(*canonical(*read.module), {located}); again != text)
        return concat("13.", int{minor}, ": ", difference(text, again));
    }
  } catch (const std::exception& error) { return concat("bytecode: ", error.what()); }
  return "";
}

}  // namespace tessera::ir::testing
