// The address of an element is base + sum over axes of (index * tile + i) * stride. What is equal for the whole tile is
// added to the scalar base in 64 bits; what differs inside the tile is added per axis. An axis of stride 1 needs no
// multiplication, and its offsets stay 32 bits wide: extents of tiles are at most 2^24.
// In coarsened blocks (coarsen_blocks) the pieces are a first axis, and an index may differ between them.
#include "passes/pointer_tiles.hpp"

#include <algorithm>
#include <vector>

#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

/// One axis of the tile.
struct Axis {
  analysis::TensorAxis tensor;  ///< the axis of the tensor that it lies along
  std::int64_t extent = 1;      ///< of the tile
  Value index;                  ///< of the tile
  bool in_bounds = false;
};

std::vector<Axis> axes_of(const analysis::Access& access) {
  const Type view = access.view.type();
  const std::vector<analysis::TensorAxis> of_tensor = analysis::axes_of(*analysis::tensor_behind(access.view));
  const std::vector<bool> inside = analysis::axes_in_bounds(*access.op);
  std::vector<Axis> axes;
  for (std::size_t a = 0; a < access.index.size(); ++a)
    axes.push_back({of_tensor[static_cast<std::size_t>(view.dim_map()[a])], view.tile_shape()[a], access.index[a],
                    static_cast<bool>(inside[a])});
  return axes;
}

class PointerTile {
 public:
  /// `valid` (null: one piece): i1 for each piece of the first axis, false where nothing may be accessed.
  PointerTile(const analysis::Access& access, Builder& b, Value valid) : b_(b), axes_(axes_of(access)), valid_(valid) {
    if (valid) shape_.push_back(valid.type().shape()[0]);
    for (const Axis& a : axes_) shape_.push_back(a.extent);
  }

  Value pointers(Value base) {
    for (const Axis& a : axes_)
      if (!of_pieces(a.index) && constant_int(a.index) != 0) base = moved(base, times_stride(origin(a), a));
    if (valid_) base = splat(b_, base, valid_.type().shape());
    for (const Axis& a : axes_)
      if (of_pieces(a.index)) base = moved(base, times_stride(origin(a), a));
    Value p = valid_ ? along_pieces(base) : splat(b_, base, std::vector<std::int64_t>(shape_.size(), 1));
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].extent == 1) continue;
      std::vector<std::int64_t> reached(p.type().shape().begin(), p.type().shape().end());
      reached[place(i)] = axes_[i].extent;
      const Value steps = broadcast_to(b_, offsets(i), reached);
      p = moved(broadcast_to(b_, p, reached), steps);
    }
    return p;
  }

  /// Null: every element is inside.
  Value mask() {
    Value all = valid_ ? broadcast_to(b_, along_pieces(valid_), shape_) : Value();
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].in_bounds) continue;
      const Value inside = broadcast_to(b_, inside_along(i), shape_);
      all = all ? b_.create(Op::AndI, {all, inside}, {all.type()})->result() : inside;
    }
    return all;
  }

 private:
  static bool of_pieces(Value v) { return v.type().rank() == 1; }
  /// The axis of the result that belongs to axis i of the tile.
  std::size_t place(std::size_t i) const { return i + (valid_ ? 1 : 0); }
  /// One number for each piece, as a tile with as many axes as the result.
  Value along_pieces(Value v) {
    std::vector<std::int64_t> shape(shape_.size(), 1);
    shape[0] = shape_[0];
    return b_.create(Op::Reshape, {v}, {v.type().with_shape(shape)})->result();
  }
  Value constant(std::int64_t v) { return b_.constant_int(Elem::I64, v); }
  /// An extent or a stride, as i64.
  Value number(const analysis::ViewNumber& n, ir::Signedness sign) {
    return n.is_fixed() ? constant(n.fixed) : as_i64(b_, n.value, sign);
  }
  /// `y` is a scalar.
  Value mul(Value x, Value y) { return b_.create(Op::MulI, {x, splat(b_, y, x.type().shape())}, {x.type()})->result(); }
  Value moved(Value pointers, Value offsets) {
    return b_.create(Op::Offset, {pointers, offsets}, {pointers.type()})->result();
  }
  /// First element of the tile along an axis.
  Value origin(const Axis& a) {
    const Value index = as_i64(b_, a.index, ir::Signedness::Unsigned);  // tile indices are read as unsigned
    return a.extent == 1 ? index : mul(index, constant(a.extent));
  }
  Value times_stride(Value x, const Axis& a) {
    return a.tensor.stride.fixed == 1 ? x : mul(x, number(a.tensor.stride, ir::Signedness::Signed));
  }
  /// Offsets of the tile's elements along axis i, from its first.
  Value offsets(std::size_t i) {
    const Axis& a = axes_[i];
    const Value steps = iota_along(b_, a.extent, place(i), shape_.size());
    if (a.tensor.stride.fixed == 1) return steps;
    const Value wide = as_i64(b_, steps, ir::Signedness::Unsigned);
    return mul(wide, number(a.tensor.stride, ir::Signedness::Signed));
  }
  /// i1: elements along axis i that are inside the tensor: i < min(extent of the tensor - origin, extent of the tile).
  /// The right side is a number a piece that fits 32 bits, so that elements are compared in 32.
  Value inside_along(std::size_t i) {
    const Axis& a = axes_[i];
    Value left = number(a.tensor.extent, ir::Signedness::Unsigned);
    if (of_pieces(a.index)) left = splat(b_, left, a.index.type().shape());
    if (constant_int(a.index) != 0) left = b_.create(Op::SubI, {left, origin(a)}, {left.type()})->result();
    const Value most = splat(b_, constant(a.extent), left.type().shape());
    left = b_.create(Op::MinI, {left, most}, {left.type()}, {{AttrName::signedness, ir::Signedness::Signed}})->result();
    const Value count = b_.create(Op::TruncI, {left}, {left.type().with_element(Elem::I32)})->result();
    const Value steps = iota_along(b_, a.extent, place(i), shape_.size());
    if (!of_pieces(a.index))
      return compared(b_, ir::ComparisonPredicate::Less, steps, splat(b_, count, steps.type().shape()));
    std::vector<std::int64_t> both(steps.type().shape().begin(), steps.type().shape().end());
    both[0] = shape_[0];
    const Value counts = broadcast_to(b_, along_pieces(count), both);
    return compared(b_, ir::ComparisonPredicate::Less, broadcast_to(b_, steps, both), counts);
  }

  Builder& b_;
  std::vector<Axis> axes_;
  std::vector<std::int64_t> shape_;
  Value valid_;
};

}  // namespace

Value padding_tile(Builder& b, Type tile, std::optional<ir::PaddingValue> padding) {
  if (!padding || !tile.is_float()) return b.constant_int(tile.elem(), 0, tile.shape());
  return b.constant_float(tile.elem(), ir::padding_number(*padding), tile.shape());
}

void copy_ordering(const Operation& from, Operation& to) {
  for (const AttrName name : {AttrName::memory_ordering_semantics, AttrName::memory_scope})
    if (const ir::Attribute* a = from.attr(name)) to.set_attr(name, *a);
}

bool can_use_pointers(const Operation& access) {
  const Value view = access.single("view");
  return analysis::tensor_behind(view) && !view.type().tile_shape().empty();
}

bool views_misread(ir::Type tile) {
  constexpr std::int64_t kMaxThreads = 1024;  // of a block
  const auto long_axes =
      std::count_if(tile.shape().begin(), tile.shape().end(), [](auto extent) { return extent > 1; });
  return tile.num_elements() < kMaxThreads && long_axes > 1;
}

Operation* use_pointers(Operation& op, Value valid) {
  const analysis::Access access = *analysis::view_access_of(op);
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  PointerTile tile(access, b, valid);
  std::vector<Value> operands;
  std::vector<std::uint32_t> groups;
  const auto add = [&](Value v) {
    groups.push_back(v ? 1 : 0);
    if (v) operands.push_back(v);
  };
  add(tile.pointers(analysis::tensor_behind(access.view)->single("base")));
  if (access.stores()) add(access.value);
  const Value mask = tile.mask();
  add(mask);
  if (access.loads()) {
    const auto padding = access.view.type().padding();
    add(mask && padding ? padding_tile(b, access.tile, padding) : Value());
  }
  add(access.token);
  std::vector<Type> results;
  for (std::size_t i = 0; i < op.num_results(); ++i) results.push_back(op.result(i).type());
  Operation* made = b.create_grouped(access.loads() ? Op::LoadPtrTko : Op::StorePtrTko, operands, groups, results);
  copy_ordering(op, *made);
  for (std::size_t i = 0; i < results.size(); ++i) op.result(i).replace_all_uses_with(made->result(i));
  op.erase();
  return made;
}

}  // namespace tessera::passes
