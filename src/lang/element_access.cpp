// Element-wise access through pointer tiles: regions at any element offset, gathers, and what views cannot express.
// Every element is masked by comparing its position with the tensor's dimension, unsigned: negative and wrapped
// positions are outside.
#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

Value positions_along(ir::Builder& b, Value start, int axis, Extents shape) {
  const auto dims = wide(shape);
  if (dims[static_cast<std::size_t>(axis)] == 1) return start;
  return ints::add(b, start, ints::iota(b, start.type().elem(), axis, dims));
}

namespace {

/// Splats a scalar pointer or offsets a pointer tile, both at `shape`.
Value offset_pointers(ir::Builder& b, Value pointers, Value offsets, std::span<const std::int64_t> shape) {
  const Value base = ints::expand(b, pointers, shape);
  return b.create(Op::Offset, {base, ints::expand(b, offsets, shape)}, {base.type()})->result();
}

/// True if every position is below a static extent by construction: 0, 1, ..., n - 1 with n <= extent.
bool statically_inside(Value position, std::int64_t extent) {
  if (extent == kDyn) return false;
  if (const auto c = ints::constant_of(position)) return *c >= 0 && *c < extent;
  const ir::Operation* def = position.def();
  if (def != nullptr && def->op() == Op::Reshape) def = def->operand(0).def();
  return def != nullptr && def->op() == Op::Iota && position.type().num_elements() <= extent;
}

/// i1 at `shape`: every position is below the extent of its axis; null: by construction.
Value mask_of(ir::Builder& b, TensorState& t, Values positions, std::span<const std::int64_t> shape) {
  Value mask;
  for (int a = 0; a < t.rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    const Value position = positions[i];
    if (statically_inside(position, t.extents[i])) continue;
    const Value dim = position.type().elem() == Elem::I64 ? t.dims[i] : dim32(t, a);
    const Value inside = ints::below(b, position, dim);
    mask = mask ? ints::bit_and(b, mask, inside) : inside;
  }
  return mask ? ints::expand(b, mask, shape) : Value{};
}

/// Positions along an axis, as element offsets in memory.
Value times_stride(ir::Builder& b, const TensorState& t, int axis, Value places) {
  return axis == t.unit_axis ? places : ints::mul(b, places, t.strides[static_cast<std::size_t>(axis)]);
}

}  // namespace

Elements elements_at(ir::Builder& b, TensorState& t, Values positions, Extents shape) {
  const auto dims = wide(shape);
  Value offset;
  for (int a = 0; a < t.rank; ++a) {
    // Only positions inside are dereferenced, and those are not negative.
    const Value along =
        times_stride(b, t, a, ints::extend(b, positions[static_cast<std::size_t>(a)], Elem::I64, false));
    offset = offset ? ints::add(b, offset, along) : along;
  }
  if (!offset) offset = ints::i64(b, 0);
  return {offset_pointers(b, t.pointer, offset, dims), mask_of(b, t, positions, dims)};
}

Elements claimed_elements(Elements at, bool claimed, const TensorState& t, SourceLocation loc) {
  Tracer& tracer = state().tracer;
  if (!claimed || !at.mask) return at;
  if (!tracer.checked) return {at.pointers, Value{}};
  tracer.at(loc).create(Op::Assert, {at.mask}, {},
                        {{AttrName::message, concat("unsafe_::assume_inbounds of ", t.label(),
                                                    " is not true: an element lies outside the tensor")}});
  return at;
}

void assert_inside(Value inside, const char* access, const TensorState& t, SourceLocation loc) {
  Tracer& tracer = state().tracer;
  if (!tracer.strict || !inside) return;
  tracer.at(loc).create(Op::Assert, {inside}, {},
                        {{AttrName::message, concat(access, " ", t.label(),
                                                    " at a position outside, which strict checked mode reports")}});
}

Value load_pointers(const Elements& at, TensorState& t, Extents shape, const PadSpec& pad, OrderTokens* order,
                    SourceLocation loc) {
  Tracer& tracer = state().tracer;
  std::vector<Value> operands{at.pointers};
  if (at.mask) {
    operands.push_back(at.mask);
    operands.push_back(padding_tile(tracer.at(loc), t, shape, pad));
  }
  if (order != nullptr) operands.push_back(tracer.read(order->written));
  const std::uint32_t masked = at.mask ? 1 : 0;
  const std::uint32_t groups[] = {1, masked, masked, order != nullptr ? 1U : 0U};
  const Type types[] = {Type::tile(Type::element(t.elem), wide(shape)), Type::token()};
  ir::Operation* load = tracer.at(loc).create_grouped(
      Op::LoadPtrTko, operands, groups, types, {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  if (order != nullptr) loaded(*order, load->result(1), loc);
  return load->result(0);
}

void store_pointers(const Elements& at, Value value, OrderTokens* order, SourceLocation loc) {
  Tracer& tracer = state().tracer;
  std::vector<Value> operands{at.pointers, value};
  if (at.mask) operands.push_back(at.mask);
  if (order != nullptr) operands.push_back(tracer.read(order->all));
  const std::uint32_t groups[] = {1, 1, at.mask ? 1U : 0U, order != nullptr ? 1U : 0U};
  const Type types[] = {Type::token()};
  ir::Operation* store = tracer.at(loc).create_grouped(
      Op::StorePtrTko, operands, groups, types, {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  if (order != nullptr) stored(*order, store->result());
}

namespace {

/// The region that begins at `start`: one base address for the tile, and offsets from it that are the same for every
/// tile. The base may be negative: with a start of -3, element 3 is the tensor's first.
Elements region_at(ir::Builder& b, TensorState& t, Values start, Extents tile) {
  const auto dims = wide(tile);
  std::vector<Value> positions;
  Value pointers = t.pointer;
  for (int a = 0; a < t.rank; ++a) {
    const Value first = start[static_cast<std::size_t>(a)];
    positions.push_back(positions_along(b, first, a, tile));
    if (ints::constant_of(first) == 0) continue;
    const Value along = times_stride(b, t, a, ints::extend(b, first, Elem::I64, true));
    pointers = b.create(Op::Offset, {pointers, along}, {pointers.type()})->result();
  }
  std::vector<std::int64_t> reached(dims.size(), 1);
  for (int a = 0; a < t.rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    if (dims[i] == 1) continue;
    reached[i] = dims[i];
    pointers = offset_pointers(b, pointers, times_stride(b, t, a, ints::iota(b, Elem::I64, a, dims)), reached);
  }
  return {ints::expand(b, pointers, dims), mask_of(b, t, positions, dims)};
}

}  // namespace

Value load_region(TensorRef ref, Extents tile, Values start, const PadSpec& pad, SourceLocation loc) {
  TensorState& t = state().tensor(ref, ParamKind::In);
  ir::Builder& b = state().tracer.at(loc);
  const Elements at = claimed_elements(region_at(b, t, start, tile), ref.inbounds(), t, loc);
  assert_inside(at.mask, "load_at of", t, loc);
  return load_pointers(at, t, tile, pad, nullptr, loc);
}

Value load_elements(TensorRef ref, Values positions, Extents shape, const PadSpec& pad, SourceLocation loc) {
  TensorState& t = state().tensor(ref, ParamKind::In);
  ir::Builder& b = state().tracer.at(loc);
  const Elements at = claimed_elements(elements_at(b, t, positions, shape), ref.inbounds(), t, loc);
  assert_inside(at.mask, "gather from", t, loc);
  return load_pointers(at, t, shape, pad, nullptr, loc);
}

Value load_slices(TensorRef ref, int axis, Value index, Extents shape, const PadSpec& pad, SourceLocation loc) {
  TensorState& t = state().tensor(ref, ParamKind::In);
  ir::Builder& b = state().tracer.at(loc);
  const auto dims = wide(shape);
  std::vector<Value> positions;
  for (int a = 0; a < t.rank; ++a) {
    std::vector<std::int64_t> line(shape.size(), 1);
    line[static_cast<std::size_t>(a)] = dims[static_cast<std::size_t>(a)];
    positions.push_back(a == axis ? ints::reshape(b, index, line) : ints::iota(b, Elem::I32, a, dims));
  }
  const Elements at = claimed_elements(elements_at(b, t, positions, shape), ref.inbounds(), t, loc);
  assert_inside(at.mask, "gather from", t, loc);
  return load_pointers(at, t, shape, pad, nullptr, loc);
}

Value load_anywhere(PieceRef ref, Extents tile, Values start, const PadSpec& pad, SourceLocation loc) {
  PieceState& p = state().piece(ref);
  ir::Builder& b = state().tracer.at(loc);
  return load_pointers(region_at(b, *p.tensor, start, tile), *p.tensor, tile, pad, &p.order, loc);
}

void store_anywhere(PieceRef ref, Extents tile, Values start, Value value, SourceLocation loc) {
  PieceState& p = state().piece(ref);
  ir::Builder& b = state().tracer.at(loc);
  store_pointers(region_at(b, *p.tensor, start, tile), value, &p.order, loc);
}

// ---- raw pointers ---------------------------------------------------------------------------------------------------

Value raw_offset(Value pointers, Value offsets, Extents shape) {
  return offset_pointers(state().tracer.here(), pointers, offsets, wide(shape));
}

Value raw_load(Value pointers, Value mask, SourceLocation loc) {
  Recording::Impl& s = state();
  OrderTokens& order = s.raw;
  const ir::Elem elem = pointers.type().elem();
  const auto shape = pointers.type().shape();
  std::vector<Value> operands{pointers};
  if (mask) {
    ir::Builder& b = s.tracer.at(loc);
    operands.push_back(mask);
    operands.push_back(ir::info(elem).is_float ? b.constant_float(elem, 0, shape) : b.constant_int(elem, 0, shape));
  }
  operands.push_back(s.tracer.read(order.written));
  const std::uint32_t masked = mask ? 1 : 0;
  const std::uint32_t groups[] = {1, masked, masked, 1};
  const Type types[] = {Type::tile(Type::element(elem), shape), Type::token()};
  ir::Operation* load = s.tracer.at(loc).create_grouped(
      Op::LoadPtrTko, operands, groups, types, {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  loaded(order, load->result(1), loc);
  return load->result(0);
}

void raw_store(Value pointers, Value value, Value mask, SourceLocation loc) {
  store_pointers({pointers, mask}, value, &state().raw, loc);
}

// ---- promises -------------------------------------------------------------------------------------------------------

namespace {

/// Checked mode replaces a promise by an assertion.
void check_promise(ir::Builder& b, Value holds, std::string what) {
  b.create(Op::Assert, {holds}, {}, {{AttrName::message, concat("unsafe_::assume is not true: an element ", what)}});
}

Value divisible(ir::Builder& b, Value v, std::uint64_t divisor) {
  if (v.type().is_pointer()) v = b.create(Op::PtrToInt, {v}, {v.type().with_element(Elem::I64)})->result();
  const Type type = v.type();
  const int unused = 64 - ir::info(type.elem()).bits;  // bits above the element's
  const std::int64_t low = static_cast<std::int64_t>((divisor - 1) << unused) >> unused;
  const Value rest = ints::bit_and(b, v, b.constant_int(type.elem(), low, type.shape()));
  return ints::equal(b, rest, b.constant_int(type.elem(), 0, type.shape()));
}

/// The promise as the compiler reads it: on signed numbers, in 64 bits.
Value within(ir::Builder& b, Value v, std::int64_t lower, std::int64_t upper) {
  const Value wide = ints::extend(b, v, Elem::I64, true);
  const auto bound = [&](std::int64_t n) { return b.constant_int(Elem::I64, n, wide.type().shape()); };
  const auto at_least = [&](Value x, Value y) {
    return b
        .create(Op::CmpI, {x, y}, {x.type().with_element(Elem::I1)},
                {{AttrName::comparison_predicate, ir::ComparisonPredicate::GreaterEqual},
                 {AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  };
  return ints::bit_and(b, at_least(wide, bound(lower)), at_least(bound(upper), wide));
}

}  // namespace

Value assume_divisible(Value v, std::uint64_t divisor, SourceLocation loc) {
  if (divisor == 0 || (divisor & (divisor - 1)) != 0) {
    throw TraceError(concat("assume(x, div_by(", divisor, ")): the divisor must be a power of two"), loc);
  }
  ir::Builder& b = state().tracer.at(loc);
  if (state().tracer.checked && !v.type().is_float()) {
    check_promise(b, divisible(b, v, divisor), concat("is no multiple of ", divisor));
    return v;
  }
  return b.create(Op::Assume, {v}, {v.type()}, {{AttrName::predicate, ir::DivByAttr{divisor, {}, {}}}})->result();
}

Value assume_bounded(Value v, std::int64_t lower, std::int64_t upper, SourceLocation loc) {
  if (v.type().is_float() || lower > upper) {
    throw TraceError(
        concat("assume(x, bounded(", lower, ", ", upper, ")) needs integers and a range that is not empty"), loc);
  }
  ir::Builder& b = state().tracer.at(loc);
  if (state().tracer.checked) {
    check_promise(b, within(b, v, lower, upper), concat("lies outside ", lower, " to ", upper));
    return v;
  }
  return b.create(Op::Assume, {v}, {v.type()}, {{AttrName::predicate, ir::BoundedAttr{lower, upper}}})->result();
}

// ---- indices --------------------------------------------------------------------------------------------------------

Value as_position(Value index, bool is_signed) {
  if (ir::info(index.type().elem()).bits >= 32) return index;
  return ints::extend(state().tracer.here(), index, Elem::I32, is_signed);
}

Value widened_offset(Value offset, SourceLocation loc) {
  return ints::extend(state().tracer.at(loc), offset, Elem::I64, false);
}

Value index_constant(std::int64_t value, SourceLocation loc) {
  if (value < INT32_MIN || value > INT32_MAX) {
    throw TraceError(
        concat("an index is an i32, but ", value, " does not fit; tensors hold at most 2147483647 elements per axis"),
        loc);
  }
  return ints::i32(state().tracer.at(loc), value);
}

}  // namespace tessera::lang
