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
#include "tessera/base/source_location.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

inline constexpr int kMaxObligations = 64;
inline constexpr int kHoldsAlways = -1;  ///< instead of an obligation's number: the claim is unconditional

enum class ClaimKind : std::uint8_t {
  Condition,     ///< result `index` of `op` (i1, a scalar or a tile) is `truth` in every element, whenever `op` runs
  Inbounds,      ///< `op`, a load or store through a tiled view, never leaves the tensor along axis `index` of its tile
  ArgDivisible,  ///< entry argument `index` (an address in bytes, otherwise the number) is a multiple of `divisor`
  ArgBounded,    ///< entry argument `index` lies in [lower, upper]
  DivisorIsOne,  ///< `op`, a division or remainder of integers, divides by 1 whenever it runs
  /// `op`, a `for`, has a step of at least 1, and in each of its iterations the sum of the induction variable and the
  /// step fits their type, all read as signed. So the loop also ends if its variable is computed by additions that
  /// wrap.
  StepFits,
  /// `op` compares, as unsigned, the positions start, start + 1, ..., start + n - 1 along an axis with the extent of a
  /// tensor (n is 1 for a scalar): start is a multiple of n, at least 0 and below the extent, read as signed. So the
  /// positions are those of tile start / n of the axis, which is cut into tiles of n.
  StartsTile,
  ManyPieces,  ///< the launch has at least `lower` pieces (LaunchContract::pieces_of_tensor, blocks_arg); about no
               ///< operation
  FewPieces,   ///< the launch has at most `upper` pieces; about no operation
  /// The launch's pieces can be numbered by a grid of several axes: along no axis are there more than
  /// kMostBlocksAlongYOrZ, and along all but the last two together neither. About no operation.
  GridFits,
  // The kinds below are claimed by passes, about a kernel that other passes have changed (passes::Certifier).
  /// Operand 1 of `op`, a division or remainder of integers, is the launch's number of pieces along axis `index`.
  CountsPieces,
  AtLeast,  ///< operand `index` of `op`, an integer, is at least `lower` in every element, read as signed
  AtMost,   ///< operand `index` of `op`, an integer, is at most `upper` in every element, read as signed
  // Of accesses through partition views of one tensor: each pair of tiles lies on one line of the
  // tensor, at different places, so that they share no element even where the tensor overlaps itself.
  Disjoint,           ///< `op` and `other`, earlier in the same block, whenever both run there
  DisjointIterations  ///< `op`, in the body of a `for`, and itself in every other iteration of that loop
};

struct Claim {
  ClaimKind kind = ClaimKind::Condition;
  ir::Operation* op = nullptr;           ///< null for claims about arguments and the launch
  const ir::Operation* other = nullptr;  ///< Disjoint: the earlier access
  int index = 0;                         ///< result, operand, axis or argument
  bool truth = true;
  std::uint64_t divisor = 1;
  std::int64_t lower = 0, upper = 0;
  int obligation = kHoldsAlways;

  /// True if the claim may be used by a launch that holds these obligations.
  bool holds(std::uint64_t held) const {
    return obligation == kHoldsAlways || ((held >> static_cast<unsigned>(obligation)) & 1) != 0;
  }
};

/// What an obligation enables; the most valuable come first. Those from Pieces on only refine; of Mask there are many
/// for each row.
enum class ObligationUse : std::uint8_t {
  Guard,
  Inbounds,
  Divisibility,
  Division,
  Vectors,
  Pieces,
  Copies,
  Waves,
  Mask
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
  /// `held` without refinements. Code for it serves all launches that differ only in those.
  std::uint64_t common_part(std::uint64_t held) const noexcept { return held & ~refinements(); }

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
  static Facts analyze(const ir::Module& module, const LaunchContract& contract);
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
