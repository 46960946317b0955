// Building and running launch programs. A register is a number and whether it is known; what a launch's numbers make
// overflow is unknown, and every test of it is false.
#include "analysis/launch_program.hpp"

#include <array>
#include <bit>

#include "analysis/interval.hpp"

namespace tessera::analysis {
namespace {

struct Register {
  std::int64_t value;
  bool known;
};

constexpr std::uint16_t kConstant = 0x8000;  // a register number with this bit is a constant

}  // namespace

/// Steps with a constant at the right, where dividing is shifting.
bool LaunchProgram::with_constant(const ExprPool& exprs, const ExprNode& n, Step& step) {
  const auto c = exprs.constant_value(n.rhs);
  if (!c) return false;
  step.value = *c;
  if (n.kind == ExprKind::Add)
    step.code = Code::AddConstant;
  else if (n.kind == ExprKind::Mul)
    step.code = Code::MulConstant;
  else if ((n.kind == ExprKind::FloorDiv || n.kind == ExprKind::CeilDiv) && *c > 0 &&
           std::has_single_bit(static_cast<std::uint64_t>(*c))) {
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
  std::uint16_t r = 0;
  if (n.kind == ExprKind::Const) {
    constants_.push_back(n.value);
    r = static_cast<std::uint16_t>(kConstant | (constants_.size() - 1));
  } else {
    Step step{Code::Binary, n.kind, n.bits, n.is_signed, 0, 0, 0};
    if (n.kind == ExprKind::Arg) {
      step.code = Code::Slot;
      step.a = static_cast<std::uint16_t>(n.value);
    } else {
      step.a = register_of(exprs, n.lhs);
      if (!with_constant(exprs, n, step)) step.b = register_of(exprs, n.rhs);
    }
    r = static_cast<std::uint16_t>(steps_.size());
    steps_.push_back(step);
  }
  register_.emplace(e.id, r);
  return r;
}

std::uint16_t LaunchProgram::test_of(const ConditionPool& pool, const ExprPool& exprs, std::uint32_t term) {
  if (const auto it = test_.find(term); it != test_.end()) return it->second;
  const Condition& c = pool.term(term);
  Test t{register_of(exprs, c.a), 0, 0, false};
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
  if (first_.size() > kMaxObligations) return false;
  const std::size_t steps = steps_.size(), tests = tests_.size(), wanted = wanted_.size();
  for (const std::uint32_t term : pool.terms(conditions)) wanted_.push_back(test_of(pool, exprs, term));
  if (steps_.size() > kMaxRegisters || tests_.size() > kMaxConditions || wanted_.size() > 0xFFFF) {
    steps_.resize(steps);
    tests_.resize(tests);
    wanted_.resize(wanted);
    std::erase_if(register_, [&](const auto& r) { return (r.second & kConstant) == 0 && r.second >= steps; });
    std::erase_if(test_, [&](const auto& t) { return t.second >= tests; });
    return false;
  }
  first_.push_back(static_cast<std::uint16_t>(wanted_.size()));
  return true;
}

std::uint64_t LaunchProgram::evaluate(std::span<const std::uint64_t> slots) const noexcept {
  std::array<Register, kMaxRegisters> registers;  // NOLINT: written before they are read
  std::array<bool, kMaxConditions> holds;         // NOLINT: likewise
  const auto read = [&](std::uint16_t r) -> Register {
    return (r & kConstant) != 0 ? Register{constants_[r & ~kConstant], true} : registers[r];
  };
  std::size_t next = 0;
  for (const Step& s : steps_) {
    Register out{0, false};
    if (s.code == Code::Slot) {
      if (s.a < slots.size()) out = {read_slot(slots[s.a], s.bits, s.is_signed), true};
    } else {
      const Register a = read(s.a);
      switch (s.code) {
        case Code::AddConstant: out.known = !__builtin_add_overflow(a.value, s.value, &out.value); break;
        case Code::MulConstant: out.known = !__builtin_mul_overflow(a.value, s.value, &out.value); break;
        case Code::ShiftDown: out = {a.value >> s.bits, true}; break;
        case Code::ShiftUp:
          out.known = !__builtin_add_overflow(a.value, s.value - 1, &out.value);
          out.value >>= s.bits;
          break;
        default: {
          const Register b = read(s.b);
          out.known = b.known && evaluate_step(s.kind, a.value, b.value, out.value);
          break;
        }
      }
      out.known = out.known && a.known;
    }
    registers[next++] = out;
  }
  for (std::size_t i = 0; i < tests_.size(); ++i) {
    const Test& t = tests_[i];
    const Register a = read(t.a);
    if (t.divisor == 0) {
      const Register b = read(t.b);
      holds[i] = a.known && b.known && a.value <= b.value;
    } else if (t.power_of_two) {
      holds[i] = a.known && (static_cast<std::uint64_t>(a.value) & (t.divisor - 1)) == 0;
    } else {
      const auto magnitude = static_cast<std::uint64_t>(a.value);
      holds[i] = a.known && (a.value < 0 ? std::uint64_t{0} - magnitude : magnitude) % t.divisor == 0;
    }
  }
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i + 1 < first_.size(); ++i) {
    bool all = true;
    for (std::size_t k = first_[i]; k < first_[i + 1]; ++k) all = all && holds[wanted_[k]];
    bits |= static_cast<std::uint64_t>(all) << i;
  }
  return bits;
}

}  // namespace tessera::analysis
