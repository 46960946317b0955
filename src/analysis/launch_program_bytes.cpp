// Sealed launch programs as bytes. What is read is checked for everything that evaluate() takes for granted, so that no
// file can make a launch read or write where it must not.
#include <algorithm>

#include "analysis/launch_program.hpp"

namespace tessera::analysis {

void LaunchProgram::write(BytesOut& out) const {
  out.number(static_cast<std::uint32_t>(steps_.size()));
  for (const Step& s : steps_) {
    out.number(static_cast<std::uint8_t>(s.code));
    out.number(static_cast<std::uint8_t>(s.kind));
    out.number(s.bits);
    out.number(static_cast<std::uint8_t>(s.is_signed));
    out.number(s.a);
    out.number(s.b);
    out.number(s.value);
  }
  out.number(static_cast<std::uint32_t>(tests_.size()));
  for (const Test& t : tests_) {
    out.number(static_cast<std::uint8_t>(t.kind));
    out.number(t.a);
    out.number(t.b);
    out.number(t.divisor);
  }
  out.number(static_cast<std::uint32_t>(wanted_.size()));
  for (const TestBits& bits : wanted_) {
    for (const std::uint64_t word : bits) out.number(word);
  }
  out.number(static_cast<std::uint32_t>(refinements_from_));
  out.number(static_cast<std::uint32_t>(refinements_to_));
}

std::optional<LaunchProgram> LaunchProgram::read(BytesIn& in) {
  LaunchProgram p;
  p.steps_.resize(std::min<std::size_t>(in.number<std::uint32_t>(), kMaxRegisters + 1));
  for (Step& s : p.steps_) {
    s.code = static_cast<Code>(in.number<std::uint8_t>());
    s.kind = static_cast<ExprKind>(in.number<std::uint8_t>());
    s.bits = in.number<std::uint8_t>();
    s.is_signed = in.number<std::uint8_t>() != 0;
    s.a = in.number<std::uint16_t>();
    s.b = in.number<std::uint16_t>();
    s.value = in.number<std::int64_t>();
  }
  p.tests_.resize(std::min<std::size_t>(in.number<std::uint32_t>(), kMaxTests + 1));
  for (Test& t : p.tests_) {
    t.kind = static_cast<TestKind>(in.number<std::uint8_t>());
    t.a = in.number<std::uint16_t>();
    t.b = in.number<std::uint16_t>();
    t.divisor = in.number<std::uint64_t>();
  }
  p.wanted_.resize(std::min<std::size_t>(in.number<std::uint32_t>(), kMaxObligations + 1));
  for (TestBits& bits : p.wanted_) {
    for (std::uint64_t& word : bits) word = in.number<std::uint64_t>();
  }
  p.refinements_from_ = in.number<std::uint32_t>();
  p.refinements_to_ = in.number<std::uint32_t>();
  if (!in.good() || !p.can_run()) return std::nullopt;
  p.find_ranges();
  return p;
}

/// Sizes within the limits, known codes, registers that are written before they are read, and the order of seal().
bool LaunchProgram::can_run() const noexcept {
  if (steps_.size() > kMaxRegisters || tests_.size() > kMaxTests || wanted_.size() > kMaxObligations) return false;
  if (refinements_to_ > wanted_.size()) return false;
  int place = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    if (s.code > Code::Other || s.kind > ExprKind::Max || place_of(s) < place) return false;
    place = place_of(s);
    const bool shifts = s.code == Code::ShiftDown || s.code == Code::ShiftUp;
    if (s.bits > (shifts ? 62 : 64) || (s.code == Code::Slot && s.bits == 0)) return false;
    if (shifts && s.value != std::int64_t{1} << s.bits) return false;  // rounding up adds value - 1
    if (place == 3 && (s.a >= i || (s.code == Code::Other && s.b >= i))) return false;
  }
  TestKind kind = TestKind::LessEqual;
  for (const Test& t : tests_) {
    if (t.kind > TestKind::Divides || t.kind < kind || t.divisor == 0) return false;
    if (t.a >= steps_.size() || t.b >= steps_.size()) return false;
    kind = t.kind;
  }
  return true;
}

}  // namespace tessera::analysis
