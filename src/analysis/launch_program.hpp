// Obligations compiled to a straight line of steps over the launch's argument slots. Private to the layer.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/analysis/condition.hpp"
#include "tessera/base/bytes.hpp"

namespace tessera::analysis {

/// Every expression is computed once, however many obligations use it. Built by add() and then seal(); evaluating
/// neither allocates nor throws.
class LaunchProgram {
 public:
  static constexpr std::size_t kMaxRegisters = 384;  ///< on evaluate()'s stack
  static constexpr std::size_t kMaxTests = 192;
  static constexpr std::size_t kMaxObligations = 64;

  /// Adds the conjunction as the next obligation. False if it does not fit.
  bool add(const ConditionPool& pool, const ExprPool& exprs, Conditions conditions);
  /// What is added between these only refines: see LaunchPredicates::refinements().
  void begin_refinements() noexcept { refinements_from_ = wanted_.size(); }
  void end_refinements() noexcept { refinements_to_ = wanted_.size(); }
  /// Ends building: sorts the steps by kind, so that evaluation needs no branches.
  void seal();

  /// Bit i: obligation i holds.
  std::uint64_t evaluate(std::span<const std::uint64_t> slots) const noexcept;
  /// The bits of a slot that the result depends on: of an address only those below its largest divisor.
  std::uint64_t slot_mask(std::size_t slot) const noexcept;
  /// The bits of the obligations added between begin_refinements() and end_refinements().
  std::uint64_t refinements() const noexcept;

  /// A sealed program as bytes, and back; empty if they are not those of a program that can be run.
  void write(BytesOut& out) const;
  static std::optional<LaunchProgram> read(BytesIn& in);

 private:
  enum class Code : std::uint8_t { Constant, Slot, AddConstant, MulConstant, ShiftDown, ShiftUp, Other };
  enum class TestKind : std::uint8_t { LessEqual, Aligned, Divides };
  struct Step {
    Code code = Code::Other;
    ExprKind kind = ExprKind::Add;  // Other
    std::uint8_t bits = 64;         // Slot: the width; ShiftDown and ShiftUp: the shift
    bool is_signed = true;          // Slot
    std::uint16_t a = 0, b = 0;     // registers; Slot: a is the argument
    std::int64_t value = 0;         // the constant
  };
  struct Test {
    TestKind kind = TestKind::LessEqual;
    std::uint16_t a = 0, b = 0;  // registers
    std::uint64_t divisor = 1;   // Aligned: a power of two
  };
  using TestBits = std::array<std::uint64_t, kMaxTests / 64>;
  std::uint16_t register_of(const ExprPool& exprs, Expr e);
  bool has_room(const ConditionPool& pool, const ExprPool& exprs, Conditions conditions) const;
  static bool with_constant(const ExprPool& exprs, const ExprNode& n, Step& step);
  std::uint16_t test_of(const ConditionPool& pool, const ExprPool& exprs, std::uint32_t term);
  std::vector<std::uint16_t> sort_steps();
  static int place_of(const Step& step) noexcept;
  void find_ranges();
  bool can_run() const noexcept;
  template <bool Tracked>
  bool run(std::span<const std::uint64_t> slots, std::int64_t* registers, bool* known) const noexcept;
  static bool holds(const Test& t, const std::int64_t* registers) noexcept;

  // In the order of their registers (sealed): constants, slots of 64 bits, narrower slots, everything else.
  std::vector<Step> steps_;
  std::vector<std::int64_t> constants_;
  std::vector<std::uint16_t> wide_slots_;
  std::size_t narrow_end_ = 0;    ///< first step that computes
  std::size_t slots_needed_ = 0;  ///< a launch with fewer holds nothing
  // By kind (sealed), less_equal_ first, then aligned_.
  std::vector<Test> tests_;
  std::size_t less_equal_ = 0, aligned_ = 0;
  std::vector<TestBits> wanted_;                               // by obligation
  std::size_t refinements_from_ = 0, refinements_to_ = 0;      // the obligations that only refine
  std::unordered_map<std::uint32_t, std::uint16_t> register_;  // of an expression, while building
  std::unordered_map<std::uint32_t, std::uint16_t> test_;      // of a condition, while building
};

}  // namespace tessera::analysis
