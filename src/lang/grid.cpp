// Block numbers, piece counts and piece indices: integers at the start of the entry, each computed once.
#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::lang {

using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

void query_grid(Recording::Impl& s) {
  if (s.grid[0]) return;
  const Type i32 = Type::tile(Elem::I32);
  ir::Operation* id = s.tracer.prologue().create(Op::GetTileBlockId, {}, {i32, i32, i32});
  ir::Operation* size = s.tracer.prologue().create(Op::GetNumTileBlocks, {}, {i32, i32, i32});
  for (std::size_t a = 0; a < 3; ++a) {
    s.grid[a] = id->result(a);
    s.grid_size[a] = size->result(a);
  }
}

}  // namespace

Value Recording::Impl::block_number() {
  if (number) return number;
  query_grid(*this);
  ir::Builder& b = tracer.prologue();
  number = specialization.wide_grid ? ints::add(b, ints::mul(b, grid[1], grid_size[0]), grid[0]) : grid[0];
  return number;
}

Value Recording::Impl::block_count() {
  if (blocks) return blocks;
  query_grid(*this);
  if (TensorState* mut = first_mut(); mut != nullptr && specialization.wide_grid) {
    // The blocks beyond the last piece do nothing: they must not be counted in tile scheduling.
    blocks = total_tiles(*mut, std::vector<int>(mut->param->extents.begin(), mut->param->extents.end()));
  } else {
    ir::Builder& b = tracer.prologue();
    blocks = specialization.wide_grid ? ints::mul(b, grid_size[1], grid_size[0]) : grid_size[0];
  }
  return blocks;
}

Value block_coordinate(int axis, int rank) {
  Recording::Impl& s = state();
  if (axis == 0 && (rank == 1 || s.specialization.wide_grid)) return s.block_number();
  if (s.specialization.wide_grid) return ints::i32(s.tracer.prologue(), 0);
  query_grid(s);
  return s.grid[axis];
}

Value block_total() { return state().block_count(); }

Value dim32(TensorState& t, int axis) {
  const auto a = static_cast<std::size_t>(axis);
  if (!t.dims32[a]) {
    ir::Builder& b = state().tracer.prologue();
    t.dims32[a] = t.extents[a] != kDyn ? ints::i32(b, t.extents[a]) : ints::truncate(b, t.dims[a], Elem::I32);
  }
  return t.dims32[a];
}

Value count_of(TensorState& t, int axis, int extent) {
  for (const auto& c : t.counts) {
    if (c.axis == axis && c.extent == extent) return c.value;
  }
  const Value dim = dim32(t, axis);
  t.counts.push_back({axis, extent, ints::ceil_div_unsigned(state().tracer.prologue(), dim, extent)});
  return t.counts.back().value;
}

Value total_tiles(TensorState& t, Extents tile) {
  Value total = count_of(t, 0, tile[0]);
  for (int a = 1; a < t.rank; ++a) {
    const Value next = count_of(t, a, tile[static_cast<std::size_t>(a)]);
    total = ints::mul(state().tracer.prologue(), total, next);
  }
  return total;
}

std::vector<Value> coordinates(ir::Builder& b, Value number, std::span<const Value> counts) {
  std::vector<Value> at(counts.size());
  for (std::size_t a = counts.size(); a-- > 1;) {
    at[a] = ints::rem_unsigned(b, number, counts[a]);
    number = ints::div_unsigned(b, number, counts[a]);
  }
  if (!at.empty()) at[0] = number;
  return at;
}

const std::vector<Value>& index_of(PieceState& p) {
  if (p.index.empty() && p.whole != nullptr) p.index = part_index(state().tracer.prologue(), p);
  if (p.index.empty()) {
    std::vector<Value> counts;
    for (int a = 0; a < p.tensor->rank; ++a)
      counts.push_back(count_of(*p.tensor, a, p.extents[static_cast<std::size_t>(a)]));
    const Value number = state().block_number();
    p.index = coordinates(state().tracer.prologue(), number, counts);
  }
  return p.index;
}

Value tensor_dim(TensorRef ref, int axis) { return dim32(state().tensor(ref), axis); }

Value tensor_stride(TensorRef ref, int axis) {
  TensorState& t = state().tensor(ref);
  return axis == t.unit_axis ? ints::i64(state().tracer.prologue(), 1) : t.strides[static_cast<std::size_t>(axis)];
}

Value tile_count(TensorRef ref, int axis, int extent) { return count_of(state().tensor(ref), axis, extent); }

TensorRef permuted_tensor(TensorRef ref, Extents order) {
  Recording::Impl& s = state();
  const TensorState& from = s.tensor(ref);
  auto t = std::make_unique<TensorState>();
  t->number = static_cast<std::uint32_t>(s.tensors.size());
  t->param = from.param;
  t->position = from.position;
  t->elem = from.elem;
  t->rank = from.rank;
  t->pointer = from.pointer;
  t->dims32.resize(static_cast<std::size_t>(from.rank));
  for (int a = 0; a < from.rank; ++a) {
    const int source = order[static_cast<std::size_t>(a)];
    const auto i = static_cast<std::size_t>(source);
    t->dims.push_back(from.dims[i]);
    t->strides.push_back(from.strides[i]);
    t->extents.push_back(from.extents[i]);
    t->dims32[static_cast<std::size_t>(a)] = from.dims32[i];
    if (source == from.unit_axis) t->unit_axis = a;
    t->unit_dims |= ((from.unit_dims >> source) & 1U) << a;
    t->long_dims |= ((from.long_dims >> source) & 1U) << a;
  }
  const TensorRef result = s.ref(*t, ref.inbounds());
  s.tensors.push_back(std::move(t));
  return result;
}

Value piece_dim(PieceRef ref, int axis) { return dim32(*state().piece(ref).tensor, axis); }

Value piece_count(PieceRef ref, int axis) {
  PieceState& p = state().piece(ref);
  return count_of(*p.tensor, axis, p.extents[static_cast<std::size_t>(axis)]);
}

Value piece_index(PieceRef ref, int axis) { return index_of(state().piece(ref))[static_cast<std::size_t>(axis)]; }

Value piece_origin(PieceRef ref, int axis) {
  Recording::Impl& s = state();
  PieceState& p = s.piece(ref);
  const Value index = index_of(p)[static_cast<std::size_t>(axis)];
  ir::Builder& b = p.scheduled ? s.tracer.here() : s.tracer.prologue();
  return ints::mul(b, index, ints::i32(b, p.extents[static_cast<std::size_t>(axis)]));
}

Value piece_offsets(PieceRef ref, SourceLocation loc) {
  Recording::Impl& s = state();
  PieceState& p = s.piece(ref);
  std::vector<Value> origin;
  for (int a = 0; a < p.tensor->rank; ++a) origin.push_back(piece_origin(ref, a));
  ir::Builder& b = s.tracer.at(loc);
  const auto shape = wide(p.extents);
  Value offsets;
  for (int a = 0; a < p.tensor->rank; ++a) {
    // Horner: offset = (...(i0 * d1 + i1) * d2 + i2 ...), in 64 bits.
    Value along = ints::extend(b, origin[static_cast<std::size_t>(a)], Elem::I64, false);
    if (shape[static_cast<std::size_t>(a)] != 1) along = ints::add(b, along, ints::iota(b, Elem::I64, a, shape));
    offsets = offsets ? ints::add(b, ints::mul(b, offsets, p.tensor->dims[static_cast<std::size_t>(a)]), along) : along;
  }
  return ints::expand(b, offsets, shape);
}

std::vector<std::int64_t> wide(Extents extents) { return {extents.begin(), extents.end()}; }

}  // namespace tessera::lang
