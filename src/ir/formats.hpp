// The rows of formats.def, read once: what the printer writes after an operation's mnemonic and the parser expects
// there.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/ir/op_info.hpp"

namespace tessera::ir {

/// A token of a row. Exactly one of `group`, `result` and `attribute` is set where the token names something.
struct FormatItem {
  enum class Kind : std::uint8_t {
    Literal,     ///< `text` itself
    Values,      ///< the values of an operand group
    Types,       ///< the types of an operand group or of a result
    Attribute,   ///< the value of an attribute
    Switch,      ///< a flag by its name, or keyword<value> unless the value is implied
    OneType,     ///< the type that all values of the result have
    IndexTypes,  ///< the types of the group `index`: one if all are equal
    Region,      ///< arguments and body of the only region
    Custom,      ///< the operation has functions of its own
    Inferred,    ///< nothing is written: the type of `result` is that of `group` or of the value of `attribute`
    Optional,    ///< the items before `end` are written if `group` or `attribute` is there
  };
  Kind kind = Kind::Literal;
  bool glued = false;     ///< no blank before it
  std::string_view text;  ///< a literal, or the name that follows the token's mark
  int group = -1;         ///< number of an operand group
  int result = -1;        ///< number of a declared result
  const AttrInfo* attribute = nullptr;
  std::size_t end = 0;
};

/// The items of the operation's row; empty for operations without one (operands, then the type of the first result).
std::span<const FormatItem> format_items(Op);

}  // namespace tessera::ir
