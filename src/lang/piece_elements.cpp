// Gathers and scatters inside a block's own piece. Indices count from the piece's first element; an index outside the
// piece, or in a part of it that lies outside the tensor, reads padding and stores nothing.
//
// Equal indices in one scatter: the last one in row-major order is stored. The others are masked out by comparisons
// before the store. An atomic exchange would store an arbitrary one, per element (slices would mix), and only for
// elements of 32 and 64 bits; a plain store to equal addresses is a race in Tile IR.
#include <algorithm>

#include "lang/recording_impl.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::lang {

using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Value;

namespace {

/// Elements of a piece: their positions in the tensor, which indices are inside the piece (null: all of them), and a
/// key that identifies the element (i32; -1 outside).
struct Chosen {
  std::vector<Value> positions;
  Value inside, key;
};

/// `index[a]`: an integer tile, or null for all of axis a.
Chosen choose(PieceRef ref, Values index, Extents shape, SourceLocation loc) {
  PieceState& p = state().piece(ref);
  Chosen chosen;
  for (std::size_t a = 0; a < index.size(); ++a) {
    const Value origin = piece_origin(ref, static_cast<int>(a));
    Builder& b = state().tracer.at(loc);
    if (!index[a]) {
      chosen.positions.push_back(positions_along(b, origin, static_cast<int>(a), shape));
      continue;
    }
    const Value extent = b.constant_int(index[a].type().elem(), p.extents[a]);
    const Value one = ints::below(b, index[a], extent);
    chosen.inside = chosen.inside ? ints::bit_and(b, chosen.inside, one) : one;
    // Indices outside are masked; they are replaced by 0, so that nothing computed from them overflows.
    const Value local = ints::select(b, one, ints::truncate(b, index[a], Elem::I32), ints::i32(b, 0));
    chosen.positions.push_back(ints::add(b, origin, local));
    chosen.key = chosen.key ? ints::add(b, ints::mul(b, chosen.key, ints::i32(b, p.extents[a])), local) : local;
  }
  Builder& b = state().tracer.at(loc);
  chosen.key = ints::select(b, chosen.inside, chosen.key, ints::i32(b, -1));
  return chosen;
}

/// Comparisons per step of `is_last`: as many as fit the registers of a block.
constexpr std::int64_t kComparisons = 8192;

/// The keys of a step as a row, and their numbers.
struct Row {
  Value keys, numbers;
};
Row row_of(Builder& b, Value keys, Value step, std::int64_t width) {
  const std::int64_t line[] = {width}, row[] = {1, width};
  const Value part = keys.type().num_elements() == width
                         ? keys
                         : b.create(Op::Extract, {keys, step}, {keys.type().with_shape(line)})->result();
  const Value first = ints::mul(b, step, ints::i32(b, width));
  return {ints::reshape(b, part, row), ints::add(b, ints::iota(b, Elem::I32, 1, row), first)};
}

/// [n] keys -> [n, 1] i1: no later key is equal. Compares all with all, a part of them at a time.
Value is_last(Value keys, SourceLocation loc) {
  Tracer& tracer = state().tracer;
  const std::int64_t n = keys.type().num_elements();
  const std::int64_t width = std::clamp<std::int64_t>(kComparisons / n, 1, n);
  const std::int64_t column[] = {n, 1}, part[] = {n, width};
  const int extents[] = {static_cast<int>(n), static_cast<int>(width)};
  Builder& b = tracer.at(loc);
  const Value own_keys = ints::reshape(b, keys, column), own_numbers = ints::iota(b, Elem::I32, 0, column);
  const Var repeated = tracer.fresh(b.constant_int(Elem::I1, 0, part));
  const auto compare_with = [&](Value step) {
    Builder& here = tracer.at(loc);
    const Row others = row_of(here, keys, step, width);
    const Value later = ints::greater(here, others.numbers, own_numbers);
    const Value hit = ints::bit_and(here, ints::equal(here, own_keys, others.keys), later);
    tracer.write(repeated, ints::bit_or(here, tracer.read(repeated), hit));
  };
  const Value zero = ints::i32(b, 0);
  if (width == n) {
    compare_with(zero);
  } else {
    compare_with(tracer.open_for(zero, ints::i32(b, n / width), ints::i32(b, 1), false, loc));
    tracer.close();
  }
  const Value any = reduce(ReduceOp::Or, tracer.read(repeated), {ElementType::boolean, 2, extents}, 1, loc);
  Builder& after = tracer.at(loc);
  return ints::equal(after, any, after.constant_int(Elem::I1, 0, column));
}

/// Which of the chosen elements are stored (null: all): those inside the piece whose key does not occur again later.
/// `indices` is the shape that the keys broadcast to.
Value stored_ones(const Chosen& chosen, std::span<const std::int64_t> indices, SourceLocation loc) {
  Builder& b = state().tracer.at(loc);
  std::int64_t n = 1;
  for (const std::int64_t extent : indices) n *= extent;
  if (n == 1) return chosen.inside;
  const Value keys = ints::reshape(b, ints::expand(b, chosen.key, indices), std::span(&n, 1));
  const Value last = is_last(keys, loc);
  Builder& after = state().tracer.at(loc);
  return ints::bit_and(after, ints::reshape(after, last, indices), chosen.inside);
}

/// Strict checked mode: the indices are inside the piece, and elements that are named one by one inside the tensor.
/// (Along the other axes of slices a piece may reach over the tensor's edge.)
void assert_chosen(PieceRef ref, const Chosen& chosen, const char* access, bool one_by_one, Extents shape,
                   SourceLocation loc) {
  Tracer& tracer = state().tracer;
  if (!tracer.strict) return;
  const TensorState& t = *state().piece(ref).tensor;
  assert_inside(chosen.inside, access, t, loc);
  if (!one_by_one) return;
  assert_inside(elements_at(tracer.at(loc), *state().piece(ref).tensor, chosen.positions, shape).mask, access, t, loc);
}

/// Pointers to the chosen elements, masked by the tensor's dimensions and by `allowed`.
Elements masked_elements(PieceRef ref, const Chosen& chosen, Value allowed, Extents shape, SourceLocation loc) {
  Builder& b = state().tracer.at(loc);
  Elements at = elements_at(b, *state().piece(ref).tensor, chosen.positions, shape);
  const Value mask = ints::expand(b, allowed, wide(shape));
  at.mask = at.mask ? ints::bit_and(b, at.mask, mask) : mask;
  return at;
}

Value load_chosen(PieceRef ref, const Chosen& chosen, Extents shape, const PadSpec& pad, SourceLocation loc) {
  PieceState& p = state().piece(ref);
  return load_pointers(masked_elements(ref, chosen, chosen.inside, shape, loc), *p.tensor, shape, pad, &p.order, loc);
}

/// `index` along one axis, all positions along the others. `line`: the axis of the index's elements.
struct Slices {
  std::vector<Value> index;
  std::vector<std::int64_t> line;
};
Slices slices(int axis, Value index, Extents shape, SourceLocation loc) {
  const auto k = static_cast<std::size_t>(axis);
  Slices s{std::vector<Value>(shape.size()), std::vector<std::int64_t>(shape.size(), 1)};
  s.line[k] = shape[k];
  s.index[k] = ints::reshape(state().tracer.at(loc), index, s.line);
  return s;
}

}  // namespace

Value load_piece_slices(PieceRef ref, int axis, Value index, Extents shape, const PadSpec& pad, SourceLocation loc) {
  const Chosen chosen = choose(ref, slices(axis, index, shape, loc).index, shape, loc);
  assert_chosen(ref, chosen, "gather from", false, shape, loc);
  return load_chosen(ref, chosen, shape, pad, loc);
}

Value load_piece_elements(PieceRef ref, Values index, Extents shape, const PadSpec& pad, SourceLocation loc) {
  const Chosen chosen = choose(ref, index, shape, loc);
  assert_chosen(ref, chosen, "gather from", true, shape, loc);
  return load_chosen(ref, chosen, shape, pad, loc);
}

void store_piece_slices(PieceRef ref, int axis, Value index, Extents shape, Value value, SourceLocation loc) {
  const Slices s = slices(axis, index, shape, loc);
  const Chosen chosen = choose(ref, s.index, shape, loc);
  assert_chosen(ref, chosen, "scatter into", false, shape, loc);
  const Elements at = masked_elements(ref, chosen, stored_ones(chosen, s.line, loc), shape, loc);
  store_pointers(at, value, &state().piece(ref).order, loc);
}

void store_piece_elements(PieceRef ref, Values index, Extents shape, Value value, SourceLocation loc) {
  const Chosen chosen = choose(ref, index, shape, loc);
  assert_chosen(ref, chosen, "scatter into", true, shape, loc);
  const Elements at = masked_elements(ref, chosen, stored_ones(chosen, wide(shape), loc), shape, loc);
  store_pointers(at, ints::expand(state().tracer.at(loc), value, wide(shape)), &state().piece(ref).order, loc);
}

}  // namespace tessera::lang
