// Building and running launch programs. The first run assumes that every step has a value and only notes if one has
// not. Only then a second run tracks for every register whether it has a value. Tests of registers without are false.
#include "analysis/launch_program.hpp"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "analysis/interval.hpp"

namespace tessera::analysis {
namespace {

/// Sets bit i for every i in [begin, end) that satisfies `test`, a word at a time.
template <std::size_t Words, class F>
void gather(std::array<std::uint64_t, Words>& bits, std::size_t begin, std::size_t end, F test) {
  while (begin < end) {
    const std::size_t word = begin / 64, stop = std::min(end, (word + 1) * 64);
    std::uint64_t found = 0;
    for (; begin < stop; ++begin) found |= std::uint64_t{test(begin)} << (begin % 64);
    bits[word] |= found;
  }
}

}  // namespace

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
    t.kind = std::has_single_bit(c.divisor) ? TestKind::Aligned : TestKind::Divides;
  } else {
    t.b = register_of(exprs, c.b);
  }
  tests_.push_back(t);
  return test_.emplace(term, static_cast<std::uint16_t>(tests_.size() - 1)).first->second;
}

/// The steps of the conditions that are new fit into the registers. An expression of n operations that does not fit is
/// looked at as far as there are registers.
bool LaunchProgram::has_room(const ConditionPool& pool, const ExprPool& exprs, Conditions conditions) const {
  std::unordered_set<std::uint32_t> fresh;
  std::vector<Expr> work;
  for (const std::uint32_t term : pool.terms(conditions)) {
    const Condition& c = pool.term(term);
    work.push_back(c.a);
    if (c.kind != ConditionKind::Divides) work.push_back(c.b);
  }
  while (!work.empty()) {
    const Expr e = work.back();
    work.pop_back();
    if (register_.contains(e.id) || !fresh.insert(e.id).second) continue;
    if (steps_.size() + fresh.size() > kMaxRegisters) return false;
    const ExprNode& n = exprs[e];
    if (n.kind == ExprKind::Const || n.kind == ExprKind::Arg) continue;
    work.push_back(n.lhs);
    if (Step step; !with_constant(exprs, n, step)) work.push_back(n.rhs);
  }
  return true;
}

bool LaunchProgram::add(const ConditionPool& pool, const ExprPool& exprs, Conditions conditions) {
  if (wanted_.size() == kMaxObligations || !has_room(pool, exprs, conditions)) return false;
  const std::size_t steps = steps_.size(), tests = tests_.size();
  TestBits bits{};
  for (const std::uint32_t term : pool.terms(conditions)) {
    const std::uint16_t t = test_of(pool, exprs, term);
    if (t < kMaxTests) bits[t / 64] |= std::uint64_t{1} << (t % 64);
  }
  if (tests_.size() > kMaxTests) {
    steps_.resize(steps);
    tests_.resize(tests);
    std::erase_if(register_, [&](const auto& r) { return r.second >= steps; });
    std::erase_if(test_, [&](const auto& t) { return t.second >= tests; });
    return false;
  }
  wanted_.push_back(bits);
  return true;
}

/// Which part of the sealed steps a step belongs to.
int LaunchProgram::place_of(const Step& s) noexcept {
  if (s.code == Code::Constant) return 0;
  if (s.code != Code::Slot) return 3;
  return s.bits == 64 ? 1 : 2;
}

/// Brings the steps into the order of the fields in the header; gives the new number of every register.
std::vector<std::uint16_t> LaunchProgram::sort_steps() {
  std::vector<std::uint16_t> number(steps_.size());
  std::vector<Step> sorted;
  for (int place = 0; place <= 3; ++place) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (place_of(steps_[i]) != place) continue;
      number[i] = static_cast<std::uint16_t>(sorted.size());
      sorted.push_back(steps_[i]);
    }
  }
  steps_ = std::move(sorted);
  return number;
}

/// What follows from the steps and tests once they are in order.
void LaunchProgram::find_ranges() {
  for (const Step& s : steps_) {
    const int place = place_of(s);
    if (place == 0) constants_.push_back(s.value);
    if (place == 1) wide_slots_.push_back(s.a);
    if (place < 3) ++narrow_end_;
    if (s.code == Code::Slot) slots_needed_ = std::max<std::size_t>(slots_needed_, std::size_t{s.a} + 1);
  }
  for (const Test& t : tests_) {
    if (t.kind == TestKind::LessEqual) ++less_equal_;
    if (t.kind != TestKind::Divides) ++aligned_;
  }
}

void LaunchProgram::seal() {
  const std::vector<std::uint16_t> number = sort_steps();
  for (Step& s : steps_) {
    if (s.code == Code::Slot || s.code == Code::Constant) continue;
    s.a = number[s.a];
    s.b = number[s.b];
  }
  std::vector<std::uint16_t> place(tests_.size());
  std::vector<Test> sorted;
  for (const TestKind kind : {TestKind::LessEqual, TestKind::Aligned, TestKind::Divides}) {
    for (std::size_t i = 0; i < tests_.size(); ++i) {
      if (tests_[i].kind != kind) continue;
      place[i] = static_cast<std::uint16_t>(sorted.size());
      sorted.push_back({kind, number[tests_[i].a], number[tests_[i].b], tests_[i].divisor});
    }
  }
  tests_ = std::move(sorted);
  for (TestBits& bits : wanted_) {
    TestBits moved{};
    for (std::size_t i = 0; i < place.size(); ++i) {
      if ((bits[i / 64] >> (i % 64) & 1) != 0) moved[place[i] / 64] |= std::uint64_t{1} << (place[i] % 64);
    }
    bits = moved;
  }
  find_ranges();
  register_.clear();
  test_.clear();
}

std::uint64_t LaunchProgram::refinements() const noexcept {
  std::uint64_t bits = 0;
  for (std::size_t i = refinements_from_; i < refinements_to_; ++i) bits |= std::uint64_t{1} << i;
  return bits;
}

std::uint64_t LaunchProgram::slot_mask(std::size_t slot) const noexcept {
  std::uint64_t mask = 0;
  for (std::size_t r = 0; r < steps_.size(); ++r) {
    if (steps_[r].code != Code::Slot || steps_[r].a != slot) continue;
    for (std::size_t i = narrow_end_; i < steps_.size(); ++i) {
      if (steps_[i].a == r || (steps_[i].code == Code::Other && steps_[i].b == r)) return ~std::uint64_t{0};
    }
    for (const Test& t : tests_) {
      if (t.kind == TestKind::Aligned && t.a == r) mask |= t.divisor - 1;
      if (t.kind != TestKind::Aligned && (t.a == r || (t.kind == TestKind::LessEqual && t.b == r)))
        return ~std::uint64_t{0};
    }
  }
  return mask;
}

/// Computes all registers. False if a step gave no number; with `Tracked`, `known` says which.
template <bool Tracked>
bool LaunchProgram::run(std::span<const std::uint64_t> slots, std::int64_t* registers, bool* known) const noexcept {
  std::int64_t* next = std::copy(constants_.begin(), constants_.end(), registers);
  for (const std::uint16_t slot : wide_slots_) *next++ = static_cast<std::int64_t>(slots[slot]);
  const std::size_t first = static_cast<std::size_t>(next - registers);
  for (std::size_t i = first; i < narrow_end_; ++i)
    registers[i] = read_slot(slots[steps_[i].a], steps_[i].bits, steps_[i].is_signed);
  if constexpr (Tracked) std::fill(known, known + narrow_end_, true);
  bool failed = false;
  for (std::size_t i = narrow_end_; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    const std::int64_t a = registers[s.a];
    std::int64_t out = 0;
    bool ok = true;
    switch (s.code) {
      case Code::AddConstant: ok = !__builtin_add_overflow(a, s.value, &out); break;
      case Code::MulConstant: ok = !__builtin_mul_overflow(a, s.value, &out); break;
      case Code::ShiftDown: out = a >> s.bits; break;
      case Code::ShiftUp:
        ok = !__builtin_add_overflow(a, s.value - 1, &out);
        out >>= s.bits;
        break;
      default: ok = evaluate_step(s.kind, a, registers[s.b], out); break;
    }
    if constexpr (Tracked) known[i] = ok && known[s.a] && (s.code != Code::Other || known[s.b]);
    failed |= !ok;
    registers[i] = out;
  }
  return !failed;
}

bool LaunchProgram::holds(const Test& t, const std::int64_t* registers) noexcept {
  const std::int64_t a = registers[t.a];
  const auto bits = static_cast<std::uint64_t>(a);
  switch (t.kind) {
    case TestKind::LessEqual: return a <= registers[t.b];
    case TestKind::Aligned: return (bits & (t.divisor - 1)) == 0;
    case TestKind::Divides: return (a < 0 ? std::uint64_t{0} - bits : bits) % t.divisor == 0;
  }
  return false;
}

std::uint64_t LaunchProgram::evaluate(std::span<const std::uint64_t> slots) const noexcept {
  if (slots.size() < slots_needed_) return 0;
  std::array<std::int64_t, kMaxRegisters> registers;  // NOLINT: each is written before it is read
  TestBits tests{};
  const std::int64_t* r = registers.data();
  if (run<false>(slots, registers.data(), nullptr)) [[likely]] {
    const Test* t = tests_.data();
    gather(tests, 0, less_equal_, [&](std::size_t i) { return r[t[i].a] <= r[t[i].b]; });
    gather(tests, less_equal_, aligned_,
           [&](std::size_t i) { return (static_cast<std::uint64_t>(r[t[i].a]) & (t[i].divisor - 1)) == 0; });
    gather(tests, aligned_, tests_.size(), [&](std::size_t i) { return holds(t[i], r); });
  } else {
    std::array<bool, kMaxRegisters> known;  // NOLINT: likewise
    run<true>(slots, registers.data(), known.data());
    gather(tests, 0, tests_.size(), [&](std::size_t i) {
      const Test& t = tests_[i];
      return known[t.a] && (t.kind != TestKind::LessEqual || known[t.b]) && holds(t, r);
    });
  }
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const TestBits& w = wanted_[i];
    const std::uint64_t missing = (w[0] & ~tests[0]) | (w[1] & ~tests[1]) | (w[2] & ~tests[2]);
    bits |= std::uint64_t{missing == 0} << i;
  }
  return bits;
}

}  // namespace tessera::analysis
