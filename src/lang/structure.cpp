// Recording of operations that move elements: iota, reshape, broadcast, permute, cat, extract, and of matrix
// multiplication.
#include "lang/ints.hpp"
#include "lang/spec.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

Value iota(const TileSpec& spec, int axis, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  const auto shape = shape_of(spec);
  return ints::expand(b, ints::iota(b, ints::elem_of(spec.element), axis, shape), shape);
}

Value reshape(Value x, const TileSpec& to, SourceLocation loc) {
  return ints::reshape(Tracer::current(loc).at(loc), x, shape_of(to));
}

Value broadcast(Value x, const TileSpec& to, SourceLocation loc) {
  return widened(Tracer::current(loc).at(loc), x, to);
}

Value permute(Value x, const TileSpec& to, const int* order, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  bool identity = true;
  for (int i = 0; i < to.rank; ++i) identity = identity && order[i] == i;
  if (identity) return x;
  const std::vector<std::int32_t> permutation(order, order + to.rank);
  return b.create(Op::Permute, {x}, {type_of(to)}, {{AttrName::permutation, ir::I32ArrayAttr{permutation}}})->result();
}

Value concatenate(Value x, Value y, const TileSpec& to, int axis, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  return b.create(Op::Cat, {x, y}, {type_of(to)}, {{AttrName::dim, ir::IntAttr{Elem::I64, axis}}})->result();
}

Value extract(Value x, const TileSpec& to, std::span<const Value> index, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  std::vector<Value> operands{x};
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::int64_t slices = x.type().shape()[i] / to.extents[i];
    // Tile IR leaves an index outside undefined: clamp it, also when it is negative.
    const Value zero = ints::i32(b, 0), last = ints::i32(b, slices - 1);
    Value at = index[i];
    if (const auto known = ints::constant_of(at)) {
      at = *known < 0 ? zero : *known >= slices ? last : at;
    } else {
      const auto sign = ir::Signedness::Signed;
      at = b.create(Op::MaxI, {at, zero}, {at.type()}, {{AttrName::signedness, sign}})->result();
      at = b.create(Op::MinI, {at, last}, {at.type()}, {{AttrName::signedness, sign}})->result();
    }
    operands.push_back(at);
  }
  const Type result = type_of(to);
  return b.create(Op::Extract, operands, std::span(&result, 1))->result();
}

Value multiply_accumulate(Value x, Value y, Value acc, ElementType x_element, ElementType y_element, bool fast,
                          SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  if (is_float(x_element)) {
    ir::Operation* op = b.create(Op::MmaF, {x, y, acc}, {acc.type()});
    if (fast) op->set_attr(AttrName::fast_acc, ir::UnitAttr{});
    return op->result();
  }
  const auto sign = [](ElementType t) { return is_signed(t) ? ir::Signedness::Signed : ir::Signedness::Unsigned; };
  return b
      .create(Op::MmaI, {x, y, acc}, {acc.type()},
              {{AttrName::signedness_lhs, sign(x_element)}, {AttrName::signedness_rhs, sign(y_element)}})
      ->result();
}

}  // namespace tessera::lang
