// Turns a scan that tileiras 13.5.37 compiles wrongly into a loop over slices. The carry between groups of a thread's
// elements is fetched from the lane whose number is the last index along the axis. That is another row's lane unless
// all 32 lanes lie along the scan's axis (seen in machine code for sm_90; a scan of a 16 x 32 tile along its first axis
// is right in rows 0 to 3 only). Lanes lie along the contiguous axis first: the last one, unless an operation of the
// kernel causes another layout that may propagate to the scan: an access by columns, a product, a permutation, a
// reduction, or part of a tile. The loop is slower and right:
//
//   carry = identity; result = anything
//   for step in (0 to n) {
//     i = step, or n - 1 - step if the scan runs backward
//     carry = f(slice i of x, carry); result = where(index along the axis == i, carry, result)
//   }
#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

class SliceLoop {
 public:
  explicit SliceLoop(Operation& scan)
      : scan_(scan), axis_(static_cast<std::size_t>(scan.int_attr(AttrName::dim))), before_(Builder::before(&scan)) {
    before_.loc = scan.loc;
    const auto shape = scan.operand(0).type().shape();
    shape_.assign(shape.begin(), shape.end());
    slice_ = shape_;
    slice_[axis_] = 1;
  }

  void replace() {
    const std::size_t n = scan_.num_operands();
    std::vector<Value> operands{number(0), number(shape_[axis_]), number(1)};
    const auto* identities = scan_.attr(AttrName::identities)->as<ir::ArrayAttr>();
    for (std::size_t k = 0; k < n; ++k)
      operands.push_back(constant(identities->items[k], scan_.operand(k).type(), slice_));
    for (std::size_t k = 0; k < n; ++k)
      operands.push_back(constant(identities->items[k], scan_.operand(k).type(), shape_));
    std::vector<Type> types;
    for (std::size_t i = 3; i < operands.size(); ++i) types.push_back(operands[i].type());
    const std::vector<std::uint32_t> groups{1, 1, 1, static_cast<std::uint32_t>(2 * n)};
    Operation* loop = before_.create_grouped(Op::For, operands, groups, types);
    fill(loop->add_region(), types);
    for (std::size_t k = 0; k < n; ++k) scan_.result(k).replace_all_uses_with(loop->result(n + k));
    scan_.erase();
  }

 private:
  Value number(std::int64_t v) { return before_.constant_int(ir::Elem::I32, v); }
  Value constant(const ir::Attribute& identity, Type like, const std::vector<std::int64_t>& shape) {
    const Type type = like.with_shape(shape);
    ir::DenseAttr dense{type, {}, true};
    std::uint64_t bits = 0;
    if (const auto* f = identity.as<ir::FloatAttr>()) bits = f->bits;
    if (const auto* i = identity.as<ir::IntAttr>()) bits = static_cast<std::uint64_t>(i->value);
    for (int b = 0; b < ir::info(like.elem()).bytes; ++b)
      dense.bytes.push_back(static_cast<std::byte>(bits >> (8 * b)));
    return before_.constant(type, dense);
  }

  void fill(Block& body, const std::vector<Type>& carried) {
    const Type i32 = Type::tile(ir::Elem::I32);
    const Value step = body.add_arg(i32);
    for (const Type& t : carried) body.add_arg(t);
    Builder b(body);
    b.loc = scan_.loc;
    const bool backward = *scan_.attr(AttrName::reverse)->as<bool>();
    const Value last = b.constant_int(ir::Elem::I32, shape_[axis_] - 1);
    const Value at = backward ? b.create(Op::SubI, {last, step}, {i32})->result() : step;
    const std::size_t n = scan_.num_operands();
    std::vector<Value> arguments;  // element, accumulator of each pair
    for (std::size_t k = 0; k < n; ++k) {
      arguments.push_back(slice_at(b, scan_.operand(k), at));
      arguments.push_back(body.arg(1 + k));
    }
    std::vector<Value> results = combined_elementwise(b, scan_, arguments, slice_);
    const Value places = iota_along(b, shape_[axis_], axis_, shape_.size());
    const Value here =
        b.create(Op::CmpI, {places, splat(b, at, line_shape())}, {places.type().with_element(ir::Elem::I1)},
                 {{AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
                  {AttrName::signedness, ir::Signedness::Signed}})
            ->result();
    const Value mask = broadcast_to(b, here, shape_);
    for (std::size_t k = 0; k < n; ++k) {
      const Value row = broadcast_to(b, results[k], shape_), old = body.arg(1 + n + k);
      results.push_back(b.create(Op::Select, {mask, row, old}, {old.type()})->result());
    }
    b.create(Op::Continue, std::span<const Value>(results), std::span<const Type>());
  }

  std::vector<std::int64_t> line_shape() const {
    std::vector<std::int64_t> line(shape_.size(), 1);
    line[axis_] = shape_[axis_];
    return line;
  }

  Value slice_at(Builder& b, Value tile, Value at) {
    std::vector<Value> operands{tile};
    for (std::size_t a = 0; a < shape_.size(); ++a)
      operands.push_back(a == axis_ ? at : b.constant_int(ir::Elem::I32, 0));
    const std::vector<Type> types{tile.type().with_shape(slice_)};
    return b.create(Op::Extract, operands, types)->result();
  }

  Operation& scan_;
  std::size_t axis_;
  Builder before_;
  std::vector<std::int64_t> shape_, slice_;
};

/// The axes of extents other than 1.
std::vector<std::size_t> long_axes(std::span<const std::int64_t> shape) {
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < shape.size(); ++a)
    if (shape[a] != 1) axes.push_back(a);
  return axes;
}

/// True if the elements of `v` may be consecutive integers along an axis other than `last`. Loaded values never are, as
/// far as the assembler knows, and products are not. `seen`: values known not to be, by axis; operands are shared.
using Seen = std::set<std::pair<const ir::ValueImpl*, std::size_t>>;
bool may_count_along_other(Value v, std::size_t last, Seen& seen) {
  if (!seen.emplace(v.impl(), last).second) return false;
  const auto axes = long_axes(v.type().shape());
  if (axes.empty() || (axes.size() == 1 && axes[0] == last)) return false;
  const Operation* op = v.def();
  if (op == nullptr) return true;
  const auto of = [&](std::size_t i) { return may_count_along_other(op->operand(i), last, seen); };
  switch (op->op()) {
    case Op::Offset:
    case Op::AddI:
    case Op::SubI: return of(0) || of(1);
    case Op::Broadcast:
    case Op::ExtI:
    case Op::TruncI:
    case Op::Assume: return of(0);
    case Op::MulI: return constant_int(op->operand(0)) == 1 || constant_int(op->operand(1)) == 1;
    case Op::Constant: return !splat_bits(v);
    case Op::Reshape: {
      const auto from = long_axes(op->operand(0).type().shape());
      constexpr std::size_t none = SIZE_MAX;
      const bool same_last = axes.back() == last && from.size() == axes.size();  // axes of extent 1 come and go
      return may_count_along_other(op->operand(0), same_last ? from.back() : none, seen);
    }
    default: return !analysis::is_load(*op);
  }
}

/// True if the operation may cause a layout in which neighbouring lanes do not lie along the last axis of extent 2 or
/// more.
bool may_lay_out_otherwise(const Operation& op) {
  if (analysis::is_product(op)) return true;
  if (op.op() == Op::Reduce || op.op() == Op::Extract || op.op() == Op::Cat || op.op() == Op::Reshape) {
    // Where axes of a tile are removed or merged, lanes keep lying along them.
    const auto lengths = [](std::span<const std::int64_t> shape) {
      std::vector<std::int64_t> n;
      for (const std::size_t a : long_axes(shape)) n.push_back(shape[a]);
      return n;
    };
    const auto from = lengths(op.operand(0).type().shape()), to = lengths(op.result(0).type().shape());
    return from.size() >= 2 && !to.empty() && from != to;
  }
  if (op.op() == Op::Permute) {
    const auto from = long_axes(op.operand(0).type().shape()), to = long_axes(op.result().type().shape());
    if (to.size() < 2) return false;
    const auto& order = op.attr(AttrName::permutation)->as<ir::I32ArrayAttr>()->values;
    return static_cast<std::size_t>(order[to.back()]) != from.back();
  }
  const auto access = analysis::access_of(op);
  if (!access) return false;
  const auto axes = long_axes(access->tile.shape());
  if (axes.size() < 2) return false;
  if (!access->view) {
    Seen seen;
    return may_count_along_other(access->pointers, axes.back(), seen);
  }
  const ir::Type view = access->view.type();
  if (view.kind() != ir::TypeKind::PartitionView && view.kind() != ir::TypeKind::StridedView) return true;
  const auto stride = [&](std::size_t a) {
    return view.tensor().strides()[static_cast<std::size_t>(view.dim_map()[a])];
  };
  // Where no stride is known to be 1, no axis is known to be contiguous, and lanes lie along the last axis.
  const bool none_is_known = std::ranges::all_of(axes, [&](std::size_t a) { return stride(a) == ir::kDynamic; });
  return stride(axes.back()) != 1 && !none_is_known;
}

/// True if no operation that `v` depends on may cause another layout.
bool is_by_rows(Value v, std::unordered_set<const Operation*>& seen) {
  if (!v.type().is_tile() || long_axes(v.type().shape()).empty()) return true;
  const Operation* op = v.def();
  if (op == nullptr || op->num_regions() != 0 || may_lay_out_otherwise(*op)) return false;
  if (!seen.insert(op).second || analysis::access_of(*op)) return true;
  return std::ranges::all_of(op->operand_values(), [&](Value operand) { return is_by_rows(operand, seen); });
}

}  // namespace

bool scans_to_loops(ir::Function& f) {
  std::vector<Operation*> all, scans;
  bool by_rows = true;  // all layouts have the last axis contiguous
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::Scan) all.push_back(&op);
    by_rows = by_rows && !may_lay_out_otherwise(op);
  });
  std::ranges::copy_if(all, std::back_inserter(scans), [&](const Operation* scan) {
    const auto axes = long_axes(scan->operand(0).type().shape());
    if (axes.empty()) return false;
    if (axes.back() != static_cast<std::size_t>(scan->int_attr(AttrName::dim))) return true;
    if (axes.size() > 1) return !by_rows;
    // A one-dimensional tile has its own layout, unless it is made from a tile with more axes.
    std::unordered_set<const Operation*> seen;
    return !std::ranges::all_of(scan->operand_values(), [&](Value v) { return is_by_rows(v, seen); });
  });
  for (Operation* scan : scans) SliceLoop(*scan).replace();
  return !scans.empty();
}

}  // namespace tessera::passes
