// Combines atomic additions to equal indices of a tile before they reach memory. A histogram adds one number at as many
// places as a tile has elements, and most places coincide. The counts are a product of two one-hot matrices, computed
// on tensor cores:
//
//   index = 16 high + low:   count(high, low) = sum over elements of (high == its high) * (low == its low)
//
// Then 256 atomic operations at neighbouring addresses replace those of all elements. An element whose index is 256 or
// more is added by itself, as before. docs/compiler/combine_atomics.md.
#include <algorithm>
#include <optional>
#include <vector>

#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Signedness;
using ir::Type;
using ir::Value;

namespace {

constexpr std::int64_t kSide = 16, kPlaces = kSide * kSide;
constexpr std::int64_t kStep = 128;                                // elements that one product counts
constexpr std::int64_t kFewest = 2 * kPlaces, kMost = 32 * kStep;  // elements of a tile; the products are unrolled
constexpr std::int64_t kEnough = 8 * kStep;  // more elements take longer to compile and no shorter to run

/// An integer added to elements of one tensor of one axis.
struct Update {
  Value base, stride;  ///< stride: null for 1
  Value index;         ///< i32, any shape that repeats to the tile's
  Value number;        ///< the same at every place
};

constexpr int kDeepestChoice = 6;

/// An upper bound of the indices of unmasked elements, derived from the operations that compute them; only a hint.
/// Kernels use negative constants as indices of no element.
std::optional<std::uint64_t> likely_most(Value v, int depth = kDeepestChoice) {
  const Operation* op = v.def();
  if (!op || op->op() != Op::Select) return unsigned_most(v);
  if (depth == 0) return std::nullopt;
  std::optional<std::uint64_t> most;
  for (const std::size_t arm : {std::size_t{1}, std::size_t{2}}) {
    if (constant_int(behind_shapes(op->operand(arm))).value_or(0) < 0) continue;
    const auto of_arm = likely_most(op->operand(arm), depth - 1);
    if (!of_arm) return std::nullopt;
    most = std::max(most.value_or(0), *of_arm);
  }
  return most;
}

std::optional<Update> update_of(const Operation& op) {
  if (op.op() != Op::AtomicRMWTko || op.enum_attr<ir::AtomicMode>(AttrName::mode) != ir::AtomicMode::Add ||
      op.result(0).has_uses() || op.result(1).has_uses() || !op.group("token").empty())
    return std::nullopt;
  const std::int64_t elements = op.operand(1).type().num_elements();
  Update u{{}, {}, {}, behind_shapes(op.operand(1))};
  if (u.number.type().num_elements() != 1 && !constant_int(u.number)) return std::nullopt;
  const Operation* pointers = op.operand(0).def();
  if (!pointers || pointers->op() != Op::Offset) return std::nullopt;
  u.base = behind_shapes(pointers->operand(0));
  Value offsets = behind_shapes(pointers->operand(1));
  if (const Operation* product = offsets.def(); product && product->op() == Op::MulI) {
    u.stride = behind_shapes(product->operand(1));
    offsets = behind_shapes(product->operand(0));
    if (u.stride.type().rank() != 0) return std::nullopt;
  }
  const Operation* wide = offsets.def();
  if (u.base.type().rank() != 0 || !wide || wide->op() != Op::ExtI ||
      wide->enum_attr<Signedness>(AttrName::signedness) != Signedness::Unsigned)
    return std::nullopt;
  u.index = wide->operand(0);
  const auto most = likely_most(u.index);
  if (u.index.type().elem() != Elem::I32 || u.index.type().num_elements() != elements || !most || *most >= kPlaces)
    return std::nullopt;
  return u;
}

class Combination {
 public:
  Combination(Operation& op, const Update& u) : op_(op), u_(u), b_(Builder::before(&op)) { b_.loc = op.loc; }

  void run() {
    const Type tile = u_.index.type();
    const std::vector<std::int64_t> shape(tile.shape().begin(), tile.shape().end());
    Value below = compared(b_, ir::ComparisonPredicate::Less, u_.index, number(kPlaces, shape), Signedness::Unsigned);
    const auto given = op_.group("mask");
    const Value mask = given.empty() ? Value() : reshaped(given[0], shape);
    // The high part of an invalid index matches no row of the product.
    const Value counted = mask ? binary(Op::AndI, mask, below) : below;
    const Value index = b_.create(Op::Select, {counted, u_.index, number(kPlaces, shape)}, {tile})->result();
    add(counts(reshaped(index, {tile.num_elements()})));
    const Value others = b_.create(Op::XOrI, {below, truth(shape)}, {below.type()})->result();
    keep(reshaped(mask ? binary(Op::AndI, mask, others) : others, op_.operand(0).type().shape()));
  }

 private:
  Value number(std::int64_t v, std::span<const std::int64_t> shape) { return b_.constant_int(Elem::I32, v, shape); }
  Value truth(std::span<const std::int64_t> shape) { return b_.constant_int(Elem::I1, 1, shape); }
  Value binary(Op op, Value x, Value y) { return b_.create(op, {x, y}, {x.type()})->result(); }
  Value reshaped(Value v, std::span<const std::int64_t> shape) {
    const Type type = v.type().with_shape(shape);
    return type == v.type() ? v : b_.create(Op::Reshape, {v}, {type})->result();
  }
  Value reshaped(Value v, std::initializer_list<std::int64_t> shape) {
    return reshaped(v, std::span(shape.begin(), shape.size()));
  }

  /// One-hot f16 matrix: 1 where a part of the index equals the number of the row (axis 0) or column (axis 1).
  Value one_hot(Value part, std::size_t axis) {
    const bool rows = axis == 0;
    const std::vector<std::int64_t> line =
        rows ? std::vector<std::int64_t>{1, kStep} : std::vector{kStep, std::int64_t{1}};
    const std::vector<std::int64_t> all = rows ? std::vector{kSide, kStep} : std::vector{kStep, kSide};
    const Value equal = compared(b_, ir::ComparisonPredicate::Equal, broadcast_to(b_, reshaped(part, line), all),
                                 broadcast_to(b_, iota_along(b_, kSide, axis, 2), all));
    const Value one = b_.constant_float(Elem::F16, 1, all), zero = b_.constant_float(Elem::F16, 0, all);
    return b_.create(Op::Select, {equal, one, zero}, {one.type()})->result();
  }

  /// i32, 16 x 16. The counts are exact: sums of at most kMost ones in f32.
  Value counts(Value index) {
    const std::int64_t square[] = {kSide, kSide};
    Value sum = b_.constant_float(Elem::F32, 0, square);
    for (std::int64_t k = 0; k < index.type().num_elements() / kStep; ++k) {
      const std::int64_t step[] = {kStep};
      const Value some =
          b_.create(Op::Extract, {index, b_.constant_int(Elem::I32, k)}, {index.type().with_shape(step)})->result();
      const Value high =
          b_.create(Op::ShRI, {some, number(4, step)}, {some.type()}, {{AttrName::signedness, Signedness::Unsigned}})
              ->result();
      const Value low = binary(Op::AndI, some, number(kSide - 1, step));
      sum = b_.create(Op::MmaF, {one_hot(high, 0), one_hot(low, 1), sum}, {sum.type()})->result();
    }
    return b_
        .create(Op::FToI, {sum}, {sum.type().with_element(Elem::I32)}, {{AttrName::signedness, Signedness::Signed}})
        ->result();
  }

  /// Adds count times the number at each index with a non-zero count; such indices lie inside the tensor.
  void add(Value counts) {
    const auto shape = counts.type().shape();
    const Value row = iota_along(b_, kSide, 0, 2);
    const Value high = binary(Op::MulI, row, number(kSide, row.type().shape()));
    const Value place =
        binary(Op::AddI, broadcast_to(b_, high, shape), broadcast_to(b_, iota_along(b_, kSide, 1, 2), shape));
    Value offset = as_i64(b_, place, Signedness::Unsigned);
    if (u_.stride) offset = binary(Op::MulI, offset, splat(b_, u_.stride, shape));
    const Value base = splat(b_, u_.base, shape);
    const Value pointers = b_.create(Op::Offset, {base, offset}, {base.type()})->result();
    const Elem elem = u_.number.type().elem();
    const Value amount = binary(Op::MulI, elem == Elem::I64 ? as_i64(b_, counts, Signedness::Signed) : counts,
                                splat(b_, scalar(u_.number), shape));
    const Value some = compared(b_, ir::ComparisonPredicate::Greater, counts, number(0, shape));
    const std::uint32_t groups[] = {1, 1, 1, 0};
    const Value operands[] = {pointers, amount, some};
    const Type types[] = {amount.type(), Type::token()};
    Operation* made = b_.create_grouped(Op::AtomicRMWTko, operands, groups, types);
    for (const ir::NamedAttr& a : op_.attrs()) made->set_attr(a.name, a.value);
  }
  Value scalar(Value v) {
    if (const auto c = constant_int(v)) return b_.constant_int(v.type().elem(), *c);
    return reshaped(v, {});
  }

  /// Masks the original operation to the elements that were not counted.
  void keep(Value mask) {
    const Value operands[] = {op_.operand(0), op_.operand(1), mask};
    const std::vector<std::uint32_t> groups{1, 1, 1, 0};
    op_.set_operands(std::vector<Value>(std::begin(operands), std::end(operands)), groups);
  }

  Operation& op_;
  const Update& u_;
  Builder b_;
};

}  // namespace

CombinedPieces pieces_combined(const Operation& atomic) {
  if (!update_of(atomic)) return {};
  const std::int64_t elements = atomic.operand(1).type().num_elements();
  const std::int64_t fewest = (kFewest + elements - 1) / elements;
  return {fewest, std::max(fewest, kEnough / elements)};
}

bool combine_atomics(ir::Function& f) {
  std::vector<std::pair<Operation*, Update>> updates;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() != Op::AtomicRMWTko) return;
    const std::int64_t elements = op.operand(1).type().num_elements();
    if (elements < kFewest || elements > kMost) return;
    if (const auto u = update_of(op)) updates.push_back({&op, *u});
  });
  for (const auto& [op, u] : updates) Combination(*op, u).run();
  return !updates.empty();
}

}  // namespace tessera::passes
