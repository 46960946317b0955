// Reproducible sums: accumulation of f32 without rounding (a superaccumulator). A sum is reproducible<f32>::bins
// numbers of i64. A finite f32 is +-m * 2^(p - 149), where m has 24 bits and p is 0 to 253. Bin k counts multiples of
// 2^(32 k - 149): m << (p % 32) is added to bin p / 32 by its low 32 bits and to the next one by the others. Additions
// of integers are exact and atomic, so neither their order nor how a sum is divided among blocks can be seen. Each is
// less than 2^32, so that 2^31 of them fit. The last bin counts what is not finite: +infinity in its low 32 bits,
// -infinity in the others, a NaN in both, because the sum of both infinities is a NaN, too.
//
// Bins are the first axis: neighbouring sums mostly have their values in the same bins, so that the addition of a tile
// touches consecutive addresses. Bins of 32 bits are a choice of memory: with bins of 8 bits, m << (p % 8) would go to
// one bin instead of two, but a sum would have 33 of them instead of 10.
#include "lang/recording_impl.hpp"
#include "tessera/lang/control.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

constexpr int kBins = reproducible<f32>::bins;
constexpr int kSpecialBin = kBins - 1;
/// So many values or more of a tile that go to one position are added to each other first.
constexpr std::int64_t kReducedFrom = 16;
constexpr std::int64_t kInfinity = 1, kMinusInfinity = std::int64_t{1} << 32;

/// Integer arithmetic on tiles of one shape.
struct TileIntegers {
  ir::Builder& b;
  std::vector<std::int64_t> shape;

  Value number(Elem e, std::int64_t v) const { return b.constant_int(e, v, shape); }
  Value like(Value x, std::int64_t v) const { return number(x.type().elem(), v); }
  Value apply(Op op, Value x, Value y) const { return b.create(op, {x, y}, {x.type()})->result(); }
  Value bits_of(Value x) const {
    return b.create(Op::Bitcast, {x}, {Type::tile(Type::element(Elem::I32), shape)})->result();
  }
  Value shifted_left(Value x, Value amount) const { return apply(Op::ShLI, x, amount); }
  Value shifted_right(Value x, std::int64_t amount) const {
    return b.create(Op::ShRI, {x, like(x, amount)}, {x.type()}, {{AttrName::signedness, ir::Signedness::Unsigned}})
        ->result();
  }
  Value masked(Value x, std::int64_t mask) const { return ints::bit_and(b, x, like(x, mask)); }
  Value is(Value x, std::int64_t v) const { return ints::equal(b, x, like(x, v)); }
  Value negated_where(Value condition, Value x) const {
    return ints::select(b, condition, ints::sub(b, like(x, 0), x), x);
  }
};

/// What values are in bins: `low` is added to bin `bin`, `high` to the next one.
struct Parts {
  Value bin;        // i32
  Value low, high;  // i64
};

Parts parts_of(ir::Builder& b, Value value) {
  const auto dims = value.type().shape();
  const TileIntegers t{b, {dims.begin(), dims.end()}};
  const Value bits = t.bits_of(value);
  const Value exponent = t.masked(t.shifted_right(bits, 23), 0xff);
  const Value fraction = t.masked(bits, 0x7fffff);
  const Value negative = t.is(t.shifted_right(bits, 31), 1);
  const Value is_special = t.is(exponent, 0xff);
  // A denormal number has the exponent of the smallest normal one, without its leading bit.
  const Value is_denormal = t.is(exponent, 0);
  const Value significand = ints::select(b, is_denormal, fraction, ints::bit_or(b, fraction, t.like(bits, 0x800000)));
  const Value place = ints::select(b, is_denormal, t.like(bits, 0), ints::sub(b, exponent, t.like(bits, 1)));
  const Value amount = ints::extend(b, t.masked(place, 31), Elem::I64, false);
  const Value word = t.shifted_left(ints::extend(b, significand, Elem::I64, false), amount);
  const Value infinity = ints::select(b, negative, t.number(Elem::I64, kMinusInfinity), t.number(Elem::I64, kInfinity));
  const Value special = ints::select(b, t.is(fraction, 0), infinity, t.number(Elem::I64, kInfinity + kMinusInfinity));
  const Value low = t.negated_where(negative, t.masked(word, 0xffffffff));
  const Value high = t.negated_where(negative, t.shifted_right(word, 32));
  return {ints::select(b, is_special, t.like(bits, kSpecialBin), t.shifted_right(place, 5)),
          ints::select(b, is_special, special, low), ints::select(b, is_special, t.number(Elem::I64, 0), high)};
}

/// Adds to one bin for each position, and nothing where the number is 0: the position is outside there.
void add_to_bin(TensorRef ref, Value bin, Values positions, Extents shape, Value number, SourceLocation loc) {
  ir::Builder& b = state().tracer.at(loc);
  const auto dims = number.type().shape();
  const TileIntegers t{b, {dims.begin(), dims.end()}};
  std::vector<Value> at{ints::select(b, t.is(number, 0), t.number(Elem::I32, -1), bin)};
  at.insert(at.end(), positions.begin(), positions.end());
  accumulate_clipped(ref, AccOp::Add, true, at, shape, number, loc);
}

/// The axes along which all values go to one position.
std::vector<int> shared_axes(Values positions, Extents shape) {
  std::vector<int> axes;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    bool same = shape[a] > 1;
    for (const Value p : positions) same = same && (p.type().rank() == 0 || p.type().shape()[a] == 1);
    if (same) axes.push_back(static_cast<int>(a));
  }
  return axes;
}

/// For values of which many go to one position: one addition for each bin that any of them has a part in.
void add_reduced(TensorRef ref, Values positions, Extents shape, Value value, std::span<const int> axes,
                 SourceLocation loc) {
  Tracer& tracer = state().tracer;
  const auto dims = value.type().shape();
  const std::vector<std::int64_t> whole(dims.begin(), dims.end());
  std::vector<int> extents(whole.begin(), whole.end()), result(shape.begin(), shape.end());
  const TileSpec places{ElementType::i32, static_cast<int>(extents.size()), extents.data()};
  const TileIntegers t{tracer.at(loc), whole};
  const Parts parts = parts_of(t.b, value);
  // Zeros are in no bin. Where `low` is 0, `high` may be another number.
  const Value zero = ints::bit_and(t.b, t.is(parts.low, 0), t.is(parts.high, 0));
  const Value lowest = ints::select(t.b, zero, t.number(Elem::I32, kBins), parts.bin);
  const Value highest = ints::select(t.b, zero, t.number(Elem::I32, -1), parts.bin);
  const Value next = ints::add(t.b, parts.bin, t.number(Elem::I32, 1));
  const Value none = t.number(Elem::I64, 0);
  const Value first = reduce_all(ReduceOp::Min, lowest, places, loc);
  const Value last = reduce_all(ReduceOp::Max, highest, places, loc);
  ir::Builder& b = tracer.at(loc);
  ForLoop loop(RangeBounds(first, ints::add(b, last, ints::i32(b, 2)), ints::i32(b, 1), false, loc));
  const Value bin = loop.induction();
  ir::Builder& in = tracer.at(loc);
  const Value low = ints::select(in, ints::equal(in, parts.bin, bin), parts.low, none);
  const Value high = ints::select(in, ints::equal(in, next, bin), parts.high, none);
  Value sums = ints::add(in, low, high);
  for (const int axis : axes) {
    sums = reduce(ReduceOp::Add, sums, {ElementType::i64, places.rank, extents.data()}, axis, loc);
    extents[static_cast<std::size_t>(axis)] = result[static_cast<std::size_t>(axis)] = 1;
  }
  add_to_bin(ref, ints::expand(tracer.at(loc), bin, wide(extents)), positions, result, sums, loc);
  loop.close();
}

void accumulate_parts(TensorRef ref, Values positions, Extents shape, Value value, SourceLocation loc) {
  ir::Builder& b = state().tracer.at(loc);
  const std::vector<int> axes = shared_axes(positions, shape);
  std::int64_t together = 1;
  for (const int axis : axes) together *= shape[static_cast<std::size_t>(axis)];
  if (together >= kReducedFrom) return add_reduced(ref, positions, shape, value, axes, loc);
  const Parts parts = parts_of(b, value);
  const auto dims = value.type().shape();
  const TileIntegers t{b, {dims.begin(), dims.end()}};
  // A loop, so that the code for a GPU has one atomic operation for each addition: with two it needs more registers
  // (whole tiles of 512 values spill three times as many) and three times as much of the assembler's time.
  ForLoop loop(RangeBounds(ints::i32(b, 0), ints::i32(b, 2), ints::i32(b, 1), false, loc));
  ir::Builder& in = state().tracer.at(loc);
  const Value k = ints::expand(in, loop.induction(), t.shape);
  const Value part = ints::select(in, t.is(k, 0), parts.low, parts.high);
  add_to_bin(ref, ints::add(in, parts.bin, k), positions, shape, part, loc);
  loop.close();
}

}  // namespace

void accumulate_exactly(TensorRef ref, Values positions, Extents shape, Value value, SourceLocation loc) {
  if (state().tracer.strict) {
    TensorState& t = state().tensor(ref, ParamKind::Acc);
    std::vector<Value> places{ints::i32(state().tracer.at(loc), 0)};  // the first bin
    places.insert(places.end(), positions.begin(), positions.end());
    assert_inside(elements_at(state().tracer.at(loc), t, places, shape).mask, "update of", t, loc);
  }
  accumulate_parts(ref, positions, shape, value, loc);
}

void accumulate_tile_exactly(TensorRef ref, Extents tile, Values index, Value value, SourceLocation loc) {
  Recording::Impl& s = state();
  TensorState& t = s.tensor(ref, ParamKind::Acc);
  // An index far outside could wrap to an element inside when multiplied by the tile's extent: the guard comes first.
  s.tracer.open_if(indices_in_range(t, tile, index, loc), loc);
  std::vector<Value> positions;
  for (std::size_t a = 0; a < tile.size(); ++a) {
    ir::Builder& b = s.tracer.at(loc);
    const Value first = ints::mul(b, index[a], ints::i32(b, tile[a]));
    positions.push_back(positions_along(b, first, static_cast<int>(a), tile));
  }
  accumulate_parts(ref, positions, tile, value, loc);
  s.tracer.close();
}

}  // namespace tessera::lang
