// Copying and inlining operations (see rewriter.hpp).
#include "passes/rewriter.hpp"

#include "passes/values.hpp"

namespace tessera::passes {

using ir::Block;
using ir::Builder;
using ir::Operation;
using ir::Value;

Value Copier::mapped(Value v) const {
  if (!v) return v;
  const auto it = map_.find(v.impl());
  return it == map_.end() ? v : it->second;
}

std::vector<Value> Copier::mapped(const std::vector<Value>& values) const {
  std::vector<Value> out;
  for (const Value v : values) out.push_back(mapped(v));
  return out;
}

Operation* Copier::copy(const Operation& op, Builder& at) {
  Operation* made = at.create_unconnected(op.op());
  made->loc = op.loc;
  for (const ir::NamedAttr& a : op.attrs()) made->set_attr(a.name, a.value);
  made->set_operands(mapped(op.operand_values()), op.group_sizes());
  for (std::size_t i = 0; i < op.num_results(); ++i) map(op.result(i), made->add_result(op.result(i).type()));
  for (std::size_t i = 0; i < op.num_regions(); ++i) copy_block(op.region(i), made->add_region());
  return made;
}

void Copier::copy_block(const Block& from, Block& to) {
  for (std::size_t i = 0; i < from.num_args(); ++i) map(from.arg(i), to.add_arg(from.arg(i).type()));
  Builder b(to);
  for (const Operation& op : from) copy(op, b);
}

void Copier::copy_body(const Block& block, Builder& at) {
  for (const Operation& op : block)
    if (!op.info().has(ir::traits::Terminator)) copy(op, at);
}

std::vector<Value> combined_elementwise(Builder& b, const Operation& aggregate, const std::vector<Value>& arguments,
                                        std::span<const std::int64_t> shape) {
  const Block& region = aggregate.region(0);
  std::unordered_map<const ir::ValueImpl*, Value> of;
  for (std::size_t i = 0; i < arguments.size(); ++i) of[region.arg(i).impl()] = arguments[i];
  const auto mapped = [&](Value v) {
    const auto found = of.find(v.impl());
    return found != of.end() ? found->second : of[v.impl()] = splat(b, v, shape);  // from outside: a scalar
  };
  std::vector<Value> operands;
  for (const Operation& op : region) {
    operands.clear();
    for (const ir::OpOperand& use : op.operands()) operands.push_back(mapped(use.value));
    if (op.op() == ir::Op::Yield) break;
    std::vector<ir::Type> types;
    for (std::size_t r = 0; r < op.num_results(); ++r) types.push_back(op.result(r).type().with_shape(shape));
    if (op.op() == ir::Op::Constant) {
      ir::DenseAttr dense = *op.attr(ir::AttrName::value)->as<ir::DenseAttr>();
      dense.type = types[0];
      dense.splat = true;
      of[op.result().impl()] = b.constant(dense.type, dense);
      continue;
    }
    Operation* copy = b.create_grouped(op.op(), operands, op.group_sizes(), types);
    for (const ir::NamedAttr& a : op.attrs()) copy->set_attr(a.name, a.value);
    for (std::size_t r = 0; r < op.num_results(); ++r) of[op.result(r).impl()] = copy->result(r);
  }
  return operands;
}

void set_token(Operation& access, Value token) {
  std::vector<Value> operands;
  std::vector<std::uint32_t> sizes;
  for (const ir::GroupInfo& g : access.info().operands) {
    std::vector<Value> values = access.group(g.name);
    if (g.name == "token") values = token ? std::vector<Value>{token} : std::vector<Value>{};
    operands.insert(operands.end(), values.begin(), values.end());
    sizes.push_back(static_cast<std::uint32_t>(values.size()));
  }
  access.set_operands(operands, sizes);
}

void drop_mask(Operation& access) {
  std::vector<Value> operands;
  std::vector<std::uint32_t> sizes;
  for (const ir::GroupInfo& g : access.info().operands) {
    const bool dropped = g.name == "mask" || g.name == "paddingValue";
    const std::vector<Value> values = dropped ? std::vector<Value>{} : access.group(g.name);
    operands.insert(operands.end(), values.begin(), values.end());
    sizes.push_back(static_cast<std::uint32_t>(values.size()));
  }
  access.set_operands(operands, sizes);
}

void move_body_before(Block& block, Operation& op) {
  for (Operation* inner = block.front(); inner;) {
    Operation* next = inner->next();
    if (!inner->info().has(ir::traits::Terminator)) inner->move_before(&op);
    inner = next;
  }
}

void replace(Operation& op, const std::vector<Value>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) op.result(i).replace_all_uses_with(values[i]);
  op.erase();
}

}  // namespace tessera::passes
