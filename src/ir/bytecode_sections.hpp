// The sections of a bytecode file that is read, and what functions refer to in them: strings, types, constants, places.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/byte_reader.hpp"
#include "ir/bytecode_tags.hpp"
#include "tessera/base/source_location.hpp"

namespace tessera::ir {

/// Every function throws BytecodeError, at the byte where `in` stands if there is one.
class BytecodeSections {
 public:
  /// Finds the sections and the items of their tables.
  BytecodeSections(const std::string& file, std::string_view bytes);

  BytecodeVersion version() const { return version_; }
  bool at_least(int minor) const { return version_.minor >= minor; }
  /// The section; nullopt if the file has none.
  std::optional<ByteReader> section(Section id) const { return sections_[id]; }

  /// What the index that is read stands for.
  std::string string(ByteReader& in, const char* what);
  Type type(ByteReader& in, const char* what);
  /// As type(), for a type that a value may have.
  Type value_type(ByteReader& in, const char* what);
  DenseAttr constant(ByteReader& in, Type type);
  /// A self-contained attribute.
  Attribute tagged(ByteReader& in, int depth = 0);
  DictAttr dictionary(ByteReader& in, int depth = 0);

  /// Numbers of places: of a function, then of its operations. Empty if the file has none for it.
  struct Places {
    std::size_t first = 0, count = 0;
  };
  Places places(std::uint64_t function) const;
  SourceLocation place(const Places& places, std::size_t i);

  /// Counts bytes that are taken in memory for something that the file has once.
  void charge(const ByteReader& in, std::size_t bytes);

 private:
  /// The items of a section: where each begins and ends.
  struct Table {
    std::vector<ByteReader> items;
    const char* what = "";
    const ByteReader& at(const ByteReader& in, std::uint64_t index) const;
  };
  static Table table(ByteReader& in, int offset_bytes, const char* what);
  void read_header(ByteReader& in);
  void read_sections(ByteReader& in, std::size_t file_bytes);
  void read_debug(ByteReader in);
  const char* file_name(ByteReader& in);
  Type type_of(const ByteReader& in, std::uint64_t index, int depth);
  Type decode_type(ByteReader item, int depth);
  Type tile(ByteReader& item, int depth);
  Type tensor_view(ByteReader& item, int depth);
  Type tiled_view(ByteReader& item, std::uint64_t tag, int depth);
  Type function(ByteReader& item, int depth);
  std::optional<PaddingValue> padding(ByteReader& item, bool present);
  Attribute number(ByteReader& in, std::uint64_t tag);
  ArrayAttr array(ByteReader& in, int depth);
  std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> optional_pair(ByteReader& in, const char* what);

  BytecodeVersion version_;
  std::array<std::optional<ByteReader>, kProducer + 1> sections_;
  Table strings_, types_, constants_, debug_;
  std::vector<Type> known_types_;                            ///< of `types_`, null where not decoded yet
  std::vector<std::optional<SourceLocation>> known_places_;  ///< of `debug_`
  std::vector<const char*> known_files_;                     ///< of `strings_`, null where no place has named it yet
  std::vector<Places> functions_;                            ///< of `place_ids_`
  std::vector<std::uint64_t> place_ids_;
  std::size_t charged_ = 0;
};

}  // namespace tessera::ir
