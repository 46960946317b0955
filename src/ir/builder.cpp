// Creating operations and constants, and deep copies.
#include <unordered_map>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::ir {

namespace {

/// Sizes per operand group when only their sum is given: at most one group may be open-ended.
std::vector<std::uint32_t> derive_group_sizes(const OpInfo& info, std::size_t operands) {
  std::vector<std::uint32_t> sizes(info.operands.size(), 0);
  std::size_t fixed = 0, open = sizes.size();
  bool several_open = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (info.operands[i].arity == Arity::One) {
      sizes[i] = 1;
      ++fixed;
    } else {
      several_open = several_open || open != sizes.size();
      open = i;
    }
  }
  if (operands == fixed) return sizes;
  if (operands < fixed || open == sizes.size())
    throw InternalError(concat(info.mnemonic, ": expected ", fixed, " operands, found ", operands));
  if (several_open) throw InternalError(concat(info.mnemonic, " has several open operand groups: use create_grouped"));
  sizes[open] = static_cast<std::uint32_t>(operands - fixed);
  return sizes;
}

std::vector<std::byte> little_endian(std::uint64_t bits, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(bits >> (8 * i));
  return out;
}

/// Copies structure first and operands second, so that any order of definition and use survives.
class Cloner {
 public:
  void structure(const Block& from, Block& to) {
    for (std::size_t i = 0; i < from.num_args(); ++i) map_[from.arg(i).impl()] = to.add_arg(from.arg(i).type());
    Builder builder(to);
    for (const Operation& op : from) {
      Operation& copy = *builder.create_unconnected(op.op());
      copy.loc = op.loc;
      for (const NamedAttr& a : op.attrs()) copy.set_attr(a.name, a.value);
      for (std::size_t i = 0; i < op.num_results(); ++i)
        map_[op.result(i).impl()] = copy.add_result(op.result(i).type());
      for (std::size_t i = 0; i < op.num_regions(); ++i) structure(op.region(i), copy.add_region());
    }
  }
  void operands(const Block& from, const Block& to) {
    auto copy = to.begin();
    for (const Operation& op : from) {
      std::vector<Value> values;
      for (const OpOperand& use : op.operands()) values.push_back(mapped(use.value));
      copy->set_operands(values, op.group_sizes());
      for (std::size_t i = 0; i < op.num_regions(); ++i) operands(op.region(i), copy->region(i));
      ++copy;
    }
  }

 private:
  Value mapped(Value v) const {
    if (!v) return v;
    auto it = map_.find(v.impl());
    if (it == map_.end()) throw InternalError("clone: an operand is defined outside what is copied");
    return it->second;
  }
  std::unordered_map<const ValueImpl*, Value> map_;
};

}  // namespace

Operation* Builder::create_unconnected(Op op) {
  std::unique_ptr<Operation> owned(new Operation(op));
  Operation* created = owned.get();
  created->loc = loc;
  created->group_sizes_.assign(created->info().operands.size(), 0);
  block_->link(std::move(owned), before_);
  return created;
}

Operation* Builder::create_grouped(Op op, std::span<const Value> operands, std::span<const std::uint32_t> group_sizes,
                                   std::span<const Type> results, std::initializer_list<NamedAttr> attrs) {
  Operation* created = create_unconnected(op);
  created->set_operands(operands, group_sizes);
  for (Type t : results) created->add_result(t);
  created->attrs_.assign(attrs.begin(), attrs.end());
  return created;
}

Operation* Builder::create(Op op, std::span<const Value> operands, std::span<const Type> results,
                           std::initializer_list<NamedAttr> attrs) {
  return create_grouped(op, operands, derive_group_sizes(ir::info(op), operands.size()), results, attrs);
}

Value Builder::constant(Type tile, const Attribute& dense) {
  return create(Op::Constant, {}, {tile}, {{AttrName::value, dense}})->result();
}

Value Builder::constant_int(Elem elem, std::int64_t value, std::span<const std::int64_t> shape) {
  Type tile = Type::tile(Type::element(elem), shape);
  std::uint64_t bits = static_cast<std::uint64_t>(value);
  const ElemInfo& e = ir::info(elem);
  if (e.bits < 64) bits &= (std::uint64_t{1} << e.bits) - 1;
  return constant(tile, DenseAttr{tile, little_endian(bits, e.bytes), true});
}

Value Builder::constant_float(Elem elem, double value, std::span<const std::int64_t> shape) {
  Type tile = Type::tile(Type::element(elem), shape);
  return constant(tile, DenseAttr{tile, little_endian(from_double(elem, value), ir::info(elem).bytes), true});
}

std::unique_ptr<Module> clone(const Module& module) {
  auto copy = std::make_unique<Module>();
  copy->name = module.name;
  copy->producer = module.producer;
  copy->globals = module.globals;
  for (const auto& function : module.functions) {
    Function& f = copy->add_function(function->name, function->entry);
    f.hints = function->hints;
    f.loc = function->loc;
    Cloner cloner;
    cloner.structure(function->body(), f.body());
    cloner.operands(function->body(), f.body());
  }
  return copy;
}

}  // namespace tessera::ir
