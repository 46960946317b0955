// The address of an element is base + sum over axes of (index * tile + i) * stride. What is equal for the whole tile is
// added to the scalar base in 64 bits; what differs inside the tile is added per axis. An axis of stride 1 needs no
// multiplication, and its offsets stay 32 bits wide: extents of tiles are at most 2^24.
#include "passes/pointer_tiles.hpp"

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
  PointerTile(const analysis::Access& access, Builder& b) : b_(b), axes_(axes_of(access)) {
    for (const Axis& a : axes_) shape_.push_back(a.extent);
  }

  Value pointers(Value base) {
    for (const Axis& a : axes_)
      if (constant_int(a.index) != 0) base = moved(base, times_stride(origin(a), a));
    Value p = splat(b_, base, std::vector<std::int64_t>(shape_.size(), 1));
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].extent == 1) continue;
      std::vector<std::int64_t> reached(p.type().shape().begin(), p.type().shape().end());
      reached[i] = axes_[i].extent;
      p = moved(broadcast_to(b_, p, reached), broadcast_to(b_, offsets(i), reached));
    }
    return p;
  }

  /// Null: every element is inside.
  Value mask() {
    Value all;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].in_bounds) continue;
      const Value inside = broadcast_to(b_, inside_along(i), shape_);
      all = all ? b_.create(Op::AndI, {all, inside}, {all.type()})->result() : inside;
    }
    return all;
  }

 private:
  Value constant(std::int64_t v) { return b_.constant_int(Elem::I64, v); }
  /// An extent or a stride, as i64.
  Value number(const analysis::ViewNumber& n, ir::Signedness sign) {
    return n.is_fixed() ? constant(n.fixed) : as_i64(b_, n.value, sign);
  }
  Value mul(Value x, Value y) { return b_.create(Op::MulI, {x, y}, {x.type()})->result(); }
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
    const Value steps = iota_along(b_, a.extent, i, axes_.size());
    if (a.tensor.stride.fixed == 1) return steps;
    const Value wide = as_i64(b_, steps, ir::Signedness::Unsigned);
    const Value stride = number(a.tensor.stride, ir::Signedness::Signed);
    return mul(wide, splat(b_, stride, wide.type().shape()));
  }
  /// i1: elements along axis i that are inside the tensor: i < min(extent of the tensor - origin, extent of the tile).
  /// The right side is a scalar that fits 32 bits, so that elements are compared in 32.
  Value inside_along(std::size_t i) {
    const Axis& a = axes_[i];
    Value left = number(a.tensor.extent, ir::Signedness::Unsigned);
    if (constant_int(a.index) != 0) left = b_.create(Op::SubI, {left, origin(a)}, {left.type()})->result();
    left =
        b_.create(Op::MinI, {left, constant(a.extent)}, {left.type()}, {{AttrName::signedness, ir::Signedness::Signed}})
            ->result();
    const Value count = b_.create(Op::TruncI, {left}, {left.type().with_element(Elem::I32)})->result();
    const Value steps = iota_along(b_, a.extent, i, axes_.size());
    return b_
        .create(Op::CmpI, {steps, splat(b_, count, steps.type().shape())}, {steps.type().with_element(Elem::I1)},
                {{AttrName::comparison_predicate, ir::ComparisonPredicate::Less},
                 {AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  }

  Builder& b_;
  std::vector<Axis> axes_;
  std::vector<std::int64_t> shape_;
};

Value padding_tile(Builder& b, Type tile, ir::PaddingValue padding) {
  if (!tile.is_float()) return b.constant_int(tile.elem(), 0, tile.shape());
  return b.constant_float(tile.elem(), ir::padding_number(padding), tile.shape());
}

void copy_attributes(const Operation& from, Operation& to) {
  for (const AttrName name : {AttrName::memory_ordering_semantics, AttrName::memory_scope})
    if (const ir::Attribute* a = from.attr(name)) to.set_attr(name, *a);
}

}  // namespace

bool can_use_pointers(const Operation& access) {
  const Value view = access.single("view");
  return analysis::tensor_behind(view) && !view.type().tile_shape().empty();
}

void use_pointers(Operation& op) {
  const analysis::Access access = *analysis::view_access_of(op);
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  PointerTile tile(access, b);
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
    add(mask && padding ? padding_tile(b, access.tile, *padding) : Value());
  }
  add(access.token);
  std::vector<Type> results;
  for (std::size_t i = 0; i < op.num_results(); ++i) results.push_back(op.result(i).type());
  Operation* made = b.create_grouped(access.loads() ? Op::LoadPtrTko : Op::StorePtrTko, operands, groups, results);
  copy_attributes(op, *made);
  for (std::size_t i = 0; i < results.size(); ++i) op.result(i).replace_all_uses_with(made->result(i));
  op.erase();
}

}  // namespace tessera::passes
