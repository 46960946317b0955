// Loads and stores through partition views, with explicit guards: Tile IR leaves a tile index outside the index space
// undefined, so the guard is an `if` around the access, and padding is what the other arm gives.
#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::PaddingValue;
using ir::Type;
using ir::Value;

namespace {

std::vector<std::int32_t> narrow(Extents e) { return {e.begin(), e.end()}; }

/// The padding that a view supports; pad(value) is applied afterwards.
PaddingValue view_padding(PadKind kind) {
  switch (kind) {
    case PadKind::NegInf: return PaddingValue::NegInf;
    case PadKind::PosInf: return PaddingValue::PosInf;
    case PadKind::NaN: return PaddingValue::NaN;
    case PadKind::Zero:
    case PadKind::Value: break;
  }
  return PaddingValue::Zero;
}

std::vector<Value> view_operands(std::initializer_list<Value> head, Values index, Value token) {
  std::vector<Value> operands(head);
  operands.insert(operands.end(), index.begin(), index.end());
  if (token) operands.push_back(token);
  return operands;
}

/// Tile IR pads edge tiles with a few constants only; any other padding is selected where the position is outside.
Value replace_padding(ir::Builder& b, TensorState& t, Extents tile, Values index, Value loaded, const PadSpec& pad) {
  const auto shape = wide(tile);
  Value inside;
  for (int a = 0; a < t.rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    if (tile[i] == 1 || (t.extents[i] != kDyn && t.extents[i] % tile[i] == 0)) continue;
    const Value first = ints::mul(b, index[i], ints::i32(b, tile[i]));
    const Value mask = ints::below(b, positions_along(b, first, a, tile), dim32(t, a));
    inside = inside ? ints::bit_and(b, inside, mask) : mask;
  }
  return inside ? ints::select(b, ints::expand(b, inside, shape), loaded, padding_tile(b, t, tile, pad)) : loaded;
}

/// Inside along every axis.
ir::BoolArrayAttr everywhere(Values index) { return {std::vector<bool>(index.size(), true)}; }

}  // namespace

std::string TensorState::label() const { return concat("argument ", position, " (", param->spelling, ")"); }

Value tensor_view_of(TensorState& t) {
  if (t.tensor_view) return t.tensor_view;
  std::vector<std::int64_t> shape, strides;
  std::vector<Value> operands{t.pointer};
  for (int a = 0; a < t.rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    shape.push_back(t.extents[i] == kDyn ? ir::kDynamic : t.extents[i]);
    if (t.extents[i] == kDyn) operands.push_back(t.dims[i]);
  }
  const auto dynamic_dims = static_cast<std::uint32_t>(operands.size() - 1);
  for (int a = 0; a < t.rank; ++a) {
    strides.push_back(a == t.unit_axis ? 1 : ir::kDynamic);
    if (a != t.unit_axis) operands.push_back(t.strides[static_cast<std::size_t>(a)]);
  }
  const auto dynamic_strides = static_cast<std::uint32_t>(operands.size() - 1) - dynamic_dims;
  const std::uint32_t groups[] = {1, dynamic_dims, dynamic_strides};
  const Type type[] = {Type::tensor_view(t.elem, shape, strides)};
  t.tensor_view = state().tracer.prologue().create_grouped(Op::MakeTensorView, operands, groups, type)->result();
  return t.tensor_view;
}

Value partition_view_of(TensorState& t, Extents tile, std::optional<PaddingValue> padding) {
  const int key = padding ? static_cast<int>(*padding) : -1;
  for (const auto& v : t.views) {
    if (v.padding == key && std::equal(v.tile.begin(), v.tile.end(), tile.begin(), tile.end())) return v.value;
  }
  const Value tensor = tensor_view_of(t);
  const Type type = Type::partition_view(tensor.type(), narrow(tile), {}, padding);
  const Value view = state().tracer.prologue().create(Op::MakePartitionView, {tensor}, {type})->result();
  t.views.push_back({{tile.begin(), tile.end()}, key, view});
  return view;
}

Value padding_tile(ir::Builder& b, const TensorState& t, Extents tile, const PadSpec& pad) {
  const auto shape = wide(tile);
  if (pad.kind == PadKind::Value) return ints::expand(b, pad.value, shape);
  if (!ir::info(t.elem).is_float) return b.constant_int(t.elem, 0, shape);
  return b.constant_float(t.elem, ir::padding_number(view_padding(pad.kind)), shape);
}

void loaded(OrderTokens& order, Value token, SourceLocation loc) {
  Tracer& t = state().tracer;
  const Value before = t.read(order.all);
  t.write(order.all, t.at(loc).create(Op::JoinTokens, {before, token}, {Type::token()})->result());
}

void stored(OrderTokens& order, Value token) {
  Tracer& t = state().tracer;
  t.write(order.written, token);
  t.write(order.all, token);
}

Value load_view(TensorState& t, Extents tile, Values index, const PadSpec& pad, OrderTokens* order, SourceLocation loc,
                bool inbounds) {
  Tracer& tracer = state().tracer;
  const Value view = partition_view_of(t, tile, view_padding(pad.kind));
  const Value token = order != nullptr ? tracer.read(order->written) : Value{};
  const auto operands = view_operands({view}, index, token);
  const std::uint32_t groups[] = {1, static_cast<std::uint32_t>(index.size()), token ? 1U : 0U};
  const Type types[] = {Type::tile(Type::element(t.elem), wide(tile)), Type::token()};
  ir::Builder& b = tracer.at(loc);
  ir::Operation* load = b.create_grouped(Op::LoadViewTko, operands, groups, types,
                                         {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  if (inbounds) load->set_attr(AttrName::inbounds, everywhere(index));
  if (order != nullptr) loaded(*order, load->result(1), loc);
  return pad.kind == PadKind::Value && !inbounds ? replace_padding(tracer.at(loc), t, tile, index, load->result(0), pad)
                                                 : load->result(0);
}

void store_view(TensorState& t, Extents tile, Values index, Value value, OrderTokens* order, SourceLocation loc,
                bool inbounds) {
  Tracer& tracer = state().tracer;
  const Value view = partition_view_of(t, tile, std::nullopt);
  const Value token = order != nullptr ? tracer.read(order->all) : Value{};
  const auto operands = view_operands({value, view}, index, token);
  const std::uint32_t groups[] = {1, 1, static_cast<std::uint32_t>(index.size()), token ? 1U : 0U};
  const Type types[] = {Type::token()};
  ir::Operation* store = tracer.at(loc).create_grouped(
      Op::StoreViewTko, operands, groups, types, {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  if (inbounds) store->set_attr(AttrName::inbounds, everywhere(index));
  if (order != nullptr) stored(*order, store->result());
}

Value indices_in_range(TensorState& t, Extents tile, Values index, SourceLocation loc, bool usual) {
  Tracer& tracer = state().tracer;
  Value all;
  const int before = t.rank - static_cast<int>(index.size());
  for (int a = 0; a < t.rank - before; ++a) {
    const auto i = static_cast<std::size_t>(a);
    const Value count = count_of(t, before + a, tile[i]);
    ir::Builder& b = tracer.at(loc);
    const Value one = ints::below(b, index[i], count);
    if (tracer.checked && !usual) {
      const std::string message = concat("tile index on axis ", a, " of ", t.label(),
                                         " is outside its grid of tiles (tile extent ", tile[i], ")");
      b.create(Op::Assert, {one}, {}, {{AttrName::message, message}});
    }
    all = all ? ints::bit_and(b, all, one) : one;
  }
  return all;
}

bool believed(bool claimed, TensorState& t, Extents tile, Values index, SourceLocation loc) {
  Tracer& tracer = state().tracer;
  if (!claimed || !tracer.checked) return claimed;
  for (int a = 0; a < t.rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    const Value dim = dim32(t, a);
    ir::Builder& b = tracer.at(loc);
    const Value inside = ints::below(b, index[i], ints::div_unsigned(b, dim, ints::i32(b, tile[i])));
    b.create(Op::Assert, {inside}, {},
             {{AttrName::message, concat("unsafe_::assume_inbounds of ", t.label(), " is not true: a tile of ", tile[i],
                                         " elements reaches beyond the tensor on axis ", a)}});
  }
  return false;
}

Value load_if(Value in_range, TensorState& t, Extents tile, Values index, const PadSpec& pad, OrderTokens* order,
              SourceLocation loc) {
  Tracer& tracer = state().tracer;
  const auto known = ints::known(in_range);
  if (known && *known) return load_view(t, tile, index, pad, order, loc);
  const Value padding = padding_tile(tracer.at(loc), t, tile, pad);
  if (known) return padding;
  const Var result = tracer.fresh(padding);
  tracer.open_if(in_range, loc);
  tracer.write(result, load_view(t, tile, index, pad, order, loc));
  tracer.close();
  return tracer.read(result);
}

Value load_total_or_claimed(bool claimed, TensorState& t, Extents tile, Values index, const PadSpec& pad,
                            SourceLocation loc, bool usual) {
  for (int a = 0; a < t.rank; ++a) count_of(t, a, tile[static_cast<std::size_t>(a)]);
  if (believed(claimed, t, tile, index, loc)) return load_view(t, tile, index, pad, nullptr, loc, true);
  return load_if(indices_in_range(t, tile, index, loc, usual), t, tile, index, pad, nullptr, loc);
}

Value load_tile(TensorRef ref, Extents tile, Values index, const PadSpec& pad, SourceLocation loc) {
  TensorState& t = state().tensor(ref, ParamKind::In);
  return load_total_or_claimed(ref.inbounds(), t, tile, index, pad, loc);
}

Value load_piece(PieceRef ref, const PadSpec& pad, SourceLocation loc) {
  PieceState& p = state().piece(ref);
  const std::vector<Value>& index = index_of(p);
  const bool inbounds = believed(ref.inbounds(), *p.tensor, p.extents, index, loc);
  if (p.whole == nullptr || inbounds) return load_view(*p.tensor, p.extents, index, pad, &p.order, loc, inbounds);
  const Value in_range = indices_in_range(*p.tensor, p.extents, index, loc, true);
  return load_if(in_range, *p.tensor, p.extents, index, pad, &p.order, loc);
}

/// Without a bounds check: a block's number is below the number of pieces, and that of a scheduled tile below the
/// number of tiles, because loop counts are exact (docs/compiler/count_loops.md). Sub-tiles of a piece may lie outside.
void store_piece(PieceRef ref, Value tile, SourceLocation loc) {
  PieceState& p = state().piece(ref);
  const std::vector<Value>& index = index_of(p);
  const bool inbounds = believed(ref.inbounds(), *p.tensor, p.extents, index, loc);
  if (p.whole == nullptr || inbounds) return store_view(*p.tensor, p.extents, index, tile, &p.order, loc, inbounds);
  state().tracer.open_if(indices_in_range(*p.tensor, p.extents, index, loc, true), loc);
  store_view(*p.tensor, p.extents, index, tile, &p.order, loc);
  state().tracer.close();
}

namespace {

struct SubTile {
  std::vector<Value> index;
  Value in_range;
};

/// Tile `index` inside the piece as a tile of the whole tensor. The extents of sub-tiles divide those of the piece, so
/// the grids nest; the last piece may hold fewer sub-tiles than the others.
SubTile locate_sub(PieceState& p, Extents tile, Values index, SourceLocation loc) {
  Recording::Impl& s = state();
  const std::vector<Value> piece = index_of(p);
  SubTile sub;
  for (int a = 0; a < p.tensor->rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    const Value count = count_of(*p.tensor, a, tile[i]);
    ir::Builder& b = s.tracer.at(loc);
    const Value per_piece = ints::i32(b, p.extents[i] / tile[i]);
    const Value global = ints::add(b, ints::mul(b, piece[i], per_piece), index[i]);
    const Value inside_piece = ints::below(b, index[i], per_piece);
    if (s.tracer.checked) {
      b.create(Op::Assert, {inside_piece}, {},
               {{AttrName::message, concat("sub-tile index on axis ", a, " is outside the piece of ", p.tensor->label(),
                                           " (", p.extents[i] / tile[i], " sub-tiles)")}});
    }
    const Value one = ints::bit_and(b, inside_piece, ints::below(b, global, count));
    sub.in_range = sub.in_range ? ints::bit_and(b, sub.in_range, one) : one;
    sub.index.push_back(global);
  }
  return sub;
}

}  // namespace

Value load_sub(PieceRef ref, Extents tile, Values index, const PadSpec& pad, SourceLocation loc) {
  PieceState& p = state().piece(ref);
  const SubTile sub = locate_sub(p, tile, index, loc);
  if (believed(ref.inbounds(), *p.tensor, tile, sub.index, loc))
    return load_view(*p.tensor, tile, sub.index, pad, &p.order, loc, true);
  return load_if(sub.in_range, *p.tensor, tile, sub.index, pad, &p.order, loc);
}

void store_sub(PieceRef ref, Extents tile, Values index, Value value, SourceLocation loc) {
  PieceState& p = state().piece(ref);
  const SubTile sub = locate_sub(p, tile, index, loc);
  if (believed(ref.inbounds(), *p.tensor, tile, sub.index, loc))
    return store_view(*p.tensor, tile, sub.index, value, &p.order, loc, true);
  state().tracer.open_if(sub.in_range, loc);
  store_view(*p.tensor, tile, sub.index, value, &p.order, loc);
  state().tracer.close();
}

}  // namespace tessera::lang
