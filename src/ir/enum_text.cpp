// Spellings of enumerated attributes in Tile IR's text form; the position is the bytecode number.
#include <algorithm>

#include "tessera/ir/op_info.hpp"

namespace tessera::ir {

namespace {

constexpr const char* kRounding[] = {"nearest_even", "zero", "negative_inf",        "positive_inf",
                                     "approx",       "full", "nearest_int_to_zero", "nearest_away"};
constexpr const char* kPredicate[] = {
    "equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"};
constexpr const char* kOrdering[] = {"unordered", "ordered"};
constexpr const char* kSignedness[] = {"unsigned", "signed"};
constexpr const char* kOverflow[] = {"none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap"};
constexpr const char* kMemoryOrdering[] = {"weak", "relaxed", "acquire", "release", "acq_rel"};
constexpr const char* kMemoryScope[] = {"tl_blk", "device", "sys"};
constexpr const char* kAtomicMode[] = {"and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg"};

}  // namespace

std::span<const char* const> enum_names(AttrKind kind) {
  switch (kind) {
    case AttrKind::Rounding: return kRounding;
    case AttrKind::Predicate: return kPredicate;
    case AttrKind::Ordering: return kOrdering;
    case AttrKind::Signedness: return kSignedness;
    case AttrKind::Overflow: return kOverflow;
    case AttrKind::MemoryOrdering: return kMemoryOrdering;
    case AttrKind::MemoryScope: return kMemoryScope;
    case AttrKind::AtomicMode: return kAtomicMode;
    default: return {};
  }
}

const char* enum_text(AttrKind kind, std::uint8_t value) {
  std::span<const char* const> names = enum_names(kind);
  return value < names.size() ? names[value] : "<no such value>";
}

int enum_value(AttrKind kind, std::string_view text) {
  std::span<const char* const> names = enum_names(kind);
  auto it = std::ranges::find(names, text);
  return it == names.end() ? -1 : static_cast<int>(it - names.begin());
}

}  // namespace tessera::ir
