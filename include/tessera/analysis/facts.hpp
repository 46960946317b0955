// Facts about a kernel: claims about single operations and arguments, and the obligations (predicates over a launch's
// arguments) under which they hold. docs/compiler/facts.md and obligations.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/analysis/launch_contract.hpp"
#include "tessera/analysis/launch_question.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

inline constexpr int kMaxObligations = 64;
inline constexpr int kHoldsAlways = -1;  ///< instead of an obligation's number: the claim is unconditional

enum class ClaimKind : std::uint8_t {
#define TESSERA_CLAIM(kind, each_run, text) kind,
#include "tessera/analysis/claims.def"
};
/// A row of claims.def.
struct ClaimInfo {
  bool each_run;     ///< says what an operation does whenever it runs
  const char* text;  ///< "a condition that is decided"
};
/// The row of `kind`; of a number that is no kind, one that says so.
const ClaimInfo& info(ClaimKind kind) noexcept;

struct Claim {
  ClaimKind kind = ClaimKind::Condition;
  ir::Operation* op = nullptr;               ///< null for claims about arguments and the launch
  const ir::Operation* other = nullptr;      ///< Disjoint: the earlier access
  const LaunchQuestion* question = nullptr;  ///< OfLaunch: it belongs to the facts
  int index = 0;                             ///< result, operand, axis, argument or row
  bool truth = true;
  std::uint64_t divisor = 1;
  std::int64_t lower = 0, upper = 0;
  int obligation = kHoldsAlways;

  /// True if the claim may be used by a launch that holds these obligations.
  bool holds(std::uint64_t predicates) const {
    return obligation == kHoldsAlways || ((predicates >> static_cast<unsigned>(obligation)) & 1) != 0;
  }
};

struct Obligation {
  ObligationUse use = ObligationUse::Guard;
  std::string text;      ///< for people: "argument 2: dim(1) is a multiple of 1024"
  SourceLocation where;  ///< of the first operation that needs it; unknown for arguments
};

class LaunchProgram;
struct Certificate;

/// Evaluates which obligations hold in a launch. Immutable and cheap to copy; use from any thread.
class LaunchPredicates {
 public:
  LaunchPredicates();  ///< of no obligations
  explicit LaunchPredicates(std::shared_ptr<const LaunchProgram> program) noexcept;
  LaunchPredicates(const LaunchPredicates&) noexcept;
  LaunchPredicates& operator=(const LaunchPredicates&) noexcept;
  ~LaunchPredicates();

  /// Bit i: obligation i holds for these argument slots (one per entry argument, as a launch passes them). An
  /// expression that overflows 64 bits makes its obligations false. Neither allocates nor locks.
  std::uint64_t evaluate(std::span<const std::uint64_t> slots) const noexcept;
  /// The bits of argument slot `slot` that evaluate() depends on: launches that differ only in other bits fulfil
  /// the same obligations. For an address that must be a multiple of 16, these are the lowest four.
  std::uint64_t slot_mask(std::size_t slot) const noexcept;
  /// The bits of obligations that only refine (of the uses from Pieces on): they make code faster for rows of some
  /// lengths, for many small pieces, or for few pieces.
  std::uint64_t refinements() const noexcept;
  /// `predicates` without refinements. Code for it serves all launches that differ only in those.
  std::uint64_t common_part(std::uint64_t predicates) const noexcept { return predicates & ~refinements(); }

  /// Reads what bytes() of the same build has written. Empty if the bytes are anything else.
  std::vector<std::byte> bytes() const;
  static std::optional<LaunchPredicates> read(std::span<const std::byte> bytes);

 private:
  std::shared_ptr<const LaunchProgram> program_;
};

/// Claims and obligations of a module's only entry. The analysis is deterministic: a clone of the module gives the same
/// obligations under the same numbers, and claims about its own operations. Immutable; use from any thread. The claims
/// name operations of the module that was analysed, everything else lives on without it.
class Facts {
 public:
  /// `predicates`: what else the launch is asked, as rows; they stay alive. OfLaunch claims count them.
  static Facts analyze(const ir::Module& module, const LaunchContract& contract,
                       std::span<const LaunchPredicate> predicates = {});
  Facts(Facts&&) noexcept;
  Facts& operator=(Facts&&) noexcept;
  ~Facts();

  std::span<const Obligation> obligations() const noexcept;
  std::span<const Claim> claims() const noexcept;
  /// The same claims about the operations of `copy`, a clone of the module that was analysed: what analysing it again
  /// would give, for a fraction of the time.
  std::vector<Claim> claims_of(const ir::Module& copy) const;

  /// What the claims rest on, for tessera::certify::check. Operations are numbered, so it serves clones as well.
  const Certificate& certificate() const noexcept;
  const LaunchContract& contract() const noexcept;

  const LaunchPredicates& predicates() const noexcept;
  /// As LaunchPredicates::evaluate and slot_mask.
  std::uint64_t evaluate(std::span<const std::uint64_t> slots) const noexcept { return predicates().evaluate(slots); }
  std::uint64_t slot_mask(std::size_t slot) const noexcept { return predicates().slot_mask(slot); }

 private:
  struct Impl;
  explicit Facts(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace tessera::analysis
