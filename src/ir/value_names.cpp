// The order in which names are given is MLIR's: all operations of a block, then what their regions hold; a region's
// names are free again after it.
#include "ir/value_names.hpp"

#include <cmath>

#include "ir/text_values.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::ir {

namespace {

/// true, false, cst_<number>_<type>, cst_<type>.
std::string constant_name(const DenseAttr& data) {
  if (data.type.is_pointer()) return "cst";
  const Elem e = data.type.elem();
  const bool splat = data.splat || data.type.num_elements() == 1;
  if (e == Elem::I1) {
    bool all = true, any = false;
    for (std::byte b : data.bytes) {
      all = all && b != std::byte{0};
      any = any || b != std::byte{0};
    }
    return all ? "true" : !any ? "false" : "cst_i1";
  }
  std::string name = "cst";
  if (splat && !info(e).is_float) name += concat("_", to_signed(e, dense_element(data, 0)));
  if (splat && info(e).is_float) {
    const double value = to_double(e, dense_element(data, 0));
    if (std::isnan(value))
      name += "_NaN";
    else if (!std::signbit(value) && value < 18446744073709551616.0 && std::trunc(value) == value)
      name += concat("_", static_cast<std::uint64_t>(value));
  }
  return name + "_" + info(e).text;
}

/// What NVIDIA's dialect suggests for result `i`; empty: a number.
std::string suggested(const Operation& op, std::size_t i) {
  switch (op.op()) {
    case Op::Constant: {
      const Attribute* value = op.attr(AttrName::value);
      return value && value->as<DenseAttr>() ? constant_name(*value->as<DenseAttr>()) : "cst";
    }
    case Op::Assume: {
      const Operation* producer = op.num_operands() != 0 && op.operand(0) ? op.operand(0).def() : nullptr;
      const std::string of = producer ? suggested(*producer, op.operand(0).index()) : "";
      return of.empty() ? "assume" : "assume_" + of;
    }
    case Op::Broadcast: return "bcast";
    case Op::Reshape: return "reshape";
    case Op::For: return i == 0 ? "for" : "";
    case Op::Reduce: return i == 0 ? "reduce" : "";
    case Op::MakeTensorView: return "tview";
    case Op::MakePartitionView: return "pview";
    case Op::MakeStridedView: return "sview";
    case Op::MakeGatherScatterView: return "gsview";
    default: break;
  }
  // Operations with several declared results have them named.
  const auto& declared = op.info().results;
  return declared.size() > 1 && i < declared.size() ? std::string(declared[i].name) : "";
}

std::string suggested_argument(const Block& block, std::size_t i) {
  const Operation* op = block.parent();
  if (!op) return "";
  if (op->op() == Op::For) return i == 0 ? "loopIdx" : concat("iterArg", i - 1);
  if (op->op() != Op::Reduce) return "";
  std::string name = i % 2 == 0 ? "reduce_lhs" : "reduce_rhs";
  return block.num_args() > 2 ? concat(name, i / 2) : name;
}

}  // namespace

ValueNames::ValueNames(const Function& function) { block(function.body(), true); }

std::string ValueNames::unique(const std::string& name) {
  std::string candidate = name;
  while (!used_.insert(candidate).second) candidate = concat(name, "_", scope_.next_conflict++);
  added_.push_back(candidate);
  return candidate;
}

void ValueNames::set(Value v, const std::string& name) { names_[v.impl()] = "%" + unique(name); }

void ValueNames::block_arguments(const Block& b, bool entry) {
  for (std::size_t i = 0; i < b.num_args(); ++i) {
    const std::string name = suggested_argument(b, i);
    if (!name.empty()) {
      set(b.arg(i), name);
    } else if (entry) {
      // "arg" may collide with nothing that the dialect suggests.
      set(b.arg(i), concat("arg", scope_.next_argument++));
    }
  }
}

void ValueNames::block(const Block& b, bool entry) {
  block_arguments(b, entry);
  for (const Operation& op : b) operation(op);
  for (const Operation& op : b) {
    for (std::size_t r = 0; r < op.num_regions(); ++r) {
      const Scope saved = scope_;
      const std::size_t first_added = added_.size();
      block(op.region(r), true);
      scope_ = saved;
      for (std::size_t i = first_added; i < added_.size(); ++i) used_.erase(added_[i]);
      added_.resize(first_added);
    }
  }
}

void ValueNames::operation(const Operation& op) {
  if (op.num_results() == 0) return;
  const std::string first = suggested(op, 0);
  std::string group;
  if (first.empty())
    group = concat("%", scope_.next_value++);
  else
    group = "%" + unique(first);
  names_[op.result(0).impl()] = group;
  for (std::size_t i = 1; i < op.num_results(); ++i) {
    const std::string own = suggested(op, i);
    if (own.empty()) {
      names_[op.result(i).impl()] = concat(group, "#", i);
      if (i == 1) names_[op.result(0).impl()] = group + "#0";
    } else {
      set(op.result(i), own);
    }
  }
}

std::string ValueNames::use(Value v) {
  if (!v) return "<<null>>";
  auto it = names_.find(v.impl());
  if (it != names_.end()) return it->second;
  return names_[v.impl()] = concat("%", scope_.next_value++);
}

std::string ValueNames::results(const Operation& op) {
  if (op.num_results() == 0) return "";
  std::string out = use(op.result(0));
  if (out.ends_with("#0")) return concat(out.substr(0, out.size() - 2), ":", op.num_results());
  for (std::size_t i = 1; i < op.num_results(); ++i) out += ", " + use(op.result(i));
  return out;
}

}  // namespace tessera::ir
