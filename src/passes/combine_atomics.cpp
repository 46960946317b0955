// Combines atomic additions to equal indices of a tile before they reach memory. A histogram adds one number at as many
// places as a tile has elements, and most places coincide. The counts are a product of two one-hot matrices, computed
// on tensor cores:
//
//   index = 16 high + low:   count(high, low) = sum over elements of (high == its high) * (low == its low)
//
// Sums of f32 have the elements' values in one of the matrices, as three parts that bf16 holds exactly. Then 256 atomic
// operations at neighbouring addresses replace those of all elements. An element whose index is 256 or more is added by
// itself, as before, and so is a value that is not finite or whose parts would be denormal.
// docs/compiler/combine_atomics.md.
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

constexpr std::int64_t kSideBits = 4, kSide = 1 << kSideBits, kPlaces = kSide * kSide;
constexpr std::int64_t kStep = 128;                                // elements of one product
constexpr std::int64_t kFewest = 2 * kPlaces, kMost = 32 * kStep;  // elements of a tile; the products are unrolled
constexpr std::int64_t kEnough = 8 * kStep;  // more elements take longer to compile and no shorter to run

/// Numbers added to elements of one tensor of one axis.
struct Update {
  Operation* op = nullptr;
  Value base, stride;  ///< stride: null for 1
  Value index;         ///< i32, as many elements as the tile
  Value number;        ///< an integer, the same for every element; or null
  Value values;        ///< f32, one for each element; or null
};

// Values of f32 between these bounds are sums of three numbers of bf16, which has 8 significant bits: rounded, none
// overflows, and the last bit of the last one is at least 2^-110, where bf16 has no denormal numbers.
constexpr double kLeastSummed = 0x1p-87, kMaxSummed = 0x1p127;
constexpr int kPartsOfFloat = 3;

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
  if (op.op() != Op::AtomicRMWTko || op.result(0).has_uses() || op.result(1).has_uses() || !op.group("token").empty())
    return std::nullopt;
  const auto mode = op.enum_attr<ir::AtomicMode>(AttrName::mode);
  const std::int64_t elements = op.operand(1).type().num_elements();
  Update u;
  if (mode == ir::AtomicMode::AddF && op.operand(1).type().elem() == Elem::F32) {
    u.values = op.operand(1);
  } else if (mode == ir::AtomicMode::Add) {
    u.number = behind_shapes(op.operand(1));
    if (u.number.type().num_elements() != 1 && !constant_int(u.number)) return std::nullopt;
  } else {
    return std::nullopt;
  }
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

/// Atomic additions of one block that have one index, and their products.
class Combination {
 public:
  Combination(std::vector<Update> all) : all_(std::move(all)), b_(Builder::before(all_.back().op)) {}

  void run() {
    const Value mask = common_mask();
    std::vector<Value> summands;
    for (const Update& u : all_) {
      at(*u.op);
      summands.push_back(summand_of(u, mask_of(u) == mask ? Value() : mask_of(u)));
    }
    // After the operations that remain, so that their pointers need no registers while the products are computed.
    const auto loc = all_.back().op->loc;
    at(*all_.back().op->next());
    b_.loc = loc;
    const std::vector<Value> totals = products(flattened(masked_index(mask)), summands);
    for (std::size_t i = 0; i < all_.size(); ++i) add(all_[i], totals[i]);
    for (const Update& u : all_) {
      at(*u.op);
      keep(u);
    }
  }

 private:
  void at(Operation& op) {
    b_ = Builder::before(&op);
    b_.loc = op.loc;
  }
  Value number(std::int64_t v, Value like) { return b_.constant_int(Elem::I32, v, like.type().shape()); }
  Value truth(Value like) { return b_.constant_int(Elem::I1, 1, like.type().shape()); }
  Value zeros(Value like) { return b_.constant_float(like.type().elem(), 0, like.type().shape()); }
  Value binary(Op op, Value x, Value y) { return b_.create(op, {x, y}, {x.type()})->result(); }
  Value inverted(Value truths) { return binary(Op::XOrI, truths, truth(truths)); }
  Value select(Value truths, Value x, Value y) { return b_.create(Op::Select, {truths, x, y}, {x.type()})->result(); }
  Value chosen(Value truths, Value v) { return select(truths, v, zeros(v)); }
  Value ones_where(Value truths) { return chosen(truths, b_.constant_float(Elem::BF16, 1, truths.type().shape())); }
  Value converted(Value v, Elem to) { return b_.create(Op::FToF, {v}, {v.type().with_element(to)})->result(); }
  Value compared_to(ir::ComparisonPredicate predicate, Value v, double with) {
    return b_
        .create(Op::CmpF, {v, b_.constant_float(v.type().elem(), with, v.type().shape())},
                {v.type().with_element(Elem::I1)},
                {{AttrName::comparison_predicate, predicate},
                 {AttrName::comparison_ordering, ir::ComparisonOrdering::Ordered}})
        ->result();
  }
  Value reshaped(Value v, std::initializer_list<std::int64_t> shape) {
    return reshaped(v, std::span(shape.begin(), shape.size()));
  }
  Value reshaped(Value v, std::span<const std::int64_t> shape) {
    const Type type = v.type().with_shape(shape);
    return type == v.type() ? v : b_.create(Op::Reshape, {v}, {type})->result();
  }
  Value flattened(Value v) { return reshaped(v, {v.type().num_elements()}); }

  static Value mask_of(const Update& u) {
    const auto mask = u.op->group("mask");
    return mask.empty() ? Value() : mask[0];
  }
  /// The mask that all have, or null.
  Value common_mask() const {
    const Value first = mask_of(all_.front());
    const bool same = std::all_of(all_.begin(), all_.end(), [&](const Update& u) { return mask_of(u) == first; });
    return same ? first : Value();
  }
  /// The index, or one that matches no row of the product where `mask` is false.
  Value masked_index(Value mask) {
    const Value index = all_.front().index;
    if (!mask) return index;
    const Value none = number(kPlaces, index);
    return select(reshaped(mask, index.type().shape()), index, none);
  }
  /// True for values that are sums of parts.
  Value is_summed(Value values) {
    const Value size = b_.create(Op::AbsF, {values}, {values.type()})->result();
    const Value small = compared_to(ir::ComparisonPredicate::LessEqual, size, kMaxSummed);
    const Value large = compared_to(ir::ComparisonPredicate::GreaterEqual, size, kLeastSummed);
    const Value inside = binary(Op::AndI, large, small);
    return binary(Op::OrI, inside, compared_to(ir::ComparisonPredicate::Equal, values, 0));
  }

  /// What the products add up, in one axis: values in f32, or ones in bf16; zero where `mask` is false. Null for ones
  /// without a mask.
  Value summand_of(const Update& u, Value mask) {
    if (!u.values) return mask ? flattened(ones_where(mask)) : Value();
    const Value summed = is_summed(u.values);
    return flattened(chosen(mask ? binary(Op::AndI, mask, summed) : summed, u.values));
  }

  /// Elements k kStep to (k + 1) kStep.
  Value step_of(Value all, std::int64_t k) {
    const std::int64_t step[] = {kStep};
    return b_.create(Op::Extract, {all, b_.constant_int(Elem::I32, k)}, {all.type().with_shape(step)})->result();
  }
  /// True where a part of the index, a row or column of kStep numbers, equals the number of the row (axis 0) or column
  /// (axis 1).
  Value matches(Value part, std::size_t axis) {
    const std::vector<std::int64_t> all = axis == 0 ? std::vector{kSide, kStep} : std::vector{kStep, kSide};
    const Value counted = broadcast_to(b_, iota_along(b_, kSide, axis, 2), all);
    return compared(b_, ir::ComparisonPredicate::Equal, broadcast_to(b_, part, all), counted);
  }
  Value rows_matched(Value index) {
    const Value high = b_.create(Op::ShRI, {index, number(kSideBits, index)}, {index.type()},
                                 {{AttrName::signedness, Signedness::Unsigned}})
                           ->result();
    return ones_where(matches(reshaped(high, {1, kStep}), 0));
  }
  Value columns_matched(Value index) {
    return matches(reshaped(binary(Op::AndI, index, number(kSide - 1, index)), {kStep, 1}), 1);
  }
  /// f32, 16 x 16, for each update. Counts are exact: sums of at most kMost ones.
  std::vector<Value> products(Value index, std::span<const Value> summands) {
    const std::int64_t square[] = {kSide, kSide};
    std::vector<Value> totals(all_.size(), b_.constant_float(Elem::F32, 0, square));
    for (std::int64_t k = 0; k < index.type().num_elements() / kStep; ++k) {
      const Value some = step_of(index, k), rows = rows_matched(some), columns = columns_matched(some);
      const auto multiply = [&](Value right, Value& sum) {
        sum = b_.create(Op::MmaF, {rows, right, sum}, {sum.type()})->result();
      };
      for (std::size_t i = 0; i < all_.size(); ++i) {
        if (!summands[i]) {
          multiply(ones_where(columns), totals[i]);
          continue;
        }
        Value rest = reshaped(step_of(summands[i], k), {kStep, 1});
        for (int part = all_[i].values ? kPartsOfFloat : 1; part > 0; --part) {
          const Value some_bits = all_[i].values ? converted(rest, Elem::BF16) : rest;
          if (part > 1) rest = binary(Op::SubF, rest, converted(some_bits, Elem::F32));  // exact
          multiply(chosen(columns, broadcast_to(b_, some_bits, columns.type().shape())), totals[i]);
        }
      }
    }
    return totals;
  }

  /// Adds what is not zero of `totals`, sums or counts: the indices of those places lie inside the tensor.
  void add(const Update& u, Value totals) {
    const Value row = iota_along(b_, kSide, 0, 2);
    const Value high = binary(Op::MulI, row, number(kSide, row));
    const auto shape = totals.type().shape();
    const Value low = broadcast_to(b_, iota_along(b_, kSide, 1, 2), shape);
    const Value place = binary(Op::AddI, broadcast_to(b_, high, shape), low);
    Value offset = as_i64(b_, place, Signedness::Unsigned);
    if (u.stride) offset = binary(Op::MulI, offset, splat(b_, u.stride, shape));
    const Value base = splat(b_, u.base, shape);
    const Value pointers = b_.create(Op::Offset, {base, offset}, {base.type()})->result();
    const Value amount = u.values ? totals : times_number(u, totals);
    const Value some = inverted(compared_to(ir::ComparisonPredicate::Equal, totals, 0));
    const std::uint32_t groups[] = {1, 1, 1, 0};
    const Value operands[] = {pointers, amount, some};
    const Type types[] = {amount.type(), Type::token()};
    Operation* made = b_.create_grouped(Op::AtomicRMWTko, operands, groups, types);
    for (const ir::NamedAttr& a : u.op->attrs()) made->set_attr(a.name, a.value);
  }
  Value times_number(const Update& u, Value totals) {
    const Value counts = b_.create(Op::FToI, {totals}, {totals.type().with_element(Elem::I32)},
                                   {{AttrName::signedness, Signedness::Signed}})
                             ->result();
    const Elem elem = u.number.type().elem();
    const auto constant = constant_int(u.number);
    const Value number = constant ? b_.constant_int(elem, *constant) : reshaped(u.number, {});
    const Value numbers = splat(b_, number, totals.type().shape());
    return binary(Op::MulI, elem == Elem::I64 ? as_i64(b_, counts, Signedness::Signed) : counts, numbers);
  }

  /// Masks the operation to the elements that the products leave out.
  void keep(const Update& u) {
    const auto shape = u.op->operand(0).type().shape();
    Value done = reshaped(
        compared(b_, ir::ComparisonPredicate::Less, u.index, number(kPlaces, u.index), Signedness::Unsigned), shape);
    if (u.values) done = binary(Op::AndI, done, is_summed(u.values));
    const Value others = inverted(done), mask = mask_of(u);
    const Value operands[] = {u.op->operand(0), u.op->operand(1), mask ? binary(Op::AndI, mask, others) : others};
    const std::vector<std::uint32_t> groups{1, 1, 1, 0};
    u.op->set_operands(std::vector<Value>(std::begin(operands), std::end(operands)), groups);
  }

  std::vector<Update> all_;
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
  std::vector<std::vector<Update>> groups;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() != Op::AtomicRMWTko) return;
    const std::int64_t elements = op.operand(1).type().num_elements();
    if (elements < kFewest || elements > kMost) return;
    auto update = update_of(op);
    if (!update) return;
    update->op = &op;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<Update>& group) {
      return group.back().index == update->index && group.back().op->block() == op.block();
    });
    (same == groups.end() ? groups.emplace_back() : *same).push_back(*update);
  });
  for (std::vector<Update>& group : groups) Combination(std::move(group)).run();
  return !groups.empty();
}

}  // namespace tessera::passes
