// Bytecode: functions, operations, sections. What an operation's encoding looks like follows from its row in ops.def.
#include <algorithm>

#include "ir/bytecode_tables.hpp"
#include "ir/bytecode_tags.hpp"
#include "ir/bytecode_versions.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {

namespace {

class ModuleWriter {
 public:
  ModuleWriter(const Module& module, WriteOptions options)
      : module_(module), options_(options), tables_(options.version) {}

  std::vector<std::byte> write() {
    write_header();
    ByteWriter globals, functions, debug;
    write_globals(globals);
    functions.varint(module_.functions.size());
    for (const auto& f : module_.functions) write_function(functions, *f);
    std::uint64_t producer = 0;
    const bool has_producer = !module_.producer.empty() && minor() >= 3;
    if (has_producer) producer = tables_.string(module_.producer);

    section(kFunc, 8, functions);
    if (!module_.globals.empty()) section(kGlobal, 1, globals);
    section(kConstant, 8, tables_.constants);
    write_debug(debug);
    section(kDebug, 8, debug);
    section(kType, 4, tables_.types);
    if (has_producer) {
      ByteWriter payload;
      payload.varint(producer);
      section(kProducer, 1, payload);
    }
    section(kString, 4, tables_.strings);
    out_.byte(kEnd);
    const std::string& bytes = out_.bytes();
    auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    return {first, first + bytes.size()};
  }

 private:
  int minor() const { return options_.version.minor; }

  void write_header() {
    out_.raw(kBytecodeMagic);
    out_.byte(options_.version.major);
    out_.byte(options_.version.minor);
    out_.little_endian(0, 2);  // tag
  }

  void section(Section id, int alignment, const ByteWriter& payload) {
    out_.byte(static_cast<std::uint8_t>(id | (alignment > 1 ? kAligned : 0)));
    out_.varint(payload.size());
    if (alignment > 1) {
      out_.varint(static_cast<std::uint64_t>(alignment));
      out_.pad(static_cast<std::size_t>(alignment));
    }
    out_.raw(payload.bytes());
  }
  void section(Section id, int alignment, const ByteTable& table) {
    ByteWriter payload;
    table.write(payload, alignment);
    section(id, alignment, payload);
  }

  void write_globals(ByteWriter& out) {
    out.varint(module_.globals.size());
    for (const Global& g : module_.globals) {
      std::uint64_t type = tables_.type(g.value.type);
      out.varint(tables_.string(g.name));
      out.varint(type);
      out.varint(tables_.constant(g.value));
      out.varint(static_cast<std::uint64_t>(g.alignment));
      if (minor() < 3) continue;
      out.byte(g.is_private ? 1 : 0);
      out.varint(g.constant ? 1 : 0);
    }
  }

  void write_function(ByteWriter& out, const Function& f) {
    function_ = &f;
    next_value_ = 0;
    value_ids_.clear();
    debug_ids_.emplace_back();
    std::vector<Type> inputs;
    for (std::size_t i = 0; i < f.body().num_args(); ++i) {
      inputs.push_back(f.body().arg(i).type());
      tables_.type(inputs.back());
      number(f.body().arg(i));
    }
    record_location(f.loc);
    out.varint(tables_.string(f.name));
    out.varint(tables_.type(Type::function(inputs, {})));
    const bool hints = f.entry && !f.hints.entries.empty();
    out.byte(static_cast<std::uint8_t>((f.entry ? kEntryFunction : 0) | (hints ? kHintedFunction : 0)));
    out.varint(debug_ids_.size());
    if (hints) tables_.tagged_hints(out, f.hints);
    ByteWriter body;
    for (const Operation& op : f.body()) write_op(body, op);
    out.varint(body.size());
    out.raw(body.bytes());
  }

  void record_location(const SourceLocation& loc) {
    debug_ids_.back().push_back(options_.debug_info ? tables_.location(loc, *function_) : 0);
  }

  void number(Value v) { value_ids_[v.impl()] = next_value_++; }

  void write_value(ByteWriter& out, Value v) {
    auto it = value_ids_.find(v.impl());
    if (it == value_ids_.end())
      throw InternalError("bytecode: an operand is not defined before its use (run the verifier first)");
    out.varint(it->second);
  }

  void write_op(ByteWriter& out, const Operation& op) {
    const OpInfo& info = op.info();
    record_location(op.loc);
    out.varint(info.opcode);
    write_result_types(out, op);
    write_flags(out, op);
    for (const AttrInfo& a : info.attributes) write_attribute(out, op, a);
    write_operands(out, op);
    if (info.has(traits::Regions)) write_regions(out, op);
    for (std::size_t i = 0; i < written_results(op); ++i) number(op.result(i));
  }

  /// Results that this version knows (print_tko had no token before 13.2).
  std::size_t written_results(const Operation& op) const {
    std::size_t n = op.num_results();
    for (const GroupInfo& g : op.info().results)
      if (g.since > minor() && n > 0) --n;
    return n;
  }

  void write_result_types(ByteWriter& out, const Operation& op) {
    auto variadic = [](const GroupInfo& g) { return g.arity == Arity::Variadic; };
    std::size_t n = written_results(op);
    std::vector<std::uint64_t> types;
    for (std::size_t i = 0; i < n; ++i) types.push_back(tables_.type(op.result(i).type()));
    if (std::ranges::any_of(op.info().operands, variadic) || std::ranges::any_of(op.info().results, variadic))
      out.varint(n);
    for (std::uint64_t t : types) out.varint(t);
  }

  /// One bit per optional attribute and (in segmented ops) optional operand, oldest first, attributes before operands.
  void write_flags(ByteWriter& out, const Operation& op) {
    const OpInfo& info = op.info();
    std::uint64_t flags = 0;
    int bit = 0;
    bool any = false;
    for (int version = 1; version <= minor(); ++version) {
      for (const AttrInfo& a : info.attributes) {
        if (!a.optional || a.since != version) continue;
        any = true;
        flags |= std::uint64_t{has_attribute(op, a)} << bit++;
      }
      if (!info.has(traits::Segmented)) continue;
      for (std::size_t g = 0; g < info.operands.size(); ++g) {
        if (info.operands[g].arity != Arity::Optional || info.operands[g].since != version) continue;
        any = true;
        flags |= std::uint64_t{op.group_sizes()[g] != 0} << bit++;
      }
    }
    if (any) out.varint(flags);
  }

  /// An optional attribute is there; an empty dictionary of hints counts as absent.
  static bool has_attribute(const Operation& op, const AttrInfo& a) {
    const Attribute* value = op.attr(a.name);
    if (!value) return false;
    if (const bool* flag = value->as<bool>(); flag && a.kind == AttrKind::Unit) return *flag;
    const DictAttr* dict = value->as<DictAttr>();
    return !dict || !dict->entries.empty();
  }

  void write_attribute(ByteWriter& out, const Operation& op, const AttrInfo& a) {
    if (a.kind == AttrKind::Unit || a.since > minor()) return;
    if (a.optional && !has_attribute(op, a)) return;
    const Attribute* value = op.attr(a.name);
    if (!value && a.implied < 0)
      throw InternalError(concat("bytecode: ", op.info().mnemonic, " lacks its attribute ", text(a.name)));
    switch (a.kind) {
      case AttrKind::Unit: break;
      case AttrKind::Bool: out.byte(value ? *value->as<bool>() : a.implied != 0); break;
      case AttrKind::I32:
      case AttrKind::I64:
        out.varint(static_cast<std::uint64_t>(value ? value->as<IntAttr>()->value : a.implied));
        break;
      case AttrKind::String:
      case AttrKind::Symbol: out.varint(tables_.string(*value->as<std::string>())); break;
      case AttrKind::Dense: out.varint(tables_.constant(*value->as<DenseAttr>())); break;
      case AttrKind::Dict: tables_.dictionary(out, *value->as<DictAttr>()); break;
      case AttrKind::Tagged: tables_.tagged(out, *value); break;
      case AttrKind::TaggedArray: {
        const auto& items = value->as<ArrayAttr>()->items;
        out.varint(items.size());
        for (const Attribute& item : items) tables_.tagged(out, item);
        break;
      }
      case AttrKind::I32Array: out.int_list(value->as<I32ArrayAttr>()->values, 4); break;
      case AttrKind::BoolArray:
        out.int_list(value ? value->as<BoolArrayAttr>()->values : std::vector<bool>(op.group("index").size()), 1);
        break;
      default: out.byte(value ? value->as<EnumAttr>()->value : static_cast<std::uint8_t>(a.implied)); break;
    }
  }

  void write_operands(ByteWriter& out, const Operation& op) {
    const OpInfo& info = op.info();
    const bool segmented = info.has(traits::Segmented);
    auto open = [](const GroupInfo& g) { return g.arity != Arity::One; };
    if (!segmented && std::ranges::any_of(info.operands, open)) out.varint(op.num_operands());
    std::size_t next = 0;
    for (std::size_t g = 0; g < info.operands.size(); ++g) {
      const std::uint32_t size = op.group_sizes()[g];
      if (segmented && info.operands[g].arity == Arity::Variadic) out.varint(size);
      for (std::uint32_t i = 0; i < size; ++i) write_value(out, op.operand(next++));
    }
  }

  void write_regions(ByteWriter& out, const Operation& op) {
    const std::size_t regions = op.op() == Op::If ? 2 : op.num_regions();
    out.varint(regions);
    for (std::size_t r = 0; r < regions; ++r) {
      if (r >= op.num_regions() || op.region(r).empty()) {  // an `if` without `else`: a region without blocks
        out.varint(0);
        continue;
      }
      const Block& block = op.region(r);
      const std::uint64_t outer_next = next_value_;
      out.varint(1);  // blocks of the region
      out.varint(block.num_args());
      for (std::size_t i = 0; i < block.num_args(); ++i) {
        out.varint(tables_.type(block.arg(i).type()));
        number(block.arg(i));
      }
      std::uint64_t ops = 0;
      for ([[maybe_unused]] const Operation& inner : block) ++ops;
      out.varint(ops);
      for (const Operation& inner : block) write_op(out, inner);
      next_value_ = outer_next;
    }
  }

  void write_debug(ByteWriter& out) {
    out.varint(debug_ids_.size());
    out.pad(4);
    std::uint64_t offset = 0;
    for (const auto& ids : debug_ids_) {
      out.little_endian(offset, 4);
      offset += ids.size();
    }
    out.varint(offset);
    out.pad(8);
    for (const auto& ids : debug_ids_)
      for (std::uint64_t id : ids) out.little_endian(id, 8);
    if (tables_.debug.empty()) tables_.debug.id(std::string_view("\0", 1));  // readers do not accept an empty table
    tables_.debug.write(out, 4);
  }

  const Module& module_;
  WriteOptions options_;
  BytecodeTables tables_;
  ByteWriter out_;
  const Function* function_ = nullptr;
  std::uint64_t next_value_ = 0;
  std::unordered_map<const ValueImpl*, std::uint64_t> value_ids_;
  std::vector<std::vector<std::uint64_t>> debug_ids_;  ///< per function: its own, then one per operation
};

}  // namespace

std::vector<std::byte> write_bytecode(const Module& module, WriteOptions options) {
  check_version(module, options.version);
  return ModuleWriter(module, options).write();
}

}  // namespace tessera::ir
