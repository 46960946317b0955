// Expands scans that the assembler rejects or compiles wrongly into elementwise operations on parts of the tile. A level
// divides the axis into groups of kParts parts, of which each has been scanned by itself, and combines each part with
// what the parts before it in its group have come to. docs/compiler/expand_scans.md says which scans and why.
//
//   y = scan f (x) along 64 elements     =>     a = reshape x : [8, 8, 1]; a1..a7 = f(a0, a1), f(f(a0, a1), a2), ...
//                                               b = reshape cat(a0, ..., a7) : [1, 8, 8]
//                                               b1..b7 = f(last of b0, b1), f(f(last of b0, last of b1), b2), ...
//                                               y = reshape cat(b0, ..., b7)
#include <algorithm>
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

/// More parts mean fewer levels, each of which moves the tile through shared memory, and longer chains of operations.
constexpr std::int64_t kParts = 8;

class Expansion {
 public:
  explicit Expansion(Operation& scan)
      : scan_(scan),
        axis_(static_cast<std::size_t>(scan.int_attr(AttrName::dim))),
        backward_(*scan.attr(AttrName::reverse)->as<bool>()),
        b_(Builder::before(&scan)) {
    b_.loc = scan.loc;
    const auto shape = scan.operand(0).type().shape();
    shape_.assign(shape.begin(), shape.end());
  }

  void replace() {
    Tiles tiles = scan_.operand_values();
    const std::int64_t extent = shape_[axis_];
    std::int64_t scanned = 1;  // elements of a part
    do {
      const std::int64_t parts = std::min(kParts, extent / scanned);
      tiles = level(tiles, parts, scanned);
      scanned *= parts;
    } while (scanned < extent);
    passes::replace(scan_, tiles);
  }

 private:
  using Shape = std::vector<std::int64_t>;
  using Tiles = std::vector<Value>;  ///< one for each operand of the scan

  /// Scans groups of `parts` parts of `length` elements, each of which is scanned.
  Tiles level(const Tiles& tiles, std::int64_t parts, std::int64_t length) {
    Shape groups(shape_.begin(), shape_.begin() + static_cast<std::ptrdiff_t>(axis_));
    groups.insert(groups.end(), {shape_[axis_] / (parts * length), parts, length});
    groups.insert(groups.end(), shape_.begin() + static_cast<std::ptrdiff_t>(axis_) + 1, shape_.end());
    Shape part = groups, line = groups;
    part[axis_ + 1] = line[axis_ + 1] = line[axis_ + 2] = 1;
    Tiles whole;
    for (const Value t : tiles) whole.push_back(reshape(t, groups));

    std::vector<Tiles> done(static_cast<std::size_t>(parts));
    Tiles carry = length == 1 ? identities(part) : Tiles();
    for (std::int64_t k = 0; k < parts; ++k) {
      const std::int64_t at = backward_ ? parts - 1 - k : k;
      Tiles& now = done[static_cast<std::size_t>(at)];
      now = extract(whole, part, at, 0);
      if (!carry.empty()) now = combined(carry, now, part);
      if (k + 1 == parts) break;
      const Tiles last = length == 1 ? now : extract(whole, line, at, backward_ ? 0 : length - 1);
      carry = length == 1 || carry.empty() ? last : combined(carry, last, line);
    }
    Tiles results;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      Tiles of_one;
      for (const Tiles& t : done) of_one.push_back(t[i]);
      results.push_back(reshape(joined(of_one), shape_));
    }
    return results;
  }

  Tiles identities(const Shape& shape) {
    Tiles all;
    const auto& items = scan_.attr(AttrName::identities)->as<ir::ArrayAttr>()->items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Type type = scan_.operand(i).type().with_shape(shape);
      std::uint64_t bits = 0;
      if (const auto* f = items[i].as<ir::FloatAttr>()) bits = f->bits;
      if (const auto* n = items[i].as<ir::IntAttr>()) bits = static_cast<std::uint64_t>(n->value);
      ir::DenseAttr dense{type, {}, true};
      for (int byte = 0; byte < ir::info(type.elem()).bytes; ++byte)
        dense.bytes.push_back(static_cast<std::byte>(bits >> (8 * byte)));
      all.push_back(b_.constant(type, dense));
    }
    return all;
  }
  /// f(before, then), element by element; `before` is stretched along the parts.
  Tiles combined(const Tiles& before, const Tiles& then, const Shape& shape) {
    Tiles arguments;  // element, accumulator of each pair
    for (std::size_t i = 0; i < then.size(); ++i) {
      arguments.push_back(then[i]);
      arguments.push_back(broadcast_to(b_, before[i], shape));
    }
    return combined_elementwise(b_, scan_, arguments, shape);
  }
  /// Part `part`, or element `element` of it, of each group.
  Tiles extract(const Tiles& tiles, const Shape& shape, std::int64_t part, std::int64_t element) {
    Tiles parts;
    for (const Value t : tiles) {
      Tiles operands{t};
      for (std::size_t a = 0; a < shape.size(); ++a)
        operands.push_back(b_.constant_int(ir::Elem::I32, a == axis_ + 1 ? part : a == axis_ + 2 ? element : 0));
      const std::vector<Type> type{t.type().with_shape(shape)};
      parts.push_back(b_.create(Op::Extract, operands, type)->result());
    }
    return parts;
  }
  /// The parts, of which there are a power of two, side by side.
  Value joined(Tiles parts) {
    for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
      Shape shape(parts[0].type().shape().begin(), parts[0].type().shape().end());
      shape[axis_ + 1] *= 2;
      const ir::IntAttr axis{ir::Elem::I64, static_cast<std::int64_t>(axis_ + 1)};
      for (std::size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] = b_.create(Op::Cat, {parts[2 * i], parts[2 * i + 1]}, {parts[2 * i].type().with_shape(shape)},
                             {{AttrName::dim, axis}})
                       ->result();
    }
    return parts[0];
  }
  Value reshape(Value v, const Shape& shape) {
    return b_.create(Op::Reshape, {v}, {v.type().with_shape(shape)})->result();
  }

  Operation& scan_;
  std::size_t axis_;
  bool backward_;
  Builder b_;
  Shape shape_;
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

/// True if the scan is left to the assembler in a kernel without products; `by_rows`: all layouts of the kernel have the
/// last axis contiguous.
bool may_stay(const Operation& scan, bool by_rows) {
  const auto axes = long_axes(scan.operand(0).type().shape());
  if (axes.empty() || axes.back() != static_cast<std::size_t>(scan.int_attr(AttrName::dim))) return false;
  if (axes.size() > 1) return by_rows;
  // A one-dimensional tile has its own layout, unless it is made from a tile with more axes.
  std::unordered_set<const Operation*> seen;
  return std::ranges::all_of(scan.operand_values(), [&](Value v) { return is_by_rows(v, seen); });
}

}  // namespace

bool expand_scans(ir::Function& f) {
  std::vector<Operation*> all, of_one;
  bool by_rows = true, stay = true;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::Scan) {
      const auto axis = static_cast<std::size_t>(op.int_attr(AttrName::dim));
      (op.operand(0).type().shape()[axis] == 1 ? of_one : all).push_back(&op);
    }
    by_rows = by_rows && !may_lay_out_otherwise(op);
    stay = stay && !analysis::is_product(op);
  });
  stay = stay && std::ranges::all_of(all, [&](const Operation* scan) { return may_stay(*scan, by_rows); });
  if (stay) all.clear();  // the layouts that one expansion causes may propagate to the other scans
  all.insert(all.end(), of_one.begin(), of_one.end());
  for (Operation* scan : all) Expansion(*scan).replace();
  return !all.empty();
}

}  // namespace tessera::passes
