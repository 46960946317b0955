// Loading the region of another tensor's piece, with broadcasting of axes that hold one element. The launch checks that
// the extents agree (Trace::same_extents), unless the kernel passes `partial`.
//
// Whether axis k of x broadcasts (x has extent 1 and y's tensor is longer) is known at the launch. If the
// specialization knows it, the tile is loaded with extent 1 and broadcast; otherwise the kernel branches once: a
// pointer load whose broadcast axes stay at element 0, or the ordinary view load.
#include "lang/recording_impl.hpp"

namespace tessera::lang {

using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

enum class Stretch { Never, Always, Unknown };

/// What is known while recording about axis `k` of x and axis `a` of y.
Stretch stretch_of(const TensorState& x, int k, const TensorState& y, int a) {
  const std::int64_t extent = x.extents[static_cast<std::size_t>(k)];
  const bool x_one = extent == 1 || ((x.unit_dims >> k) & 1U) != 0;
  const bool x_long = (extent != kDyn && extent != 1) || ((x.long_dims >> k) & 1U) != 0;
  const bool y_one = ((y.unit_dims >> a) & 1U) != 0, y_long = ((y.long_dims >> a) & 1U) != 0;
  if (x_long || y_one) return Stretch::Never;
  return x_one && y_long ? Stretch::Always : Stretch::Unknown;
}

struct Plan {
  std::vector<int> tile;       ///< extents of the view load, per axis of x
  std::vector<int> result;     ///< extents after broadcasting, per axis of x
  std::vector<Value> index;    ///< tile index of the view load
  std::vector<Value> stretch;  ///< per axis: i1 of an Unknown axis that is longer than 1, else null
  Value any;                   ///< some Unknown axis broadcasts; null if there is none
};

ExtentOf extent_of(const TensorState& t, int axis) {
  const int slot = static_cast<int>(t.dims[static_cast<std::size_t>(axis)].index());  // an entry argument
  return {t.position - 1, slot - t.param->first_arg - 1, slot};
}

void require_same_extent(Recording::Impl& s, const SameExtent& wanted) {
  for (const SameExtent& known : s.trace.same_extents) {
    if (known.loaded == wanted.loaded && known.piece == wanted.piece && known.or_one == wanted.or_one) return;
  }
  s.trace.same_extents.push_back(wanted);
}

Plan plan_load(Recording::Impl& s, TensorState& x, PieceState& y, Extents axes, Regions regions, SourceLocation loc) {
  Plan plan;
  const std::vector<Value> index = index_of(y);
  for (int k = 0; k < x.rank; ++k) {
    const int a = axes[static_cast<std::size_t>(k)];
    const int extent = y.extents[static_cast<std::size_t>(a)];
    const Stretch known = regions == Regions::Agree ? stretch_of(x, k, *y.tensor, a) : Stretch::Never;
    if (regions == Regions::Agree && known != Stretch::Always)
      require_same_extent(s, {extent_of(x, k), extent_of(*y.tensor, a), known == Stretch::Unknown, loc});
    ir::Builder& b = s.tracer.prologue();
    Value at = index[static_cast<std::size_t>(a)], stretches;
    if (known == Stretch::Always) {
      at = ints::i32(b, 0);
    } else if (known == Stretch::Unknown) {
      const Value x_is_one = ints::equal(b, dim32(x, k), ints::i32(b, 1));
      const Value y_dim = dim32(*y.tensor, a);
      const Value y_is_long = ints::greater(b, y_dim, ints::i32(b, 1));
      stretches = ints::bit_and(b, x_is_one, y_is_long);
      if (extent == 1) {
        // One element either way: only the index differs.
        ir::Builder& here = y.scheduled ? s.tracer.here() : b;
        at = ints::select(here, stretches, ints::i32(here, 0), at);
        stretches = {};
      }
    }
    plan.tile.push_back(known == Stretch::Always ? 1 : extent);
    plan.result.push_back(extent);
    plan.index.push_back(at);
    plan.stretch.push_back(stretches);
    if (stretches) plan.any = plan.any ? ints::bit_or(b, plan.any, stretches) : stretches;
  }
  return plan;
}

/// `usual`: the region may lie outside without being a mistake, as that of a part may.
Value load_through_view(TensorState& x, bool claimed, const Plan& plan, bool usual, const PadSpec& pad,
                        SourceLocation loc) {
  const Value tile = load_total_or_claimed(claimed, x, plan.tile, plan.index, pad, loc, usual);
  return ints::expand(state().tracer.at(loc), tile, wide(plan.result));
}

Value load_stretched(TensorState& x, const Plan& plan, const PadSpec& pad, SourceLocation loc) {
  ir::Builder& b = state().tracer.at(loc);
  std::vector<Value> positions;
  for (int k = 0; k < x.rank; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const Value first = ints::mul(b, plan.index[i], ints::i32(b, plan.tile[i]));
    Value at = plan.tile[i] == 1 ? first : positions_along(b, first, k, plan.result);
    if (plan.stretch[i]) at = ints::select(b, plan.stretch[i], ints::i32(b, 0), at);
    positions.push_back(at);
  }
  return load_pointers(elements_at(b, x, positions, plan.result), x, plan.result, pad, nullptr, loc);
}

/// Axes of x in the order of `axes` become the axes of a tile of y's rank.
Value to_piece_axes(ir::Builder& b, Value tile, Extents axes, const PieceState& y) {
  std::vector<std::int32_t> order(axes.size());
  std::vector<std::int64_t> sorted, shape(y.extents.size(), 1);
  bool in_order = true;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    shape[static_cast<std::size_t>(axes[k])] = y.extents[static_cast<std::size_t>(axes[k])];
    std::size_t rank = 0;
    for (const int other : axes) rank += other < axes[k] ? 1 : 0;
    order[rank] = static_cast<std::int32_t>(k);
    in_order = in_order && rank == k;
  }
  if (!in_order) {
    for (const std::int32_t k : order) sorted.push_back(tile.type().shape()[static_cast<std::size_t>(k)]);
    tile = b.create(Op::Permute, {tile}, {tile.type().with_shape(sorted)},
                    {{ir::AttrName::permutation, ir::I32ArrayAttr{order}}})
               ->result();
  }
  return ints::reshape(b, tile, shape);
}

}  // namespace

Value load_like(TensorRef ref, PieceRef piece, Extents axes, Regions regions, const PadSpec& pad, SourceLocation loc) {
  Recording::Impl& s = state();
  TensorState& x = s.tensor(ref, ParamKind::In);
  PieceState& y = s.piece(piece);
  const Plan plan = plan_load(s, x, y, axes, regions, loc);
  const bool usual = y.whole != nullptr || regions == Regions::Partial;
  Value tile;
  if (!plan.any) {
    tile = load_through_view(x, ref.inbounds(), plan, usual, pad, loc);
  } else {
    const Var result = s.tracer.fresh(padding_tile(s.tracer.at(loc), x, plan.result, pad));
    s.tracer.open_if(plan.any, loc);
    s.tracer.write(result, load_stretched(x, plan, pad, loc));
    s.tracer.open_else();
    s.tracer.write(result, load_through_view(x, ref.inbounds(), plan, usual, pad, loc));
    s.tracer.close();
    tile = s.tracer.read(result);
  }
  return to_piece_axes(s.tracer.at(loc), tile, axes, y);
}

}  // namespace tessera::lang
