// Types, attribute values and locations in the text that is parsed.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/text_cursor.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/ir/attributes.hpp"
#include "tessera/ir/op_info.hpp"
#include "tessera/ir/types.hpp"

namespace tessera::ir {

/// The dialect's prefix, which may stand before names of operations and types.
inline constexpr std::string_view kDialect = "cuda_tile.";
inline std::string_view without_dialect(std::string_view name) {
  return name.starts_with(kDialect) ? name.substr(kDialect.size()) : name;
}

/// Every function reports what is wrong and throws TextCursor::Stop.
class TextParts {
 public:
  explicit TextParts(TextCursor& cursor) : in_(cursor) {}

  /// A type that a value may have, which keeps the rules of types.
  Type type();
  /// The value of an attribute of an operation.
  Attribute attribute(AttrKind kind);
  /// `<f32: values> : type`
  DenseAttr dense();
  /// `<arch = {key = value, ...}, ...>`
  DictAttr hints();
  /// `@name` or `@"name"`
  std::string symbol();
  /// ` loc(...)` if it is next; unknown otherwise.
  SourceLocation location();

 private:
  std::string_view type_text() const;
  Type new_type();
  Type element_or_pointer();
  Elem element();
  Type tile();
  Type tensor_view();
  Type tiled_view(TypeKind kind);
  std::vector<std::int64_t> dims(bool dynamic);
  template <class Int>
  std::vector<Int> list(const char* what, std::int64_t least, std::int64_t most, std::string_view open,
                        std::string_view close, std::string_view separator);

  std::size_t end_of_values();
  void dense_values(DenseAttr& data);
  void nested(DenseAttr& data, std::span<const std::int64_t> shape);
  void number(DenseAttr& data);
  void hex_bytes(DenseAttr& data);
  Attribute predicate();
  std::optional<std::int64_t> bound();
  /// A number with its type, a truth value (`truth` false: as an integer of one bit), a text.
  Attribute typed(bool truth, Elem plain);
  bool truth();
  BoolArrayAttr truths();
  ArrayAttr tagged_array();
  std::string key();

  TextCursor& in_;
  std::unordered_map<std::string_view, Type> types_;  ///< by their text
};

}  // namespace tessera::ir
