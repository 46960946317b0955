// Building and running launch programs. The first run assumes that every step gives a number and only notes if one did
// not; only then it runs again and keeps for every register whether it is known. Tests of unknown numbers are false.
#include "analysis/launch_program.hpp"

#include <bit>

#include "analysis/interval.hpp"

namespace tessera::analysis {

/// Steps with a constant at the right, where dividing is shifting.
bool LaunchProgram::with_constant(const ExprPool& exprs, const ExprNode& n, Step& step) {
  const auto c = exprs.constant_value(n.rhs);
  if (!c) return false;
  step.value = *c;
  const bool division = n.kind == ExprKind::FloorDiv || n.kind == ExprKind::CeilDiv;
  if (n.kind == ExprKind::Add) {
    step.code = Code::AddConstant;
  } else if (n.kind == ExprKind::Mul) {
    step.code = Code::MulConstant;
  } else if (division && *c > 0 && std::has_single_bit(static_cast<std::uint64_t>(*c))) {
    step.code = n.kind == ExprKind::FloorDiv ? Code::ShiftDown : Code::ShiftUp;
    step.bits = static_cast<std::uint8_t>(std::countr_zero(static_cast<std::uint64_t>(*c)));
  } else {
    return false;
  }
  return true;
}

std::uint16_t LaunchProgram::register_of(const ExprPool& exprs, Expr e) {
  if (const auto it = register_.find(e.id); it != register_.end()) return it->second;
  const ExprNode& n = exprs[e];
  Step step;
  step.kind = n.kind;
  if (n.kind == ExprKind::Const) {
    step.code = Code::Constant;
    step.value = n.value;
  } else if (n.kind == ExprKind::Arg) {
    step.code = Code::Slot;
    step.bits = n.bits;
    step.is_signed = n.is_signed;
    step.a = static_cast<std::uint16_t>(n.value);
  } else {
    step.a = register_of(exprs, n.lhs);
    if (!with_constant(exprs, n, step)) step.b = register_of(exprs, n.rhs);
  }
  steps_.push_back(step);
  return register_.emplace(e.id, static_cast<std::uint16_t>(steps_.size() - 1)).first->second;
}

std::uint16_t LaunchProgram::test_of(const ConditionPool& pool, const ExprPool& exprs, std::uint32_t term) {
  if (const auto it = test_.find(term); it != test_.end()) return it->second;
  const Condition& c = pool.term(term);
  Test t;
  t.a = register_of(exprs, c.a);
  if (c.kind == ConditionKind::Divides) {
    t.divisor = c.divisor;
    t.power_of_two = std::has_single_bit(c.divisor);
  } else {
    t.b = register_of(exprs, c.b);
  }
  tests_.push_back(t);
  return test_.emplace(term, static_cast<std::uint16_t>(tests_.size() - 1)).first->second;
}

bool LaunchProgram::add(const ConditionPool& pool, const ExprPool& exprs, Conditions conditions) {
  if (wanted_.size() == kMaxObligations) return false;
  const std::size_t steps = steps_.size(), tests = tests_.size();
  TestBits bits{};
  for (const std::uint32_t term : pool.terms(conditions)) {
    const std::uint16_t t = test_of(pool, exprs, term);
    if (t < kMaxTests) bits[t / 64] |= std::uint64_t{1} << (t % 64);
  }
  if (steps_.size() > kMaxRegisters || tests_.size() > kMaxTests) {
    steps_.resize(steps);
    tests_.resize(tests);
    std::erase_if(register_, [&](const auto& r) { return r.second >= steps; });
    std::erase_if(test_, [&](const auto& t) { return t.second >= tests; });
    return false;
  }
  wanted_.push_back(bits);
  return true;
}

/// Computes all registers. False if a step gave no number; with `Tracked`, `known` says which.
template <bool Tracked>
bool LaunchProgram::run(std::span<const std::uint64_t> slots, std::int64_t* registers, bool* known) const noexcept {
  bool failed = false;
  std::size_t next = 0;
  for (const Step& s : steps_) {
    std::int64_t out = 0;
    bool ok = true;
    switch (s.code) {
      case Code::Constant: out = s.value; break;
      case Code::Slot:
        ok = s.a < slots.size();
        if (ok) out = s.bits == 64 ? static_cast<std::int64_t>(slots[s.a]) : read_slot(slots[s.a], s.bits, s.is_signed);
        break;
      case Code::AddConstant: ok = !__builtin_add_overflow(registers[s.a], s.value, &out); break;
      case Code::MulConstant: ok = !__builtin_mul_overflow(registers[s.a], s.value, &out); break;
      case Code::ShiftDown: out = registers[s.a] >> s.bits; break;
      case Code::ShiftUp:
        ok = !__builtin_add_overflow(registers[s.a], s.value - 1, &out);
        out >>= s.bits;
        break;
      case Code::Other: ok = evaluate_step(s.kind, registers[s.a], registers[s.b], out); break;
    }
    if constexpr (Tracked) {
      const bool leaf = s.code == Code::Constant || s.code == Code::Slot;
      const bool two = s.code == Code::Other;
      known[next] = ok && (leaf || (known[s.a] && (!two || known[s.b])));
    }
    failed |= !ok;
    registers[next++] = out;
  }
  return !failed;
}

bool LaunchProgram::holds(const Test& t, const std::int64_t* registers) const noexcept {
  const std::int64_t a = registers[t.a];
  if (t.divisor == 0) return a <= registers[t.b];
  const auto bits = static_cast<std::uint64_t>(a);
  if (t.power_of_two) return (bits & (t.divisor - 1)) == 0;
  return (a < 0 ? std::uint64_t{0} - bits : bits) % t.divisor == 0;
}

std::uint64_t LaunchProgram::evaluate(std::span<const std::uint64_t> slots) const noexcept {
  std::array<std::int64_t, kMaxRegisters> registers;  // NOLINT: each is written before it is read
  TestBits tests{};
  if (run<false>(slots, registers.data(), nullptr)) [[likely]] {
    for (std::size_t i = 0; i < tests_.size(); ++i)
      tests[i / 64] |= static_cast<std::uint64_t>(holds(tests_[i], registers.data())) << (i % 64);
  } else {
    std::array<bool, kMaxRegisters> known;  // NOLINT: likewise
    run<true>(slots, registers.data(), known.data());
    for (std::size_t i = 0; i < tests_.size(); ++i) {
      const Test& t = tests_[i];
      const bool all = known[t.a] && (t.divisor != 0 || known[t.b]);
      tests[i / 64] |= static_cast<std::uint64_t>(all && holds(t, registers.data())) << (i % 64);
    }
  }
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const bool all = ((wanted_[i][0] & ~tests[0]) | (wanted_[i][1] & ~tests[1])) == 0;
    bits |= static_cast<std::uint64_t>(all) << i;
  }
  return bits;
}

}  // namespace tessera::analysis
