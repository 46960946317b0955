// Building small pieces of IR (see values.hpp).
#include "passes/values.hpp"

#include <algorithm>
#include <vector>

#include "tessera/analysis/launch_contract.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Value;

namespace {

using Most = std::optional<std::uint64_t>;

bool is_signed(const ir::Operation& op) {
  return op.enum_attr<ir::Signedness>(ir::AttrName::signedness) == ir::Signedness::Signed;
}

/// The bound of a minimum, maximum or selection; `positive`: the largest non-negative number of the type.
Most most_of_two(const ir::Operation& op, Most a, Most b, std::uint64_t positive) {
  const auto is_positive = [&](Most n) { return n && *n <= positive; };
  if (op.op() == Op::Select || (op.op() == Op::MaxI && !is_signed(op)))
    return a && b ? Most(std::max(*a, *b)) : std::nullopt;
  if (op.op() == Op::MinI && !is_signed(op)) return a && b ? std::min(*a, *b) : a ? a : b;
  if (op.op() == Op::MinI) return is_positive(a) && is_positive(b) ? Most(std::min(*a, *b)) : std::nullopt;
  if (is_positive(a) && is_positive(b)) return std::max(*a, *b);
  return is_positive(a) || is_positive(b) ? Most(positive) : std::nullopt;  // signed MaxI
}

Most most_assumed(const ir::Operation& op, Most n) {
  const auto* bounds = op.attr(ir::AttrName::predicate)->as<ir::BoundedAttr>();
  if (bounds == nullptr || !bounds->lower || *bounds->lower < 0 || !bounds->upper) return n;
  const auto upper = static_cast<std::uint64_t>(*bounds->upper);
  return n ? std::min(*n, upper) : upper;
}

}  // namespace

std::optional<std::uint64_t> unsigned_most(Value v, int depth) {
  const ir::Operation* op = v.def();
  if (op == nullptr || depth == 0) return std::nullopt;
  const int bits = ir::info(v.type().elem()).bits;
  const std::uint64_t positive = (std::uint64_t{1} << (bits - 1)) - 1;
  const auto of = [&](std::size_t i) { return unsigned_most(op->operand(i), depth - 1); };
  const auto fits = [&](Most n) { return n && (bits == 64 || *n >> bits == 0) ? n : std::nullopt; };
  const auto both = [&](auto combine) -> Most {
    const auto a = of(0), b = of(1);
    constexpr std::uint64_t kShort = 0xFFFFFFFF;  // neither sums nor products wrap
    return a && b && *a <= kShort && *b <= kShort ? fits(combine(*a, *b)) : std::nullopt;
  };
  switch (op->op()) {
    case Op::Constant: return splat_bits(v);
    case Op::Iota: return fits(static_cast<std::uint64_t>(v.type().num_elements() - 1));
    case Op::GetTileBlockId:
    case Op::GetNumTileBlocks: return analysis::kMaxGridAxis;
    case Op::GetTensorShape:
    case Op::GetIndexSpaceShape: return std::min<std::uint64_t>(positive, 0x7FFFFFFF);  // LaunchContract
    case Op::Assume: return most_assumed(*op, of(0));
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract: return of(0);
    case Op::ExtI: {
      const int narrow = ir::info(op->operand(0).type().elem()).bits;
      auto n = of(0);
      if (!n && !is_signed(*op)) n = (std::uint64_t{1} << narrow) - 1;
      const bool negative = n && *n >> (narrow - 1) != 0;
      return is_signed(*op) && negative ? std::nullopt : n;
    }
    case Op::TruncI: return fits(of(0));
    case Op::AddI: return both([](std::uint64_t a, std::uint64_t b) { return a + b; });
    case Op::MulI: return both([](std::uint64_t a, std::uint64_t b) { return a * b; });
    case Op::MinI:
    case Op::MaxI: return most_of_two(*op, of(0), of(1), positive);
    case Op::Select: return most_of_two(*op, of(1), of(2), positive);
    case Op::AndI: {
      const auto a = of(0), b = of(1);
      return a && b ? std::min(*a, *b) : a ? a : b;
    }
    case Op::DivI: {  // x / 0 is 0
      const auto a = of(0), b = is_signed(*op) ? of(1) : Most(0);
      if (!a || !b || (is_signed(*op) && (*a > positive || *b > positive))) return std::nullopt;
      const auto by = constant_int(op->operand(1));
      return by && *by > 0 ? std::min(*a, *a / static_cast<std::uint64_t>(*by) + 1) : a;  // of any rounding
    }
    case Op::RemI: {
      const auto by = constant_int(op->operand(1));
      return !is_signed(*op) && by && *by > 0 ? Most(*by - 1) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

bool rounds_plainly(const ir::Operation& op) {
  return op.enum_attr<ir::Rounding>(ir::AttrName::rounding_mode, ir::Rounding::NearestEven) ==
             ir::Rounding::NearestEven &&
         !op.has_attr(ir::AttrName::flush_to_zero);
}

bool is_elementwise(const ir::Operation& op) {
  const ir::OpInfo& info = op.info();
  return op.num_regions() == 0 && info.has(ir::traits::Pure) &&
         (info.has(ir::traits::SameType) || info.has(ir::traits::SameShape) || op.op() == Op::Select ||
          op.op() == Op::FPowI);
}

Value broadcast_to(ir::Builder& b, Value v, std::span<const std::int64_t> shape) {
  const ir::Type wanted = v.type().with_shape(shape);
  return v.type() == wanted ? v : b.create(Op::Broadcast, {v}, {wanted})->result();
}

std::optional<TileCount> tiles_counted(Value v) {
  const auto source = [](Value from) {
    while (const ir::Operation* op = from.def()) {
      if (op->op() != Op::TruncI && op->op() != Op::ExtI && op->op() != Op::Assume) break;
      from = op->operand(0);
    }
    return from;
  };
  TileCount count;
  v = source(v);
  if (v.def() && v.def()->op() == Op::DivI) {
    const auto tile = constant_int(v.def()->operand(1));
    if (!tile || *tile < 1 || v.def()->enum_attr<ir::Rounding>(ir::AttrName::rounding) != ir::Rounding::PositiveInf)
      return std::nullopt;
    count.tile = *tile;
    v = source(v.def()->operand(0));
  }
  if (v.def() || v.argument_block()->parent()) return std::nullopt;
  count.argument = v.index();
  return count;
}

Value splat(ir::Builder& b, Value scalar, std::span<const std::int64_t> shape) {
  if (shape.empty()) return scalar;
  const std::vector<std::int64_t> ones(shape.size(), 1);
  return broadcast_to(b, b.create(Op::Reshape, {scalar}, {scalar.type().with_shape(ones)})->result(), shape);
}

Value iota_along(ir::Builder& b, std::int64_t extent, std::size_t axis, std::size_t rank) {
  const Value flat = b.create(Op::Iota, {}, {ir::Type::tile(ir::Elem::I32, {extent})})->result();
  if (rank == 1) return flat;
  std::vector<std::int64_t> shape(rank, 1);
  shape[axis] = extent;
  return b.create(Op::Reshape, {flat}, {flat.type().with_shape(shape)})->result();
}

Value compared(ir::Builder& b, ir::ComparisonPredicate how, Value x, Value y, ir::Signedness sign) {
  return b
      .create(Op::CmpI, {x, y}, {x.type().with_element(ir::Elem::I1)},
              {{ir::AttrName::comparison_predicate, how}, {ir::AttrName::signedness, sign}})
      ->result();
}

Value as_i64(ir::Builder& b, Value v, ir::Signedness sign) {
  if (v.type().elem() == ir::Elem::I64) return v;
  return b.create(Op::ExtI, {v}, {v.type().with_element(ir::Elem::I64)}, {{ir::AttrName::signedness, sign}})->result();
}

}  // namespace tessera::passes
