// Bytecode: globals, functions, operations. What an operation's encoding looks like follows from its row in ops.def.
#include <algorithm>
#include <numeric>

#include "ir/bytecode_sections.hpp"
#include "ir/read_limits.hpp"
#include "tessera/ir/verifier.hpp"

namespace tessera::ir {

namespace {

bool is_variadic(const GroupInfo& g) { return g.arity == Arity::Variadic; }
bool is_open(const GroupInfo& g) { return g.arity != Arity::One; }

/// The value says no more than the attribute's absence.
bool says_nothing(const AttrInfo& a, const Attribute& value) {
  if (a.implied < 0) return false;
  if (const auto* e = value.as<EnumAttr>()) return e->value == a.implied;
  if (const auto* b = value.as<bool>()) return *b == (a.implied != 0);
  const auto* flags = value.as<BoolArrayAttr>();
  return flags && std::ranges::all_of(flags->values, [&](bool b) { return b == (a.implied != 0); });
}

class FunctionReader {
 public:
  FunctionReader(BytecodeSections& file, Function& function, BytecodeSections::Places places)
      : file_(file), places_(places) {
    function.loc = next_place();
    for (std::size_t i = 0; i < function.body().num_args(); ++i) values_.push_back(function.body().arg(i));
    body_ = &function.body();
  }

  void read(ByteReader& in) {
    while (!in.ended()) operation(in, *body_, 0);
  }

 private:
  /// Which optional attributes and operand groups an operation has.
  struct Present {
    std::vector<bool> attributes, groups;
  };

  int minor() const { return file_.version().minor; }
  SourceLocation next_place() { return file_.place(places_, place_++); }

  void operation(ByteReader& in, Block& block, int depth) {
    const std::uint64_t opcode = in.varint("an opcode");
    const OpInfo* info = opcode <= UINT16_MAX ? find_opcode(static_cast<std::uint16_t>(opcode)) : nullptr;
    if (!info || info->has(traits::ModuleLevel)) in.fail("expected the opcode of an operation, found ", opcode);
    if (info->since > minor()) in.fail(info->mnemonic, " came with 13.", int{info->since});
    const SourceLocation loc = next_place();
    std::vector<Type> results = result_types(in, *info);
    const std::size_t numbered = results.size();
    add_newer_results(in, *info, results);
    const Present present = flags(in, *info);
    std::vector<NamedAttr> attributes = read_attributes(in, *info, present, results);
    std::vector<std::uint32_t> sizes;
    const std::vector<Value> operands = read_operands(in, *info, present, sizes);
    Operation* op = Builder(block).create_unconnected(info->op);
    op->loc = loc;
    op->set_operands(operands, sizes);
    for (Type t : results) op->add_result(t);
    for (NamedAttr& a : attributes) op->set_attr(a.name, std::move(a.value));
    if (info->has(traits::Regions)) regions(in, *op, depth);
    for (std::size_t i = 0; i < numbered; ++i) values_.push_back(op->result(i));
  }

  /// Results that this version knows. Their number is written where a group is variadic.
  std::vector<Type> result_types(ByteReader& in, const OpInfo& info) {
    std::size_t n = 0;
    for (const GroupInfo& g : info.results)
      if (g.since <= minor()) ++n;
    const bool variadic = std::ranges::any_of(info.results, is_variadic);
    if (variadic || std::ranges::any_of(info.operands, is_variadic)) {
      const std::size_t found = in.count("results");
      if (!variadic && found != n) in.fail("expected ", n, " results of ", info.mnemonic, ", found ", found);
      n = found;
    }
    std::vector<Type> types;
    for (std::size_t i = 0; i < n; ++i) types.push_back(file_.value_type(in, "the type of a result"));
    return types;
  }

  /// A result that the file's version does not know is there, without a number: only tokens came later.
  void add_newer_results(const ByteReader& in, const OpInfo& info, std::vector<Type>& types) {
    for (const GroupInfo& g : info.results) {
      if (g.since <= minor()) continue;
      if (g.type_class != TypeClass::Token) in.fail("the result ", g.name, " of ", info.mnemonic, " came later");
      types.push_back(Type::token());
    }
  }

  /// One bit per optional attribute and (in segmented operations) optional operand, oldest first, attributes before
  /// operands.
  Present flags(ByteReader& in, const OpInfo& info) {
    Present present{std::vector<bool>(info.attributes.size()), std::vector<bool>(info.operands.size())};
    std::vector<std::vector<bool>::reference> bits;
    for (int version = 1; version <= minor(); ++version) {
      for (std::size_t i = 0; i < info.attributes.size(); ++i)
        if (info.attributes[i].optional && info.attributes[i].since == version) bits.push_back(present.attributes[i]);
      if (!info.has(traits::Segmented)) continue;
      for (std::size_t g = 0; g < info.operands.size(); ++g)
        if (info.operands[g].arity == Arity::Optional && info.operands[g].since == version)
          bits.push_back(present.groups[g]);
    }
    if (bits.empty()) return present;
    const std::uint64_t flags = in.number("the flags of an operation", mask_of(static_cast<int>(bits.size())));
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = ((flags >> i) & 1) != 0;
    return present;
  }

  std::vector<NamedAttr> read_attributes(ByteReader& in, const OpInfo& info, const Present& present,
                                         const std::vector<Type>& results) {
    std::vector<NamedAttr> attributes;
    for (std::size_t i = 0; i < info.attributes.size(); ++i) {
      const AttrInfo& a = info.attributes[i];
      if (a.since > minor() || (a.optional && !present.attributes[i])) continue;
      Attribute value = attribute(in, a.kind, results);
      if (!says_nothing(a, value)) attributes.push_back({a.name, std::move(value)});
    }
    return attributes;
  }

  Attribute attribute(ByteReader& in, AttrKind kind, const std::vector<Type>& results) {
    switch (kind) {
      case AttrKind::Unit: return UnitAttr{};
      case AttrKind::Bool: return in.number("a truth value", 1) != 0;
      case AttrKind::I32: return IntAttr{Elem::I32, static_cast<std::int32_t>(in.number("an integer", UINT32_MAX))};
      case AttrKind::I64: return IntAttr{Elem::I64, static_cast<std::int64_t>(in.varint("an integer"))};
      case AttrKind::String:
      case AttrKind::Symbol: return file_.string(in, "a string");
      case AttrKind::Dense: return file_.constant(in, results.at(0));
      case AttrKind::Dict: return file_.dictionary(in);
      case AttrKind::Tagged: return file_.tagged(in);
      case AttrKind::TaggedArray: return tagged_array(in);
      case AttrKind::I32Array: return I32ArrayAttr{in.int_list<std::int32_t>("integers")};
      case AttrKind::BoolArray: return truths(in);
      default: break;
    }
    const std::uint8_t value = in.byte("an enumeration");
    if (value >= enum_names(kind).size())
      in.fail("expected the number of an enumeration below ", enum_names(kind).size(), ", found ", int{value});
    return EnumAttr{value};
  }

  /// Identities. Those of i1 are truth values (as cuTile writes them) or integers.
  ArrayAttr tagged_array(ByteReader& in) {
    ArrayAttr array;
    const std::size_t n = in.count("items of an array");
    for (std::size_t i = 0; i < n; ++i) {
      Attribute item = file_.tagged(in);
      if (const bool* truth = item.as<bool>()) item = IntAttr{Elem::I1, *truth ? 1 : 0};
      array.items.push_back(std::move(item));
    }
    return array;
  }

  static BoolArrayAttr truths(ByteReader& in) {
    BoolArrayAttr array;
    for (const std::uint8_t b : in.int_list<std::uint8_t>("truth values")) {
      if (b > 1) in.fail("expected truth values 0 and 1, found ", int{b});
      array.values.push_back(b != 0);
    }
    return array;
  }

  Value value(ByteReader& in) {
    const std::uint64_t number = in.varint("an operand");
    if (number >= values_.size())
      in.fail("expected a value that is defined before its use (below ", values_.size(), "), found ", number);
    return values_[static_cast<std::size_t>(number)];
  }

  std::vector<Value> read_operands(ByteReader& in, const OpInfo& info, const Present& present,
                                   std::vector<std::uint32_t>& sizes) {
    std::vector<Value> operands;
    if (info.has(traits::Segmented)) {
      for (std::size_t g = 0; g < info.operands.size(); ++g) {
        const Arity arity = info.operands[g].arity;
        const std::size_t n = arity == Arity::Variadic   ? in.count("operands")
                              : arity == Arity::Optional ? (present.groups[g] ? 1 : 0)
                                                         : 1;
        sizes.push_back(static_cast<std::uint32_t>(n));
        for (std::size_t i = 0; i < n; ++i) operands.push_back(value(in));
      }
      if (info.op == Op::LoadPtrTko) drop_idle_padding(info, operands, sizes);
      return operands;
    }
    const std::size_t n = total_operands(in, info, sizes);
    for (std::size_t i = 0; i < n; ++i) operands.push_back(value(in));
    return operands;
  }

  /// Without a mask a padding value pads nothing, and text cannot have one. cuTile Python writes it for gathers without
  /// checks of bounds, and NVIDIA's verifier accepts it.
  static void drop_idle_padding(const OpInfo& info, std::vector<Value>& operands, std::vector<std::uint32_t>& sizes) {
    const auto mask = static_cast<std::size_t>(info.operand_group("mask"));
    const auto padding = static_cast<std::size_t>(info.operand_group("paddingValue"));
    if (sizes[mask] != 0 || sizes[padding] == 0) return;
    const auto before = std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(padding), 0);
    operands.erase(operands.begin() + before);
    sizes[padding] = 0;
  }

  /// Operations whose operands are not encoded by group have at most one open group: it has what the others leave.
  static std::size_t total_operands(ByteReader& in, const OpInfo& info, std::vector<std::uint32_t>& sizes) {
    const auto open = std::ranges::find_if(info.operands, is_open);
    std::size_t n = info.operands.size();
    if (open == info.operands.end()) {
      sizes.assign(n, 1);
      return n;
    }
    const std::size_t fixed = n - 1;
    n = in.count("operands");
    const std::size_t most = open->arity == Arity::Optional ? fixed + 1 : n;
    if (n < fixed || n > most) in.fail("expected ", fixed, " operands of ", info.mnemonic, " or more, found ", n);
    sizes.assign(info.operands.size(), 1);
    sizes[static_cast<std::size_t>(open - info.operands.begin())] = static_cast<std::uint32_t>(n - fixed);
    return n;
  }

  void regions(ByteReader& in, Operation& op, int depth) {
    if (depth >= kMaxRegionDepth) in.fail("expected at most ", kMaxRegionDepth, " regions in each other, found more");
    const bool branch = op.op() == Op::If;
    const std::uint64_t n = in.number("the number of regions", branch ? 2 : 1);
    if (n == 0) in.fail("expected a region of ", op.info().mnemonic, ", found none");
    for (std::uint64_t r = 0; r < n; ++r) {
      const std::uint64_t blocks = in.number("the number of blocks of a region", 1);
      if (blocks == 0 && r == 1) continue;  // an `if` without `else`
      Block& block = op.add_region();
      if (blocks == 1) region(in, block, depth);
    }
  }

  void region(ByteReader& in, Block& block, int depth) {
    const std::size_t outer = values_.size();
    const std::size_t arguments = in.count("arguments of a region");
    for (std::size_t i = 0; i < arguments; ++i)
      values_.push_back(block.add_arg(file_.value_type(in, "the type of an argument")));
    const std::size_t operations = in.count("operations of a region");
    for (std::size_t i = 0; i < operations; ++i) operation(in, block, depth + 1);
    values_.resize(outer);
  }

  BytecodeSections& file_;
  BytecodeSections::Places places_;
  std::size_t place_ = 0;
  Block* body_ = nullptr;
  std::vector<Value> values_;
};

class ModuleReader {
 public:
  ModuleReader(const std::string& file, std::string_view bytes) : file_(file, bytes) {}

  ReadModule read() {
    if (auto in = file_.section(kGlobal)) globals(*in);
    if (auto in = file_.section(kProducer)) module_->producer = file_.string(*in, "the producer");
    functions(*file_.section(kFunc));
    return {std::move(module_), file_.version()};
  }

 private:
  void globals(ByteReader in) {
    const std::size_t n = in.count("globals");
    for (std::size_t i = 0; i < n; ++i) {
      Global g;
      g.name = file_.string(in, "the name of a global");
      const Type type = file_.value_type(in, "the type of a global");
      g.value = file_.constant(in, type);
      g.alignment = static_cast<std::int64_t>(in.number("an alignment", INT64_MAX));
      if (file_.at_least(3)) {
        g.is_private = in.number("a visibility", 1) != 0;
        g.constant = in.number("whether a global is constant", 1) != 0;
      }
      module_->globals.push_back(std::move(g));
    }
    if (!in.ended()) in.fail("expected the end of the globals, found ", in.left(), " more bytes");
  }

  void functions(ByteReader in) {
    const std::size_t n = in.count("functions");
    for (std::size_t i = 0; i < n; ++i) function(in);
    if (!in.ended()) in.fail("expected the end of the functions, found ", in.left(), " more bytes");
  }

  void function(ByteReader& in) {
    std::string name = file_.string(in, "the name of a function");
    const Type type = file_.type(in, "the type of a function");
    if (type.kind() != TypeKind::Function) in.fail("expected the type of a function, found ", type.str());
    if (!type.results().empty()) in.fail("expected a function without results, found ", type.str());
    const std::uint8_t flags = in.byte("the flags of a function");
    if ((flags & ~(kEntryFunction | kHintedFunction)) != 0)
      in.fail("expected a public function or entry, found flags ", int{flags});
    Function& f = module_->add_function(std::move(name), (flags & kEntryFunction) != 0);
    file_.charge(in, type.inputs().size() * sizeof(ValueImpl));
    for (Type t : type.inputs()) f.body().add_arg(t);
    const std::uint64_t debug = in.varint("the debug information of a function");
    if ((flags & kHintedFunction) != 0) f.hints = hints(in);
    ByteReader body = in.part(in.varint("the size of a function"), "a function");
    FunctionReader(file_, f, file_.places(debug)).read(body);
  }

  DictAttr hints(ByteReader& in) {
    const Attribute hints = file_.tagged(in);
    const auto* dict = hints.as<DictAttr>();
    if (!dict) in.fail("expected a dictionary of hints, found another attribute");
    return *dict;
  }

  BytecodeSections file_;
  std::unique_ptr<Module> module_ = std::make_unique<Module>();
};

}  // namespace

ReadModule read_bytecode(std::span<const std::byte> bytes, const ReadOptions& options) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ReadModule read = ModuleReader(options.file, text).read();
  if (options.verify) verify_or_throw(*read.module);
  return read;
}

}  // namespace tessera::ir
