// Obligations compiled to a straight line of steps over the launch's argument slots. Private to the layer.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/condition.hpp"

namespace tessera::analysis {

/// Every expression is computed once, however many obligations use it. Evaluating neither allocates nor throws.
class LaunchProgram {
 public:
  static constexpr std::size_t kMaxRegisters = 384;  ///< on evaluate()'s stack
  static constexpr std::size_t kMaxTests = 128;
  static constexpr std::size_t kMaxObligations = 64;

  /// Adds the conjunction as the next obligation. False if it does not fit.
  bool add(const ConditionPool& pool, const ExprPool& exprs, Conditions conditions);

  /// Bit i: obligation i holds.
  std::uint64_t evaluate(std::span<const std::uint64_t> slots) const noexcept;

 private:
  enum class Code : std::uint8_t { Constant, Slot, AddConstant, MulConstant, ShiftDown, ShiftUp, Other };
  struct Step {  // its result is the register of its own number
    Code code = Code::Other;
    ExprKind kind = ExprKind::Add;  // Other
    std::uint8_t bits = 64;         // Slot: the width; ShiftDown and ShiftUp: the shift
    bool is_signed = true;          // Slot
    std::uint16_t a = 0, b = 0;     // registers; Slot: a is the argument
    std::int64_t value = 0;         // the constant
  };
  struct Test {
    std::uint16_t a = 0, b = 0;  // registers
    std::uint64_t divisor = 0;   // 0: a <= b
    bool power_of_two = false;
  };
  using TestBits = std::array<std::uint64_t, kMaxTests / 64>;
  std::uint16_t register_of(const ExprPool& exprs, Expr e);
  static bool with_constant(const ExprPool& exprs, const ExprNode& n, Step& step);
  std::uint16_t test_of(const ConditionPool& pool, const ExprPool& exprs, std::uint32_t term);
  template <bool Tracked>
  bool run(std::span<const std::uint64_t> slots, std::int64_t* registers, bool* known) const noexcept;
  bool holds(const Test& t, const std::int64_t* registers) const noexcept;

  std::vector<Step> steps_;
  std::vector<Test> tests_;
  std::vector<TestBits> wanted_;                               // by obligation
  std::unordered_map<std::uint32_t, std::uint16_t> register_;  // of an expression
  std::unordered_map<std::uint32_t, std::uint16_t> test_;      // of a condition
};

}  // namespace tessera::analysis
