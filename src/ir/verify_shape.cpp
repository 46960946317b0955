// Rules of constants, shape changes, matrix products, reductions, scans, packing and assumptions.
#include <algorithm>

#include "ir/verify_rules.hpp"

namespace tessera::ir {

namespace {

bool same_element(Checker& c, const Operation& op, Type a, Type b) {
  if (a.element_type() == b.element_type()) return true;
  return c.fail(op, "expected one element type, found ", a.element_type().str(), " and ", b.element_type().str());
}

bool constant(Checker& c, const Operation& op) {
  const DenseAttr& data = *op.attr(AttrName::value)->as<DenseAttr>();
  if (data.type != op.result().type())
    return c.fail(op, "expected a value of type ", op.result().type().str(), ", found ", data.type.str());
  std::string problem = dense_problem(data);
  return problem.empty() || c.fail(op, problem);
}

bool broadcast(Checker& c, const Operation& op) {
  Type from = op.operand(0).type(), to = op.result().type();
  if (!same_element(c, op, from, to)) return false;
  bool fits = from.rank() == to.rank();
  for (std::size_t i = 0; fits && i < from.shape().size(); ++i)
    fits = from.shape()[i] == to.shape()[i] || from.shape()[i] == 1;
  return fits || c.fail(op, "expected a shape that stretches only extents of 1 of ", shape_text(from.shape()),
                        ", found ", shape_text(to.shape()));
}

bool reshape(Checker& c, const Operation& op) {
  Type from = op.operand(0).type(), to = op.result().type();
  if (!same_element(c, op, from, to)) return false;
  if (from.num_elements() == to.num_elements()) return true;
  return c.fail(op, "expected ", from.num_elements(), " elements, found ", to.num_elements());
}

bool permute(Checker& c, const Operation& op) {
  Type from = op.operand(0).type(), to = op.result().type();
  if (!same_element(c, op, from, to)) return false;
  const auto& order = op.attr(AttrName::permutation)->as<I32ArrayAttr>()->values;
  const auto rank = static_cast<std::size_t>(from.rank());
  if (rank < 2) return c.fail(op, "expected a tile of at least 2 axes, found ", rank);
  if (order.size() != rank || to.rank() != from.rank())
    return c.fail(op, "expected a permutation of ", rank, " axes, found ", order.size());
  std::vector<std::int32_t> sorted = order;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < rank; ++i)
    if (sorted[i] != static_cast<std::int32_t>(i))
      return c.fail(op, "expected each axis from 0 to ", rank - 1, " once, found [", join(order), "]");
  for (std::size_t i = 0; i < rank; ++i)
    if (to.shape()[i] != from.shape()[static_cast<std::size_t>(order[i])])
      return c.fail(op, "expected extent ", from.shape()[static_cast<std::size_t>(order[i])], " on axis ", i,
                    " of the result, found ", to.shape()[i]);
  return true;
}

bool cat(Checker& c, const Operation& op) {
  Type lhs = op.operand(0).type(), rhs = op.operand(1).type(), to = op.result().type();
  if (!same_element(c, op, lhs, rhs) || !same_element(c, op, lhs, to)) return false;
  if (lhs.rank() != rhs.rank() || lhs.rank() != to.rank())
    return c.fail(op, "expected tiles of one rank, found ", lhs.rank(), ", ", rhs.rank(), " and ", to.rank());
  const std::int64_t dim = op.int_attr(AttrName::dim);
  if (dim < 0 || dim >= lhs.rank()) return c.fail(op, "expected dim from 0 to ", lhs.rank() - 1, ", found ", dim);
  for (std::size_t i = 0; i < lhs.shape().size(); ++i) {
    const bool joined = static_cast<std::int64_t>(i) == dim;
    const std::int64_t expected = joined ? lhs.shape()[i] + rhs.shape()[i] : lhs.shape()[i];
    if ((!joined && rhs.shape()[i] != lhs.shape()[i]) || to.shape()[i] != expected)
      return c.fail(op, "expected extent ", expected, " on axis ", i, ", found ", rhs.shape()[i],
                    " in the operand and ", to.shape()[i], " in the result");
  }
  return true;
}

/// A slice of `whole` of the shape of `part`, by slice indices.
bool slice(Checker& c, const Operation& op, Type whole, Type part) {
  if (!same_element(c, op, whole, part)) return false;
  if (whole.rank() != part.rank())
    return c.fail(op, "expected tiles of one rank, found ", whole.rank(), " and ", part.rank());
  for (std::size_t i = 0; i < whole.shape().size(); ++i)
    if (whole.shape()[i] % part.shape()[i] != 0)
      return c.fail(op, "expected an extent that divides ", whole.shape()[i], " on axis ", i, ", found ",
                    part.shape()[i]);
  const std::size_t indices = op.group("indices").size();
  if (indices != static_cast<std::size_t>(whole.rank()))
    return c.fail(op, "expected ", whole.rank(), " indices, found ", indices);
  return true;
}

bool extract(Checker& c, const Operation& op) { return slice(c, op, op.operand(0).type(), op.result().type()); }

bool insert(Checker& c, const Operation& op) {
  Type destination = op.operand(1).type();
  if (op.result().type() != destination)
    return c.fail(op, "expected a result of type ", destination.str(), ", found ", op.result().type().str());
  return slice(c, op, destination, op.operand(0).type());
}

bool iota(Checker& c, const Operation& op) {
  Type t = op.result().type();
  if (t.rank() != 1) return c.fail(op, "expected a tile of one axis, found ", t.str());
  const int bits = info(t.elem()).bits;
  if (bits < 63 && t.num_elements() > (std::int64_t{1} << bits))
    return c.fail(op, "expected at most ", std::int64_t{1} << bits, " elements for ", info(t.elem()).text, ", found ",
                  t.num_elements());
  return true;
}

// ---- matrix products --------------------------------------------------------------------------------------------

bool equal_extents(Checker& c, const Operation& op, const char* an, Type a, int i, const char* bn, Type b, int k) {
  const std::int64_t x = a.shape()[static_cast<std::size_t>(i)], y = b.shape()[static_cast<std::size_t>(k)];
  if (x == y) return true;
  return c.fail(op, "expected axis ", i, " of ", an, " ", shape_text(a.shape()), " and axis ", k, " of ", bn, " ",
                shape_text(b.shape()), " to be equal, found ", x, " and ", y);
}

bool mma_shapes(Checker& c, const Operation& op) {
  Type a = op.operand(0).type(), b = op.operand(1).type(), acc = op.operand(2).type();
  if (acc != op.result().type())
    return c.fail(op, "expected a result of the accumulator's type ", acc.str(), ", found ", op.result().type().str());
  if (!same_element(c, op, a, b)) return false;
  if (a.rank() != b.rank() || a.rank() != acc.rank() || (a.rank() != 2 && a.rank() != 3))
    return c.fail(op, "expected three tiles of rank 2, or of rank 3 with a leading batch axis, found ranks ", a.rank(),
                  ", ", b.rank(), " and ", acc.rank());
  const int batch = a.rank() - 2;
  if (batch == 1 &&
      !(equal_extents(c, op, "lhs", a, 0, "rhs", b, 0) && equal_extents(c, op, "lhs", a, 0, "acc", acc, 0)))
    return false;
  return equal_extents(c, op, "lhs", a, batch + 1, "rhs", b, batch) &&
         equal_extents(c, op, "lhs", a, batch, "acc", acc, batch) &&
         equal_extents(c, op, "rhs", b, batch + 1, "acc", acc, batch + 1);
}

/// Accumulators that each element type of the operands allows (mmaf).
struct MmaCombination {
  Elem input;
  Elem accumulators[2];
};
constexpr MmaCombination kMma[] = {
    {Elem::F4E2M1FN, {Elem::F16, Elem::F32}}, {Elem::F8E4M3FN, {Elem::F16, Elem::F32}},
    {Elem::F8E5M2, {Elem::F16, Elem::F32}},   {Elem::F16, {Elem::F16, Elem::F32}},
    {Elem::BF16, {Elem::F32, Elem::F32}},     {Elem::TF32, {Elem::F32, Elem::F32}},
    {Elem::F32, {Elem::F32, Elem::F32}},      {Elem::F64, {Elem::F64, Elem::F64}},
};

bool mmaf(Checker& c, const Operation& op) {
  if (!mma_shapes(c, op)) return false;
  const Elem in = op.operand(0).type().elem(), acc = op.operand(2).type().elem();
  for (const MmaCombination& m : kMma) {
    if (m.input != in) continue;
    if (m.accumulators[0] == acc || m.accumulators[1] == acc) return true;
    return c.fail(op, "expected an accumulator of ", info(m.accumulators[0]).text,
                  m.accumulators[0] == m.accumulators[1] ? "" : concat(" or ", info(m.accumulators[1]).text),
                  " for operands of ", info(in).text, ", found ", info(acc).text);
  }
  return c.fail(op, "operands of ", info(in).text, " cannot be multiplied");
}

bool scale_elements(Checker& c, const Operation& op, Elem in, Elem scale) {
  const bool f8 = in == Elem::F8E4M3FN || in == Elem::F8E5M2, f4 = in == Elem::F4E2M1FN;
  if (!f8 && !f4) return c.fail(op, "expected operands of f8E4M3FN, f8E5M2 or f4E2M1FN, found ", info(in).text);
  if (scale == Elem::F8E8M0FNU || (f4 && scale == Elem::F8E4M3FN)) return true;
  return c.fail(op, "expected scales of f8E8M0FNU", f4 ? " or f8E4M3FN" : "", " for operands of ", info(in).text,
                ", found ", info(scale).text);
}

bool mmaf_scaled(Checker& c, const Operation& op) {
  if (!mma_shapes(c, op)) return false;
  Type a = op.operand(0).type(), b = op.operand(1).type(), sa = op.operand(3).type(), sb = op.operand(4).type();
  if (!same_element(c, op, sa, sb)) return false;
  if (sa.rank() != a.rank() || sb.rank() != a.rank())
    return c.fail(op, "expected scales of rank ", a.rank(), ", found ", sa.rank(), " and ", sb.rank());
  const int row = a.rank() - 2, col = row + 1;
  if (row == 1 &&
      !(equal_extents(c, op, "lhs", a, 0, "lhs_scale", sa, 0) && equal_extents(c, op, "rhs", b, 0, "rhs_scale", sb, 0)))
    return false;
  if (!equal_extents(c, op, "lhs", a, row, "lhs_scale", sa, row) ||
      !equal_extents(c, op, "rhs", b, col, "rhs_scale", sb, col) ||
      !equal_extents(c, op, "lhs_scale", sa, col, "rhs_scale", sb, row) || !scale_elements(c, op, a.elem(), sa.elem()))
    return false;
  const std::int64_t k = a.shape()[static_cast<std::size_t>(col)], blocks = sa.shape()[static_cast<std::size_t>(col)];
  const std::int64_t size = k % blocks == 0 ? k / blocks : 0;
  const bool f4 = a.elem() == Elem::F4E2M1FN;
  const bool fits = (size == 32 && sa.elem() == Elem::F8E8M0FNU) || (size == 16 && f4);
  if (fits) return true;
  return c.fail(op, "expected scale blocks of ",
                !f4                           ? "32"
                : sa.elem() == Elem::F8E4M3FN ? "16"
                                              : "16 or 32",
                " elements along k, found ", size == 0 ? concat(k, " elements for ", blocks, " blocks") : concat(size));
}

// ---- packing ----------------------------------------------------------------------------------------------------

bool pack(Checker& c, const Operation& op) {
  Type from = op.operand(0).type(), to = op.result().type();
  if (from.rank() != 1 || to.rank() != 1)
    return c.fail(op, "expected tiles of one axis, found ", from.str(), " and ", to.str());
  if (info(from.elem()).bits == info(to.elem()).bits)
    return c.fail(op, "expected elements of different width, found ", info(from.elem()).text, " and ",
                  info(to.elem()).text);
  const std::int64_t a = info(from.elem()).bits * from.num_elements(), b = info(to.elem()).bits * to.num_elements();
  if (a == b && a % 8 == 0) return true;
  return c.fail(op, "expected tiles of the same whole number of bytes, found ", a, " and ", b, " bits");
}

// ---- reductions and scans ---------------------------------------------------------------------------------------

bool identities(Checker& c, const Operation& op) {
  const auto& items = op.attr(AttrName::identities)->as<ArrayAttr>()->items;
  if (items.size() != op.num_operands())
    return c.fail(op, "expected ", op.num_operands(), " identities, found ", items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Elem expected = op.operand(i).type().elem();
    const auto* f = items[i].as<FloatAttr>();
    const auto* n = items[i].as<IntAttr>();
    if (!f && !n) return c.fail(op, "identity ", i, " is no number");
    const Elem found = f ? f->type : n->type;
    if (found != expected)
      return c.fail(op, "expected identity ", i, " of type ", info(expected).text, ", found ", info(found).text);
  }
  return true;
}

bool aggregate_body(Checker& c, const Operation& op) {
  const Block& body = op.region(0);
  const std::size_t n = op.num_operands();
  if (body.num_args() != 2 * n) return c.fail(op, "expected ", 2 * n, " region arguments, found ", body.num_args());
  for (std::size_t i = 0; i < 2 * n; ++i) {
    Type expected = Type::tile(op.operand(i / 2).type().element_type(), {}), found = body.arg(i).type();
    if (found != expected)
      return c.fail(op, "expected region argument ", i, " of type ", expected.str(), ", found ", found.str());
  }
  const Operation* end = body.terminator();
  if (!end || end->op() != Op::Yield) return c.fail(op, "expected the region to end with yield");
  if (end->num_operands() != n) return c.fail(op, "expected yield of ", n, " values, found ", end->num_operands());
  for (std::size_t i = 0; i < n; ++i)
    if (end->operand(i) && end->operand(i).type() != body.arg(2 * i).type())
      return c.fail(op, "expected yield of ", body.arg(2 * i).type().str(), " at ", i, ", found ",
                    end->operand(i).type().str());
  for (const Operation& inner : body)
    if (&inner != end && !inner.info().has(traits::Pure))
      return c.fail(inner, "only pure operations may stand inside ", op.info().mnemonic);
  return true;
}

bool aggregate(Checker& c, const Operation& op) {
  const std::size_t n = op.num_operands();
  if (n == 0) return c.fail(op, "expected at least one operand");
  if (op.num_results() != n) return c.fail(op, "expected ", n, " results, found ", op.num_results());
  Type first = op.operand(0).type();
  const std::int64_t dim = op.int_attr(AttrName::dim);
  if (dim < 0 || dim >= first.rank()) return c.fail(op, "expected dim from 0 to ", first.rank() - 1, ", found ", dim);
  for (std::size_t i = 0; i < n; ++i) {
    Type t = op.operand(i).type();
    if (t.is_pointer()) return c.fail(op, "expected tiles of numbers, found ", t.str());
    if (!same_shape(t, first))
      return c.fail(op, "expected operands of one shape, found ", shape_text(first.shape()), " and ",
                    shape_text(t.shape()));
    std::vector<std::int64_t> shape(t.shape().begin(), t.shape().end());
    if (op.op() == Op::Reduce) shape.erase(shape.begin() + dim);
    Type expected = t.with_shape(shape);
    if (op.result(i).type() != expected)
      return c.fail(op, "expected result ", i, " of type ", expected.str(), ", found ", op.result(i).type().str());
  }
  return identities(c, op) && aggregate_body(c, op);
}

// ---- assumptions ------------------------------------------------------------------------------------------------

bool div_by(Checker& c, const Operation& op, const DivByAttr& a) {
  Type t = op.result().type();
  if (a.divisor == 0 || (a.divisor & (a.divisor - 1)) != 0)
    return c.fail(op, "expected a divisor that is a power of two, found ", a.divisor);
  if (a.divisor > (std::uint64_t{1} << 62)) return c.fail(op, "expected a divisor of at most 2^62, found ", a.divisor);
  if (a.every.has_value() != a.along.has_value()) return c.fail(op, "`every` and `along` must stand together");
  if (t.kind() == TypeKind::TensorView)
    return !a.every || c.fail(op, "`every` and `along` have no meaning for a tensor_view");
  if (!t.is_tile() || (!t.is_pointer() && info(t.elem()).is_float))
    return c.fail(op, "div_by needs a tile of integers or pointers, or a tensor_view, found ", t.str());
  if (!a.every) return true;
  if (*a.along < 0 || *a.along >= t.rank())
    return c.fail(op, "expected `along` from 0 to ", t.rank() - 1, ", found ", *a.along);
  const std::int64_t extent = t.shape()[static_cast<std::size_t>(*a.along)];
  if (*a.every < 0 || *a.every > extent) return c.fail(op, "expected `every` from 0 to ", extent, ", found ", *a.every);
  return true;
}

bool same_elements(Checker& c, const Operation& op, const SameElementsAttr& a) {
  Type t = op.result().type();
  if (!t.is_tile() || (!t.is_pointer() && info(t.elem()).is_float))
    return c.fail(op, "same_elements needs a tile of integers or pointers, found ", t.str());
  if (a.values.size() != t.shape().size())
    return c.fail(op, "expected ", t.shape().size(), " values of same_elements, found ", a.values.size());
  for (std::size_t i = 0; i < a.values.size(); ++i)
    if (a.values[i] < 0 || a.values[i] > t.shape()[i])
      return c.fail(op, "expected a value from 0 to ", t.shape()[i], " for axis ", i, ", found ", a.values[i]);
  return true;
}

bool bounded(Checker& c, const Operation& op, const BoundedAttr& a) {
  Type t = op.result().type();
  if (!t.is_tile() || t.is_pointer() || info(t.elem()).is_float)
    return c.fail(op, "bounded needs a tile of integers, found ", t.str());
  const int bits = info(t.elem()).bits;
  const std::int64_t most = bits >= 64 ? INT64_MAX : (std::int64_t{1} << (bits - 1)) - 1, least = -most - 1;
  for (const auto& b : {a.lower, a.upper})
    if (b && (*b < least || *b > most)) return c.fail(op, "expected bounds from ", least, " to ", most, ", found ", *b);
  if (a.lower && a.upper && *a.lower > *a.upper)
    return c.fail(op, "expected a lower bound of at most ", *a.upper, ", found ", *a.lower);
  return true;
}

bool assume(Checker& c, const Operation& op) {
  const Attribute& predicate = *op.attr(AttrName::predicate);
  if (const auto* d = predicate.as<DivByAttr>()) return div_by(c, op, *d);
  if (const auto* s = predicate.as<SameElementsAttr>()) return same_elements(c, op, *s);
  if (const auto* b = predicate.as<BoundedAttr>()) return bounded(c, op, *b);
  return c.fail(op, "expected a predicate div_by, same_elements or bounded");
}

}  // namespace

OpRule shape_rule(Op op) {
  switch (op) {
    case Op::Constant: return constant;
    case Op::Broadcast: return broadcast;
    case Op::Reshape: return reshape;
    case Op::Permute: return permute;
    case Op::Cat: return cat;
    case Op::Extract: return extract;
    case Op::Insert: return insert;
    case Op::Iota: return iota;
    case Op::MmaF: return mmaf;
    case Op::MmaI: return mma_shapes;
    case Op::MmaFScaled: return mmaf_scaled;
    case Op::Pack:
    case Op::Unpack: return pack;
    case Op::Reduce:
    case Op::Scan: return aggregate;
    case Op::Assume: return assume;
    default: return nullptr;
  }
}

}  // namespace tessera::ir
