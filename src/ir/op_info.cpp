// Parses the strings of ops.def while this file is compiled: it costs no time when a kernel is recorded, and an invalid
// row is a compile error.
#include "tessera/ir/op_info.hpp"

#include <algorithm>
#include <array>

namespace tessera::ir {

namespace {

struct Row {
  Op op;
  const char* mnemonic;
  std::uint16_t opcode;
  std::uint8_t since;
  std::uint16_t traits;
  const char* operands;
  const char* results;
  const char* attributes;
};

using namespace traits;
[[maybe_unused]] constexpr std::uint16_t None = 0;  // of rows without traits
constexpr Row kRows[] = {
#define TESSERA_IR_OP(Name, mnemonic, opcode, since, Traits, operands, results, attributes) \
  {Op::Name, mnemonic, opcode, since, Traits, operands, results, attributes},
#include "tessera/ir/ops.def"
};
constexpr std::size_t kNumOps = std::size(kRows);

constexpr const char* kAttrNames[] = {
#define TESSERA_IR_ATTRIBUTE(name) #name,
#include "tessera/ir/attributes.def"
};

struct KindName {
  std::string_view name;
  AttrKind kind;
};
constexpr KindName kKinds[] = {
    {"unit", AttrKind::Unit},
    {"bool", AttrKind::Bool},
    {"i32", AttrKind::I32},
    {"i64", AttrKind::I64},
    {"string", AttrKind::String},
    {"symbol", AttrKind::Symbol},
    {"dense", AttrKind::Dense},
    {"dict", AttrKind::Dict},
    {"tagged", AttrKind::Tagged},
    {"tagged[]", AttrKind::TaggedArray},
    {"i32[]", AttrKind::I32Array},
    {"bool[]", AttrKind::BoolArray},
    {"rounding", AttrKind::Rounding},
    {"predicate", AttrKind::Predicate},
    {"ordering", AttrKind::Ordering},
    {"signedness", AttrKind::Signedness},
    {"overflow", AttrKind::Overflow},
    {"memory_ordering", AttrKind::MemoryOrdering},
    {"memory_scope", AttrKind::MemoryScope},
    {"atomic_mode", AttrKind::AtomicMode},
};

struct ClassName {
  std::string_view name;
  TypeClass type_class;
};
constexpr ClassName kClasses[] = {
    {"any", TypeClass::Any},
    {"tile", TypeClass::Tile},
    {"number", TypeClass::Number},
    {"anynumber", TypeClass::AnyNumber},
    {"float", TypeClass::Float},
    {"anyfloat", TypeClass::AnyFloat},
    {"f32", TypeClass::F32},
    {"int", TypeClass::Int},
    {"anyint", TypeClass::AnyInt},
    {"i1", TypeClass::I1},
    {"i8", TypeClass::I8},
    {"i32", TypeClass::I32},
    {"i64", TypeClass::I64},
    {"pointer", TypeClass::Pointer},
    {"scalar_i1", TypeClass::ScalarI1},
    {"scalar_i32", TypeClass::ScalarI32},
    {"scalar_int", TypeClass::ScalarInt},
    {"scalar_pointer", TypeClass::ScalarPointer},
    {"token", TypeClass::Token},
    {"tensor_view", TypeClass::TensorView},
    {"view", TypeClass::View},
    {"partition_view", TypeClass::PartitionView},
    {"strided_view", TypeClass::StridedView},
    {"gather_scatter_view", TypeClass::GatherScatterView},
};

/// Not a constant expression: a call ends the compilation, with the argument in the compiler's message.
void row_cannot_be_read() {}

/// The number of items between commas.
constexpr std::size_t count_items(std::string_view text) {
  return text.empty() ? 0 : static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) + 1;
}

/// Takes the first item off `text`.
constexpr std::string_view take_item(std::string_view& text) {
  const std::size_t comma = text.find(',');
  std::string_view item = text.substr(0, comma);
  text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  while (item.starts_with(' ')) item.remove_prefix(1);
  return item;
}

/// Takes a trailing `<mark>number` off `item`; `fallback` if there is none.
constexpr int take_number(std::string_view& item, char mark, int fallback) {
  const std::size_t at = item.rfind(mark);
  if (at == std::string_view::npos) return fallback;
  int value = 0;
  for (const char c : item.substr(at + 1)) value = value * 10 + (c - '0');
  item = item.substr(0, at);
  return value;
}

constexpr bool take_suffix(std::string_view& item, char c) {
  if (!item.ends_with(c)) return false;
  item.remove_suffix(1);
  return true;
}

/// The row of `table` with this name.
template <class T, std::size_t N>
constexpr const T& row_named(const T (&table)[N], std::string_view name) {
  for (const T& row : table) {
    if (row.name == name) return row;
  }
  row_cannot_be_read();
  return table[0];
}

constexpr GroupInfo parse_group(const Row& row, std::string_view item) {
  GroupInfo g{};
  g.since = static_cast<std::uint8_t>(take_number(item, '@', row.since));
  g.arity = take_suffix(item, '?') ? Arity::Optional : take_suffix(item, '*') ? Arity::Variadic : Arity::One;
  const std::size_t colon = item.find(':');
  g.name = item.substr(0, colon);
  g.type_class = row_named(kClasses, item.substr(colon + 1)).type_class;
  return g;
}

constexpr AttrName attr_name(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kAttrNames); ++i)
    if (name == kAttrNames[i]) return static_cast<AttrName>(i);
  row_cannot_be_read();
  return {};
}

constexpr AttrInfo parse_attr(const Row& row, std::string_view item) {
  AttrInfo a{};
  a.implied = static_cast<std::int16_t>(take_number(item, '=', -1));
  a.since = static_cast<std::uint8_t>(take_number(item, '@', row.since));
  a.optional = take_suffix(item, '?');
  const std::size_t colon = item.find(':');
  a.name = attr_name(item.substr(0, colon));
  a.kind = row_named(kKinds, item.substr(colon + 1)).kind;
  a.optional = a.optional || a.kind == AttrKind::Unit;
  return a;
}

/// The items of every row one after the other: first of all operands, then of all results.
constexpr auto kGroups = [] {
  constexpr std::size_t kCount = [] {
    std::size_t n = 0;
    for (const Row& row : kRows) n += count_items(row.operands) + count_items(row.results);
    return n;
  }();
  std::array<GroupInfo, kCount> all{};
  auto next = all.begin();
  for (const auto column : {&Row::operands, &Row::results}) {
    for (const Row& row : kRows) {
      for (std::string_view text = row.*column; !text.empty();) *next++ = parse_group(row, take_item(text));
    }
  }
  return all;
}();

constexpr auto kAttributes = [] {
  constexpr std::size_t kCount = [] {
    std::size_t n = 0;
    for (const Row& row : kRows) n += count_items(row.attributes);
    return n;
  }();
  std::array<AttrInfo, kCount> all{};
  auto next = all.begin();
  for (const Row& row : kRows) {
    for (std::string_view text = row.attributes; !text.empty();) *next++ = parse_attr(row, take_item(text));
  }
  return all;
}();

/// In the order of the enumeration, which is that of the rows.
constexpr auto kOps = [] {
  std::array<OpInfo, kNumOps> ops{};
  const GroupInfo* group = kGroups.data();
  const AttrInfo* attribute = kAttributes.data();
  const auto take = [](auto*& next, std::string_view text) {
    const std::span taken(next, count_items(text));
    next += taken.size();
    return taken;
  };
  for (const Row& row : kRows) {
    OpInfo& info = ops[static_cast<std::size_t>(row.op)];
    info = {row.op, row.mnemonic, row.opcode, row.since, row.traits, {}, {}, take(attribute, row.attributes)};
    info.operands = take(group, row.operands);
  }
  for (const Row& row : kRows) ops[static_cast<std::size_t>(row.op)].results = take(group, row.results);
  return ops;
}();

}  // namespace

const char* text(AttrName name) { return kAttrNames[static_cast<std::size_t>(name)]; }

int OpInfo::operand_group(std::string_view name) const {
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].name == name) return static_cast<int>(i);
  return -1;
}

const AttrInfo* OpInfo::attribute(AttrName name) const {
  for (const AttrInfo& a : attributes)
    if (a.name == name) return &a;
  return nullptr;
}

const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }
std::span<const OpInfo> all_ops() { return kOps; }
const OpInfo* find_op(std::string_view mnemonic) {
  const auto at = std::find_if(kOps.begin(), kOps.end(), [&](const OpInfo& o) { return o.mnemonic == mnemonic; });
  return at == kOps.end() ? nullptr : &*at;
}
const OpInfo* find_opcode(std::uint16_t opcode) {
  const auto at = std::find_if(kOps.begin(), kOps.end(), [&](const OpInfo& o) { return o.opcode == opcode; });
  return at == kOps.end() ? nullptr : &*at;
}

}  // namespace tessera::ir
