// The analysis of low bits, on the dataflow driver.
#include "tessera/analysis/divisibility.hpp"

#include <bit>
#include <optional>
#include <utility>

#include "analysis/dataflow.hpp"
#include "analysis/low_bits.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::analysis {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

bool is_address(ir::Type t) { return t.is_tile() && t.is_pointer(); }
bool is_number(ir::Type t) { return t.is_tile() && !t.is_pointer() && !t.is_float() && ir::info(t.elem()).bits > 1; }
int width(ir::Type t) { return t.is_pointer() ? 64 : ir::info(t.elem()).bits; }

class LowBitsAnalysis final : public Dataflow<LowBits> {
 public:
  LowBitsAnalysis() : Dataflow(false) {}

 private:
  bool follows(ir::Type t) const override { return is_address(t) || is_number(t); }
  LowBits unknown(ir::Type) const override { return {}; }
  /// Known bits only ever get fewer, so rounds end.
  LowBits join(const LowBits& a, const LowBits& b) const override { return low_bits::meet(a, b); }
  /// lower + n * step.
  LowBits induction(const Operation& loop) override {
    return low_bits::cut(fact(loop.operand(0)), fact(loop.operand(2)).zeros());
  }
  std::optional<LowBits> transfer(const Operation& op, std::size_t result) override;

  LowBits assumed(const Operation& op);
  LowBits quotient(const Operation& op);
  LowBits remainder(const Operation& op);
};

LowBits constant(const Operation& op) {
  const auto& data = *op.attr(AttrName::value)->as<ir::DenseAttr>();
  const ir::Elem elem = op.result().type().elem();
  const std::size_t size = ir::info(elem).bytes;
  std::optional<LowBits> all;
  for (std::size_t at = 0; at + size <= data.bytes.size(); at += size) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < size; ++i) bits |= std::to_integer<std::uint64_t>(data.bytes[at + i]) << (8 * i);
    const LowBits one = low_bits::exact(bits, ir::info(elem).bits);
    all = all ? low_bits::meet(*all, one) : one;
  }
  return all.value_or(LowBits{});
}

LowBits LowBitsAnalysis::assumed(const Operation& op) {
  const LowBits before = fact(op.operand(0));
  const auto* multiple = op.attr(AttrName::predicate)->as<ir::DivByAttr>();
  if (multiple == nullptr || multiple->every || multiple->divisor == 0) return before;
  const int zeros = std::countr_zero(multiple->divisor);
  return zeros > before.known ? LowBits{zeros, 0} : before;
}

/// Only divisions by powers of two give known bits, and only if they are exact or truncate.
LowBits LowBitsAnalysis::quotient(const Operation& op) {
  const LowBits x = fact(op.operand(0)), y = fact(op.operand(1));
  const int bits = width(op.result().type());
  if (y.known != bits || !std::has_single_bit(y.low) || y.zeros() == bits - 1) return {};
  const int by = y.zeros();
  if (x.zeros() >= by && x.known >= by) return low_bits::shifted_right(x, by);
  const bool cuts = op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Unsigned &&
                    op.enum_attr<ir::Rounding>(AttrName::rounding, ir::Rounding::Zero) == ir::Rounding::Zero;
  return cuts ? low_bits::shifted_right(x, by) : LowBits{};
}

/// x - n y for some n.
LowBits LowBitsAnalysis::remainder(const Operation& op) {
  const LowBits x = fact(op.operand(0)), y = fact(op.operand(1));
  return y.low == 0 ? LowBits{} : low_bits::cut(x, y.zeros());  // y may be 0 if its low bits are
}

std::optional<LowBits> LowBitsAnalysis::transfer(const Operation& op, std::size_t result) {
  using namespace low_bits;
  const ir::Type type = op.result(result).type();
  const int bits = width(type);
  const auto at = [&](std::size_t i) { return fact(op.operand(i)); };
  const auto shift = [&]() -> std::optional<int> {
    const LowBits by = at(1);
    if (by.known != bits || by.low >= static_cast<std::uint64_t>(bits)) return std::nullopt;
    return static_cast<int>(by.low);
  };
  switch (op.op()) {
    case Op::Constant: return is_number(type) ? constant(op) : LowBits{};
    case Op::Assume: return assumed(op);
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract:
    case Op::ExtI: return at(0);
    case Op::TruncI: return cut(at(0), bits);
    case Op::Cat:
    case Op::Insert:
    case Op::MinI:
    case Op::MaxI: return meet(at(0), at(1));
    case Op::Select: return meet(at(1), at(2));
    case Op::AddI: return add(at(0), at(1));
    case Op::SubI: return sub(at(0), at(1));
    case Op::MulI: return cut(mul(at(0), at(1)), bits);
    case Op::NegI: return sub(exact(0, bits), at(0));
    case Op::AndI: return bit_and(at(0), at(1));
    case Op::OrI: return bit_or(at(0), at(1));
    case Op::XOrI: return bit_xor(at(0), at(1));
    case Op::ShLI: return shift() ? shifted_left(at(0), *shift(), bits) : LowBits{};
    case Op::ShRI: return shift() ? shifted_right(at(0), *shift()) : LowBits{};
    case Op::DivI: return quotient(op);
    case Op::RemI: return remainder(op);
    case Op::Offset: {
      const std::uint64_t bytes = ir::info(type.pointee().elem()).bytes;
      // The offset is extended by its sign: all but its own low bits may be anything.
      return add(at(0), cut(mul(at(1), exact(bytes, 64)), 64));
    }
    default: return std::nullopt;
  }
}

}  // namespace

Divisibility::Divisibility(const ir::Function& f) {
  LowBitsAnalysis analysis;
  analysis.run(f);
  known_ = std::move(analysis).facts();
}

LowBits Divisibility::of(Value v) const {
  const auto it = known_.find(v.impl());
  return it != known_.end() ? it->second : LowBits{};
}

}  // namespace tessera::analysis
