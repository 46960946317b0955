// Expands scans that the assembler rejects or compiles wrongly into elementwise operations on parts of the tile. A
// level divides the axis into groups of kParts parts, of which each has been scanned by itself, and combines each part
// with what the parts before it in its group have come to. In kernels with a product the groups are two halves, which
// stay in the tile. docs/compiler/expand_scans.md says which scans and why.
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
/// Parts of longer axes take the assembler minutes, or it rejects them (bench/notes/expand_scans.md).
constexpr std::int64_t kLongestInParts = 512;

using Shape = std::vector<std::int64_t>;
using Tiles = std::vector<Value>;  ///< one for each operand of a scan

/// One scan; its function, applied to tiles.
class Scan {
 public:
  explicit Scan(Operation& scan)
      : b(Builder::before(&scan)),
        axis(static_cast<std::size_t>(scan.int_attr(AttrName::dim))),
        backward(scan.bool_attr(AttrName::reverse)),
        op_(scan) {
    b.loc = scan.loc;
    const auto extents = scan.operand(0).type().shape();
    shape.assign(extents.begin(), extents.end());
  }

  /// The scan's shape with other axes in place of its axis.
  Shape with_axes(std::initializer_list<std::int64_t> axes) const {
    const auto at = static_cast<std::ptrdiff_t>(axis);
    Shape all(shape.begin(), shape.begin() + at);
    all.insert(all.end(), axes);
    all.insert(all.end(), shape.begin() + at + 1, shape.end());
    return all;
  }
  Tiles identities(const Shape& of) {
    Tiles all;
    const auto& items = op_.attr(AttrName::identities)->as<ir::ArrayAttr>()->items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Type type = op_.operand(i).type().with_shape(of);
      std::uint64_t bits = 0;
      if (const auto* f = items[i].as<ir::FloatAttr>()) bits = f->bits;
      if (const auto* n = items[i].as<ir::IntAttr>()) bits = static_cast<std::uint64_t>(n->value);
      ir::DenseAttr dense{type, {}, true};
      for (int byte = 0; byte < ir::info(type.elem()).bytes; ++byte)
        dense.bytes.push_back(static_cast<std::byte>(bits >> (8 * byte)));
      all.push_back(b.constant(type, dense));
    }
    return all;
  }
  /// f(before, then), element by element; `before` is stretched.
  Tiles combined(const Tiles& before, const Tiles& then, const Shape& of) {
    Tiles arguments;  // element, accumulator of each pair
    for (std::size_t i = 0; i < then.size(); ++i) {
      arguments.push_back(then[i]);
      arguments.push_back(broadcast_to(b, before[i], of));
    }
    return combined_elementwise(b, op_, arguments, of);
  }
  /// Reductions by f along the scan's axis, which stays as 1.
  Tiles reduced(const Tiles& tiles) {
    std::vector<Type> types;
    Shape left(tiles[0].type().shape().begin(), tiles[0].type().shape().end());
    const std::int64_t at = static_cast<std::int64_t>(axis) + 1;
    left.erase(left.begin() + at);
    for (const Value t : tiles) types.push_back(t.type().with_shape(left));
    Operation* reduce = b.create(Op::Reduce, tiles, types);
    reduce->set_attr(AttrName::dim, ir::IntAttr{ir::Elem::I64, at});
    reduce->set_attr(AttrName::identities, *op_.attr(AttrName::identities));
    Block& body = reduce->add_region();
    Copier copier;
    const Block& f = op_.region(0);
    for (std::size_t i = 0; i < f.num_args(); ++i) copier.map(f.arg(i), body.add_arg(f.arg(i).type()));
    Builder in(body);
    for (const Operation& op : f) copier.copy(op, in);
    left.insert(left.begin() + at, 1);
    Tiles results;
    for (std::size_t i = 0; i < tiles.size(); ++i) results.push_back(reshape(reduce->result(i), left));
    return results;
  }
  Tiles reshape(const Tiles& tiles, const Shape& to) {
    Tiles all;
    for (const Value t : tiles) all.push_back(reshape(t, to));
    return all;
  }
  Value reshape(Value v, const Shape& to) {
    return v.type() == v.type().with_shape(to) ? v : b.create(Op::Reshape, {v}, {v.type().with_shape(to)})->result();
  }
  Tiles select(Value mask, const Tiles& yes, const Tiles& no) {
    Tiles all;
    for (std::size_t i = 0; i < yes.size(); ++i)
      all.push_back(b.create(Op::Select, {mask, yes[i], no[i]}, {yes[i].type()})->result());
    return all;
  }
  Tiles operands() const { return op_.operand_values(); }
  void replace(const Tiles& results) { passes::replace(op_, results); }

  Builder b;
  std::size_t axis;
  bool backward;
  Shape shape;

 private:
  Operation& op_;
};

/// In parts that are taken out of the tile and put together again.
class ByParts {
 public:
  explicit ByParts(Scan scan) : s_(std::move(scan)) {}

  void replace() {
    Tiles tiles = s_.operands();
    const std::int64_t extent = s_.shape[s_.axis];
    std::int64_t scanned = 1;  // elements of a part
    do {
      const std::int64_t parts = std::min(kParts, extent / scanned);
      tiles = level(tiles, parts, scanned);
      scanned *= parts;
    } while (scanned < extent);
    s_.replace(tiles);
  }

 private:
  /// Scans groups of `parts` parts of `length` elements, each of which is scanned.
  Tiles level(const Tiles& tiles, std::int64_t parts, std::int64_t length) {
    const std::int64_t groups = s_.shape[s_.axis] / (parts * length);
    const Tiles whole = s_.reshape(tiles, s_.with_axes({groups, parts, length}));
    const Shape part = s_.with_axes({groups, 1, length}), line = s_.with_axes({groups, 1, 1});
    std::vector<Tiles> done(static_cast<std::size_t>(parts));
    Tiles carry = length == 1 ? s_.identities(part) : Tiles();
    for (std::int64_t k = 0; k < parts; ++k) {
      const std::int64_t at = s_.backward ? parts - 1 - k : k;
      Tiles& now = done[static_cast<std::size_t>(at)];
      now = extract(whole, part, at, 0);
      if (!carry.empty()) now = s_.combined(carry, now, part);
      if (k + 1 == parts) break;
      const Tiles last = length == 1 ? now : extract(whole, line, at, s_.backward ? 0 : length - 1);
      carry = length == 1 || carry.empty() ? last : s_.combined(carry, last, line);
    }
    Tiles results;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      Tiles of_one;
      for (const Tiles& t : done) of_one.push_back(t[i]);
      results.push_back(joined(of_one));
    }
    return s_.reshape(results, s_.shape);
  }

  /// Part `part`, or element `element` of it, of each group.
  Tiles extract(const Tiles& tiles, const Shape& shape, std::int64_t part, std::int64_t element) {
    Tiles parts;
    for (const Value t : tiles) {
      Tiles operands{t};
      for (std::size_t a = 0; a < shape.size(); ++a)
        operands.push_back(s_.b.constant_int(ir::Elem::I32, a == s_.axis + 1 ? part : a == s_.axis + 2 ? element : 0));
      const std::vector<Type> type{t.type().with_shape(shape)};
      parts.push_back(s_.b.create(Op::Extract, operands, type)->result());
    }
    return parts;
  }
  /// The parts, of which there are a power of two, side by side.
  Value joined(Tiles parts) {
    for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
      Shape shape(parts[0].type().shape().begin(), parts[0].type().shape().end());
      shape[s_.axis + 1] *= 2;
      const ir::IntAttr axis{ir::Elem::I64, static_cast<std::int64_t>(s_.axis + 1)};
      for (std::size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] = s_.b.create(Op::Cat, {parts[2 * i], parts[2 * i + 1]}, {parts[2 * i].type().with_shape(shape)},
                               {{AttrName::dim, axis}})
                       ->result();
    }
    return parts[0];
  }

  Scan s_;
};

/// In halves that stay in the tile; a reduction finds the last element of the first half.
class ByHalves {
 public:
  explicit ByHalves(Scan scan) : s_(std::move(scan)) {}

  void replace() {
    Tiles tiles = s_.combined(s_.identities(s_.shape), s_.operands(), s_.shape);
    for (std::int64_t half = 1; half < s_.shape[s_.axis]; half *= 2) tiles = level(tiles, half);
    s_.replace(tiles);
  }

 private:
  /// Scans groups of two halves of `half` elements, each of which is scanned.
  Tiles level(const Tiles& tiles, std::int64_t half) {
    using enum ir::ComparisonPredicate;
    const Shape groups = s_.with_axes({s_.shape[s_.axis] / (2 * half), 2 * half});
    const Tiles now = s_.reshape(tiles, groups);
    const Value is_last = places(s_.backward ? half : half - 1, Equal, 2 * half, groups);
    const Tiles carry = s_.reduced(s_.select(is_last, now, s_.identities(groups)));
    const Value is_second =
        s_.backward ? places(half, Less, 2 * half, groups) : places(half, GreaterEqual, 2 * half, groups);
    return s_.reshape(s_.select(is_second, s_.combined(carry, now, groups), now), s_.shape);
  }
  /// How places along the axis, of `extent`, compare with `place`.
  Value places(std::int64_t place, ir::ComparisonPredicate how, std::int64_t extent, const Shape& shape) {
    const Value all = iota_along(s_.b, extent, s_.axis + 1, shape.size());
    const Value at = splat(s_.b, s_.b.constant_int(ir::Elem::I32, place), all.type().shape());
    return broadcast_to(s_.b, compared(s_.b, how, all, at), shape);
  }

  Scan s_;
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

/// True if the scan is left to the assembler in a kernel without products; `by_rows`: all layouts of the kernel have
/// the last axis contiguous.
bool may_stay(const Operation& scan, bool by_rows) {
  const auto axes = long_axes(scan.operand(0).type().shape());
  if (axes.empty() || axes.back() != static_cast<std::size_t>(scan.int_attr(AttrName::dim))) return false;
  if (axes.size() > 1) return by_rows;
  // A one-dimensional tile has its own layout, unless it is made from a tile with more axes.
  std::unordered_set<const Operation*> seen;
  return std::ranges::all_of(scan.operand_values(), [&](Value v) { return is_by_rows(v, seen); });
}

std::int64_t registers_of(Type tile) {
  if (!tile.is_tile() || tile.is_pointer()) return 0;
  return tile.num_elements() * (ir::info(tile.elem()).bits > 32 ? 2 : 1);
}

/// True if the n-th value that a loop carries was loaded in the iteration before: prefetch_loads made it.
bool is_prefetched(const Operation& loop, std::size_t n) {
  const Operation* end = loop.region(0).terminator();
  if (end == nullptr || end->op() != Op::Continue) return false;
  const Operation* from = end->operand(n).def();
  return from != nullptr && analysis::is_load(*from);
}

/// Registers that hold the tiles that a loop carries past a scan, and with them those that it loads: the assembler
/// loads them for the next iteration. 0 where what is carried is smaller than what is scanned.
std::int64_t held_around(const Operation& scan) {
  const Operation* loop = scan.parent_op();
  while (loop != nullptr && loop->op() != Op::For && loop->op() != Op::Loop) loop = loop->parent_op();
  if (loop == nullptr) return 0;
  std::int64_t carried = 0, loaded = 0;
  const std::size_t first = analysis::first_carried_arg(*loop);
  for (std::size_t i = first; i < loop->region(0).num_args(); ++i)
    if (!is_prefetched(*loop, i - first)) carried += registers_of(loop->region(0).arg(i).type());
  ir::walk(loop->region(0), [&](const Operation& op) {
    if (analysis::is_load(op)) loaded += registers_of(op.result(0).type());
  });
  return carried >= registers_of(scan.operand(0).type()) ? carried + loaded : 0;
}

}  // namespace

ScannedRegisters expand_scans(ir::Function& f) {
  std::vector<Operation*> all, of_one;
  bool by_rows = true, multiplies = false;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::Scan) {
      const auto axis = static_cast<std::size_t>(op.int_attr(AttrName::dim));
      (op.operand(0).type().shape()[axis] == 1 ? of_one : all).push_back(&op);
    }
    by_rows = by_rows && !may_lay_out_otherwise(op);
    multiplies = multiplies || analysis::is_product(op);
  });
  const bool stay =
      !multiplies && std::ranges::all_of(all, [&](const Operation* scan) { return may_stay(*scan, by_rows); });
  if (stay) all.clear();  // else none stays: the layouts that one expansion causes may propagate to the other scans
  all.insert(all.end(), of_one.begin(), of_one.end());
  ScannedRegisters registers;
  for (Operation* scan : all) {
    registers.tile = std::max(registers.tile, registers_of(scan->operand(0).type()));
    registers.beside = std::max(registers.beside, held_around(*scan));
    const auto axis = static_cast<std::size_t>(scan->int_attr(AttrName::dim));
    if (multiplies || scan->operand(0).type().shape()[axis] > kLongestInParts)
      ByHalves(Scan(*scan)).replace();
    else
      ByParts(Scan(*scan)).replace();
  }
  return registers;
}

}  // namespace tessera::passes
