// Fixed points of text and bytecode: what is written, read and written again is the same.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

/// A copy whose hints are in the order of their names, as text has them.
inline std::unique_ptr<Module> with_sorted_hints(const Module& module) {
  auto copy = clone(module);
  for (const auto& f : copy->functions) {
    sort_hints(f->hints);
    walk(f->body(), [](Operation& op) {
      const Attribute* hints = op.attr(AttrName::optimization_hints);
      if (!hints) return;
      DictAttr sorted = *hints->as<DictAttr>();
      sort_hints(sorted);
      op.set_attr(AttrName::optimization_hints, sorted);
    });
  }
  return copy;
}

/// What print() writes of the module is read as a module of the same text, and of the same bytes in every version that
/// can hold it.
inline void expect_text_fixed_point(const Module& given) {
  const auto module = with_sorted_hints(given);
  const std::string text = print(*module), located = print(*module, {true});
  EXPECT_EQ(print(*parse(text)), text);
  const auto read = parse(located);
  EXPECT_EQ(print(*read, {true}), located);
  for (std::uint8_t minor = required_version(*module).minor; minor <= 4; ++minor)
    EXPECT_TRUE(write_bytecode(*read, {{13, minor}, true}) == write_bytecode(*module, {{13, minor}, true}))
        << "13." << int{minor} << " of\n"
        << text.substr(0, 2000);
}

/// In every version that can hold the module, its bytecode is read as a module of the same text and the same bytes.
inline void expect_bytecode_fixed_point(const Module& module) {
  bool located = true;
  for (const auto& f : module.functions) located = located && f->loc.known();
  for (std::uint8_t minor = required_version(module).minor; minor <= 4; ++minor) {
    const std::vector<std::byte> bytes = write_bytecode(module, {{13, minor}, true});
    const ReadModule read = read_bytecode(bytes);
    EXPECT_EQ(read.version, (BytecodeVersion{13, minor}));
    EXPECT_TRUE(write_bytecode(*read.module, {read.version, true}) == bytes) << "13." << int{minor};
    if (minor < 3) read.module->producer = module.producer;  // came with 13.3
    EXPECT_EQ(print(*read.module, {located}), print(module, {located})) << "13." << int{minor};
  }
}

}  // namespace tessera::ir::testing
