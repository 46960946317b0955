// Obligations compiled to a straight line of steps over the launch's argument slots. Private to the layer.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/condition.hpp"

namespace tessera::analysis {

/// Every expression is computed once, however many obligations use it. Evaluating neither allocates nor throws.
class LaunchProgram {
 public:
  static constexpr std::size_t kMaxRegisters = 384;  ///< on evaluate()'s stack, 16 bytes each
  static constexpr std::size_t kMaxConditions = 192;
  static constexpr std::size_t kMaxObligations = 64;

  /// Adds the conjunction as the next obligation. False (and nothing is added) if it does not fit.
  bool add(const ConditionPool& pool, const ExprPool& exprs, Conditions conditions);

  /// Bit i: obligation i holds.
  std::uint64_t evaluate(std::span<const std::uint64_t> slots) const noexcept;
  std::size_t num_steps() const { return steps_.size(); }

 private:
  enum class Code : std::uint8_t { Binary, Slot, AddConstant, MulConstant, ShiftDown, ShiftUp };
  struct Step {
    Code code = Code::Binary;
    ExprKind kind = ExprKind::Add;  // Binary
    std::uint8_t bits = 64;         // Slot; ShiftDown and ShiftUp: the shift
    bool is_signed = true;          // Slot
    std::uint16_t a = 0, b = 0;     // registers; Slot: a is the argument
    std::int64_t value = 0;         // the constant
  };
  struct Test {
    std::uint16_t a, b;     // registers
    std::uint64_t divisor;  // 0: a <= b
    bool power_of_two;
  };
  std::uint16_t register_of(const ExprPool& exprs, Expr e);
  static bool with_constant(const ExprPool& exprs, const ExprNode& n, Step& step);
  std::uint16_t test_of(const ConditionPool& pool, const ExprPool& exprs, std::uint32_t term);

  std::vector<std::int64_t> constants_;
  std::vector<Step> steps_;  // one register each
  std::vector<Test> tests_;
  std::vector<std::uint16_t> wanted_;    // tests, obligation by obligation
  std::vector<std::uint16_t> first_{0};  // into wanted_
  std::unordered_map<std::uint32_t, std::uint16_t> register_;
  std::unordered_map<std::uint32_t, std::uint16_t> test_;
};

}  // namespace tessera::analysis
