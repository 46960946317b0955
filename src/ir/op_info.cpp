// Reads the strings of ops.def once, when the table is first asked for.
#include "tessera/ir/op_info.hpp"

#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

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

[[noreturn]] void bad_row(const Row& row, std::string_view item) {
  throw InternalError(concat("ops.def, row ", row.mnemonic, ": cannot read `", item, "`"));
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> items;
  while (!text.empty()) {
    std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    items.push_back(item);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return items;
}

/// Takes a trailing `<mark>number` off `item`; `fallback` if there is none.
int take_number(std::string_view& item, char mark, int fallback) {
  std::size_t at = item.rfind(mark);
  if (at == std::string_view::npos) return fallback;
  int value = 0;
  for (char c : item.substr(at + 1)) value = value * 10 + (c - '0');
  item = item.substr(0, at);
  return value;
}

bool take_suffix(std::string_view& item, char c) {
  if (!item.ends_with(c)) return false;
  item.remove_suffix(1);
  return true;
}

GroupInfo parse_group(const Row& row, std::string_view item) {
  GroupInfo g{};
  g.since = static_cast<std::uint8_t>(take_number(item, '@', row.since));
  g.arity = take_suffix(item, '?') ? Arity::Optional : take_suffix(item, '*') ? Arity::Variadic : Arity::One;
  std::size_t colon = item.find(':');
  if (colon == std::string_view::npos) bad_row(row, item);
  g.name = item.substr(0, colon);
  for (const ClassName& c : kClasses) {
    if (c.name != item.substr(colon + 1)) continue;
    g.type_class = c.type_class;
    return g;
  }
  bad_row(row, item);
}

AttrName attr_name(const Row& row, std::string_view name) {
  for (std::size_t i = 0; i < std::size(kAttrNames); ++i)
    if (name == kAttrNames[i]) return static_cast<AttrName>(i);
  bad_row(row, name);
}

AttrInfo parse_attr(const Row& row, std::string_view item) {
  AttrInfo a{};
  a.implied = static_cast<std::int16_t>(take_number(item, '=', -1));
  a.since = static_cast<std::uint8_t>(take_number(item, '@', row.since));
  a.optional = take_suffix(item, '?');
  std::size_t colon = item.find(':');
  if (colon == std::string_view::npos) bad_row(row, item);
  a.name = attr_name(row, item.substr(0, colon));
  for (const KindName& k : kKinds) {
    if (k.name != item.substr(colon + 1)) continue;
    a.kind = k.kind;
    a.optional = a.optional || k.kind == AttrKind::Unit;
    return a;
  }
  bad_row(row, item);
}

struct OpTable {
  std::array<OpInfo, kNumOps> ops{};
  std::deque<std::vector<GroupInfo>> groups;  ///< what the spans of `ops` refer to
  std::deque<std::vector<AttrInfo>> attributes;
  std::unordered_map<std::string_view, const OpInfo*> by_mnemonic;
  std::unordered_map<std::uint16_t, const OpInfo*> by_opcode;

  OpTable() {
    for (const Row& row : kRows) {
      OpInfo& info = ops[static_cast<std::size_t>(row.op)];
      info = {row.op, row.mnemonic, row.opcode, row.since, row.traits, {}, {}, {}};
      info.operands = parse_groups(row, row.operands);
      info.results = parse_groups(row, row.results);
      auto& attrs = attributes.emplace_back();
      for (std::string_view item : split(row.attributes)) attrs.push_back(parse_attr(row, item));
      info.attributes = attrs;
      by_mnemonic.emplace(info.mnemonic, &info);
      by_opcode.emplace(info.opcode, &info);
    }
  }

  std::span<const GroupInfo> parse_groups(const Row& row, std::string_view text) {
    auto& list = groups.emplace_back();
    for (std::string_view item : split(text)) list.push_back(parse_group(row, item));
    return list;
  }

  static const OpTable& get() {
    static const OpTable table;
    return table;
  }
};

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

const OpInfo& info(Op op) { return OpTable::get().ops[static_cast<std::size_t>(op)]; }
std::span<const OpInfo> all_ops() { return OpTable::get().ops; }
const OpInfo* find_op(std::string_view mnemonic) {
  auto it = OpTable::get().by_mnemonic.find(mnemonic);
  return it == OpTable::get().by_mnemonic.end() ? nullptr : it->second;
}
const OpInfo* find_opcode(std::uint16_t opcode) {
  auto it = OpTable::get().by_opcode.find(opcode);
  return it == OpTable::get().by_opcode.end() ? nullptr : it->second;
}

}  // namespace tessera::ir
