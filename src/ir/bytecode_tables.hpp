// The tables that a bytecode file's functions refer to: strings, types, constants, debug attributes. Numbers are given
// in order of first use, in the order in which NVIDIA's Python writer (cuda-tile) asks for them, so that equal programs
// give equal bytes.
#pragma once
#include <unordered_map>

#include "ir/byte_writer.hpp"
#include "tessera/ir/bytecode.hpp"

namespace tessera::ir {

class BytecodeTables {
 public:
  explicit BytecodeTables(BytecodeVersion version);

  std::uint64_t string(std::string_view s) { return strings.id(s); }
  std::uint64_t type(Type);
  std::uint64_t constant(const DenseAttr&);
  /// Debug attribute of an operation inside `function`; 0 where the location is unknown.
  std::uint64_t location(const SourceLocation&, const Function& function);
  /// A self-contained attribute: tag, then payload.
  void tagged(ByteWriter&, const Attribute&);
  /// Count, then name and self-contained value of every entry.
  void dictionary(ByteWriter&, const DictAttr&);
  /// As `dictionary`, with the tag that function hints carry.
  void tagged_hints(ByteWriter&, const DictAttr&);

  ByteTable strings, types, constants;
  ByteTable debug{1};

 private:
  bool at_least(int minor) const { return version_.minor >= minor; }
  void view_type(ByteWriter&, Type);
  std::uint64_t encode_type(Type);
  std::uint64_t file(std::string_view path);
  std::uint64_t subprogram(const Function&);
  BytecodeVersion version_;
  std::unordered_map<const TypeData*, std::uint64_t> type_ids_;
};

}  // namespace tessera::ir
