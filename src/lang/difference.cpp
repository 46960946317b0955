// Compares both recordings as lists of operations, outer before inner; values are compared by their number.
#include "tessera/lang/difference.hpp"

#include <algorithm>
#include <vector>

#include "tessera/base/pointer_numbers.hpp"

namespace tessera::lang {
namespace {

/// The operations of a recording, and its values in the order of their definition.
class Listed {
 public:
  explicit Listed(const ir::Module& module) : entry_(*module.functions.front()) { add(entry_.body()); }

  std::size_t size() const { return operations_.size(); }
  const ir::Operation& operator[](std::size_t i) const { return *operations_[i]; }
  std::uint32_t number(ir::Value v) const { return values_.find(v.impl()); }
  /// Values recorded before the body (views, dimensions) have the location of the kernel (first_line.hpp).
  bool in_body(std::size_t i) const { return operations_[i]->loc != entry_.loc; }
  std::size_t next_in_body(std::size_t i) const {
    while (i < size() && !in_body(i)) ++i;
    return i;
  }

 private:
  void add(const ir::Block& block) {
    for (std::size_t i = 0; i < block.num_args(); ++i) values_.give(block.arg(i).impl());
    for (const ir::Operation& op : block) {
      operations_.push_back(&op);
      for (std::size_t i = 0; i < op.num_regions(); ++i) add(op.region(i));
      for (std::size_t i = 0; i < op.num_results(); ++i) values_.give(op.result(i).impl());
    }
  }
  const ir::Function& entry_;
  std::vector<const ir::Operation*> operations_;
  PointerNumbers values_{1024};
};

bool same_attributes(const ir::Operation& a, const ir::Operation& b) {
  return std::equal(
      a.attrs().begin(), a.attrs().end(), b.attrs().begin(), b.attrs().end(),
      [](const ir::NamedAttr& x, const ir::NamedAttr& y) { return x.name == y.name && x.value == y.value; });
}

bool same_types(const ir::Operation& a, const ir::Operation& b) {
  if (a.num_results() != b.num_results() || a.num_regions() != b.num_regions()) return false;
  for (std::size_t i = 0; i < a.num_results(); ++i) {
    if (a.result(i).type() != b.result(i).type()) return false;
  }
  for (std::size_t i = 0; i < a.num_regions(); ++i) {
    if (a.region(i).num_args() != b.region(i).num_args()) return false;
  }
  return true;
}

/// An operation without its operands and its line.
bool same_work(const ir::Operation& a, const ir::Operation& b) {
  return a.op() == b.op() && same_types(a, b) && same_attributes(a, b);
}

bool same_operands(const Listed& in_a, const ir::Operation& a, const Listed& in_b, const ir::Operation& b) {
  if (!std::equal(a.group_sizes().begin(), a.group_sizes().end(), b.group_sizes().begin(), b.group_sizes().end()) ||
      a.num_operands() != b.num_operands())
    return false;
  for (std::size_t i = 0; i < a.num_operands(); ++i) {
    if (in_a.number(a.operand(i)) != in_b.number(b.operand(i))) return false;
  }
  return true;
}

Difference at(const Listed& before, std::size_t i, const Listed& now, std::size_t k) {
  return {i < before.size() ? before[i].loc : SourceLocation{}, k < now.size() ? now[k].loc : SourceLocation{}};
}

/// For a difference that first appears before the body: the place in the body that caused it.
Difference first_in_body(const Listed& before, const Listed& now, const Difference& otherwise) {
  std::size_t i = before.next_in_body(0), k = now.next_in_body(0);
  while (i < before.size() && k < now.size() && same_work(before[i], now[k]) && before[i].loc.line == now[k].loc.line) {
    i = before.next_in_body(i + 1);
    k = now.next_in_body(k + 1);
  }
  return i < before.size() || k < now.size() ? at(before, i, now, k) : otherwise;
}

bool same(const Requirement& a, const Requirement& b) { return a.message == b.message && a.condition == b.condition; }
bool same(const SameExtent& a, const SameExtent& b) {
  return a.loaded == b.loaded && a.piece == b.piece && a.or_one == b.or_one;
}

/// The first difference of the conditions that are evaluated before a launch.
template <class Condition>
std::optional<Difference> first_of(const std::vector<Condition>& before, const std::vector<Condition>& now) {
  for (std::size_t i = 0; i < std::max(before.size(), now.size()); ++i) {
    const bool was = i < before.size(), is = i < now.size();
    if (was && is && same(before[i], now[i])) continue;
    return Difference{was ? before[i].where : SourceLocation{}, is ? now[i].where : SourceLocation{}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Difference> first_difference(const ir::Module& module_before, const Trace& before, const Trace& now) {
  const Listed a(module_before), b(*now.module);
  const std::size_t both = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < both && same_work(a[i], b[i]) && same_operands(a, a[i], b, b[i])) continue;
    const bool told = i < both && a.in_body(i) && b.in_body(i);
    return told ? at(a, i, b, i) : first_in_body(a, b, at(a, i, b, i));
  }
  if (const auto other = first_of(before.requirements, now.requirements)) return other;
  return first_of(before.same_extents, now.same_extents);
}

}  // namespace tessera::lang
