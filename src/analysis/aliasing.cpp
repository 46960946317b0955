// Disjoint accesses of one tensor (see aliasing.hpp). Accesses of different tensors need no analysis: what may touch
// the same storage is ordered by tokens, and a recording has a chain of them for each tensor that is written.
#include "tessera/analysis/aliasing.hpp"

#include <algorithm>

#include "tessera/analysis/access.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// x = base + offset, modulo x's width.
struct Moved {
  Value base;
  std::uint64_t offset = 0;
};

Moved moved(Value x, const Divisibility& known) {
  Moved m{x, 0};
  const int width = ir::info(x.type().elem()).bits;
  for (const Operation* def = x.def(); def; def = m.base.def()) {
    if (def->op() != Op::AddI) break;
    const LowBits left = known.of(def->operand(0)), right = known.of(def->operand(1));
    if (right.known == width) {
      m = {def->operand(0), m.offset + right.low};
    } else if (left.known == width) {
      m = {def->operand(1), m.offset + left.low};
    } else {
      break;
    }
  }
  return m;
}

}  // namespace

bool never_equal(Value x, Value y, const Divisibility& known) {
  const int width = ir::info(x.type().elem()).bits;
  if (width != ir::info(y.type().elem()).bits) return false;
  const auto mask = [](int bits) { return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; };
  const LowBits a = known.of(x), b = known.of(y);
  if (((a.low ^ b.low) & mask(std::min(a.known, b.known))) != 0) return true;
  const Moved m = moved(x, known), n = moved(y, known);
  return m.base == n.base && ((m.offset - n.offset) & mask(width)) != 0;
}

bool disjoint(const Operation& op, const Operation& other, const Divisibility& known) {
  const auto a = view_access_of(op), b = view_access_of(other);
  if (!a || !b) return false;
  const Operation *of_a = a->view.def(), *of_b = b->view.def();
  if (!of_a || !of_b || of_a->op() != Op::MakePartitionView || of_b->op() != Op::MakePartitionView) return false;
  const ir::Type view = a->view.type();
  if (of_a->operand(0) != of_b->operand(0) || !same_tiles(view, b->view.type())) return false;
  int apart = 0;
  for (std::size_t axis = 0; axis < a->index.size(); ++axis) {
    const Value i = a->index[axis], k = b->index[axis];
    if (i == k && view.tile_shape()[axis] == 1) continue;
    // The line goes along this axis, in steps that are not 0.
    const std::int64_t stride = view.tensor().strides()[static_cast<std::size_t>(view.dim_map()[axis])];
    if (stride == ir::kDynamic || stride == 0 || !never_equal(i, k, known)) return false;
    ++apart;
  }
  return apart == 1;
}

}  // namespace tessera::analysis
