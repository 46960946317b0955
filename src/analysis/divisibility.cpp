// Low bits forward over SSA: straight lines, branches, loops to a fixpoint (known bits only ever get fewer, so it
// ends).
#include "tessera/analysis/divisibility.hpp"

#include <bit>
#include <optional>
#include <vector>

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
bool is_followed(Value v) { return is_address(v.type()) || is_number(v.type()); }
int width(ir::Type t) { return t.is_pointer() ? 64 : ir::info(t.elem()).bits; }

/// What `values` carry, met into `into`, which is empty before the first exit.
void merge(std::optional<std::vector<LowBits>>& into, std::vector<LowBits> values) {
  if (!into) {
    into = std::move(values);
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) (*into)[i] = low_bits::meet((*into)[i], values[i]);
}

}  // namespace

/// The loop whose body is being run: what its exits carry.
struct Divisibility::Loop {
  Loop* outer = nullptr;
  std::optional<std::vector<LowBits>> continued, broken;
};

Divisibility::Divisibility(const ir::Function& f) { run(f.body()); }

LowBits Divisibility::of(Value v) const {
  const auto it = known_.find(v.impl());
  return it != known_.end() ? it->second : LowBits{};
}

void Divisibility::run(const ir::Block& block) {
  for (const Operation& op : block) {
    switch (op.op()) {
      case Op::For:
      case Op::Loop: run_loop(op); break;
      case Op::If: run_if(op); break;
      case Op::Continue:
      case Op::Break: leave(op); break;
      default:
        for (std::size_t i = 0; i < op.num_results(); ++i)
          if (is_followed(op.result(i))) known_[op.result(i).impl()] = transfer(op, i);
    }
  }
}

void Divisibility::leave(const Operation& exit) {
  if (loop_ == nullptr) return;
  std::vector<LowBits> values;
  for (std::size_t i = 0; i < exit.num_operands(); ++i) values.push_back(of(exit.operand(i)));
  merge(exit.op() == Op::Continue ? loop_->continued : loop_->broken, std::move(values));
}

/// The body is run with what the values start from, then with what holds of that and of the next iteration's.
void Divisibility::run_loop(const Operation& op) {
  const bool counted = op.op() == Op::For;
  const ir::Block& body = op.region(0);
  const std::size_t first_arg = counted ? 1 : 0, first_init = counted ? 3 : 0;
  if (counted) {  // lower + n * step
    const LowBits lower = of(op.operand(0)), step = of(op.operand(2));
    known_[body.arg(0).impl()] = low_bits::cut(lower, step.zeros());
  }
  std::vector<LowBits> state;
  for (std::size_t i = first_arg; i < body.num_args(); ++i) state.push_back(of(op.operand(first_init + i - first_arg)));
  Loop loop;
  for (bool changed = true; changed;) {
    for (std::size_t i = 0; i < state.size(); ++i) known_[body.arg(first_arg + i).impl()] = state[i];
    loop = Loop{loop_, {}, {}};
    loop_ = &loop;
    run(body);
    loop_ = loop.outer;
    changed = false;
    for (std::size_t i = 0; loop.continued && i < state.size(); ++i) {
      const LowBits next = low_bits::meet(state[i], (*loop.continued)[i]);
      changed = changed || !(next == state[i]);
      state[i] = next;
    }
  }
  // A counted loop ends with what it carries, also after no iteration; any other with what its breaks carry.
  for (std::size_t i = 0; i < op.num_results(); ++i) {
    LowBits r;
    if (counted && !loop.broken) r = state[i];
    if (!counted && loop.broken) r = (*loop.broken)[i];
    known_[op.result(i).impl()] = r;
  }
}

void Divisibility::run_if(const Operation& op) {
  std::optional<std::vector<LowBits>> results;
  for (std::size_t r = 0; r < op.num_regions(); ++r) {
    run(op.region(r));
    const Operation* end = op.region(r).terminator();
    if (end == nullptr || end->op() != Op::Yield) continue;
    std::vector<LowBits> values;
    for (std::size_t i = 0; i < end->num_operands(); ++i) values.push_back(of(end->operand(i)));
    merge(results, std::move(values));
  }
  for (std::size_t i = 0; i < op.num_results(); ++i) known_[op.result(i).impl()] = results ? (*results)[i] : LowBits{};
}

LowBits Divisibility::constant(const Operation& op) const {
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

LowBits Divisibility::assumed(const Operation& op) const {
  const LowBits before = of(op.operand(0));
  const auto* multiple = op.attr(AttrName::predicate)->as<ir::DivByAttr>();
  if (multiple == nullptr || multiple->every || multiple->divisor == 0) return before;
  const int zeros = std::countr_zero(multiple->divisor);
  return zeros > before.known ? LowBits{zeros, 0} : before;
}

/// Of divisions only those by powers of two say anything, and only where nothing is left over or it is cut off.
LowBits Divisibility::quotient(const Operation& op) const {
  const LowBits x = of(op.operand(0)), y = of(op.operand(1));
  const int bits = width(op.result().type());
  if (y.known != bits || !std::has_single_bit(y.low) || y.zeros() == bits - 1) return {};
  const int by = y.zeros();
  if (x.zeros() >= by && x.known >= by) return low_bits::shifted_right(x, by);
  const bool cuts = op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Unsigned &&
                    op.enum_attr<ir::Rounding>(AttrName::rounding, ir::Rounding::Zero) == ir::Rounding::Zero;
  return cuts ? low_bits::shifted_right(x, by) : LowBits{};
}

/// x - n y for some n.
LowBits Divisibility::remainder(const Operation& op) const {
  const LowBits x = of(op.operand(0)), y = of(op.operand(1));
  return y.low == 0 ? LowBits{} : low_bits::cut(x, y.zeros());  // y may be 0 if its low bits are
}

LowBits Divisibility::transfer(const Operation& op, std::size_t result) const {
  using namespace low_bits;
  const ir::Type type = op.result(result).type();
  const int bits = width(type);
  const auto at = [&](std::size_t i) { return of(op.operand(i)); };
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
    case Op::ExtI: return is_followed(op.operand(0)) ? at(0) : LowBits{};
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
    default: return {};
  }
}

}  // namespace tessera::analysis
