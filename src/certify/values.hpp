// The integers of a kernel as polynomials: what every operation computes, where it is shown not to wrap. Private to the
// layer.
#pragma once
#include <deque>
#include <memory_resource>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "certify/prover.hpp"
#include "tessera/analysis/certificate.hpp"
#include "tessera/analysis/launch_contract.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::certify {

bool is_integer(ir::Type type);  ///< an integer of more than one bit, or a tile of them
int bits_of(ir::Type type);
Range integers(int bits);  ///< what a signed reading of so many bits can be

/// Scopes follow the regions of the kernel: what is known in a scope holds at every operation in it and inside of it.
/// A value is one polynomial, of its signed reading; of a tile, that of an arbitrary element. A value whose arithmetic
/// may wrap, as far as the scope of the query can prove, is an unknown integer of its type; an inner scope, which
/// knows more, examines it again.
class Values {
 public:
  /// `met`: for each condition of the certificate, whether launches meet it.
  Values(const ir::Function& entry, const analysis::LaunchContract& contract, const analysis::Certificate& certificate,
         const std::vector<bool>& met, Prover::Effort effort);

  Prover& prover() { return prover_; }
  /// How many pieces the launch has; bad if the contract says nothing.
  const Poly& pieces() const { return pieces_; }
  /// How many it has along each axis; empty if the contract says nothing, or if one number for the blocks does not do.
  const std::vector<Poly>& pieces_along() const { return pieces_along_; }
  void open();
  void close();

  PolyView of(ir::Value v);
  Poly extent(ir::Value tensor_view, std::size_t axis);
  /// A launch expression of the certificate; bad where a divisor is not shown to be at least 1.
  Poly term(std::uint32_t number);
  /// Entry argument `number`, of which a launch reads so many bits.
  Poly argument(std::size_t number, int bits, bool is_signed);
  /// Takes as true what the branch condition says in the arm of `truth`.
  void assume(ir::Value condition, bool truth);
  bool proves(ir::Value condition, bool truth);
  /// Takes p >= 0 as true, and notes if the opposite follows: a branch or loop whose body never runs.
  void suppose(const PolyView& p);

 private:
  static constexpr std::size_t kMemory = 64 << 10;  ///< bytes that a kernel of ordinary size needs
  static constexpr int kDeepest = 200;              ///< operands of operands that are followed: the stack is finite
  struct Derived {
    Poly poly;
    bool weak = false;  ///< something in it could not be shown: an inner scope may find more
  };
  struct Known {
    PolyView poly;
    bool weak = false;
    std::size_t facts = 0;                             ///< how many facts there were
    operator Derived() const { return {poly, weak}; }  // NOLINT: of another value, the same
  };
  struct Scope {
    std::size_t facts = 0, values = 0, terms = 0;  ///< how many there were
  };
  /// What a scope has found out of a value.
  struct Found {
    ir::Value value;
    std::size_t outer;  ///< number + 1 of what the scopes around it had found out; 0: nothing
    Known known;
  };
  /// A launch expression; one that is bad is so as long as there are no other facts.
  struct KnownTerm {
    PolyView poly;
    std::size_t facts = 0;  ///< how many there were
    bool is_known = false;
  };
  /// What was known of a launch expression before a scope found it.
  struct FoundTerm {
    std::uint32_t number;
    KnownTerm before;
  };
  /// Whether conditions are proven, by their values and what is asked of them: one is an operand of many others.
  using Answers = std::unordered_map<std::uintptr_t, bool>;

  // values.cpp
  void assume(const analysis::CertificateCondition& condition);
  void assume_divisors(std::uint32_t number, int depth = 0);
  Poly term_anew(std::uint32_t number);
  void identify_arguments();
  void take_dimensions();
  void count_pieces();
  Known known(ir::Value v);
  Known keep(ir::Value v, const Known& k);
  void forget(std::size_t size);
  bool may_be_better(ir::Value v, std::size_t facts);
  Poly unknown(ir::Value v);
  Poly renamed(const PolyView& p);
  bool fits(const PolyView& p, int bits);
  bool forget_weak();
  bool proves(ir::Value condition, bool truth, Answers& known, int depth);
  bool compares(const ir::Operation& compare, bool truth);
  void assume_compare(const ir::Operation& compare, bool truth);

  // operations.cpp
  Derived derive(ir::Value v);
  Derived derive_arithmetic(const ir::Operation& op, const Known& a, const Known& b);
  Derived wrapped(const ir::Operation& op, Poly exact, bool weak);
  Derived division(const ir::Operation& op, const Known& a, const Known& b);
  Derived remainder(const ir::Operation& op, const Known& a, const Known& b);
  Derived extreme(const ir::Operation& op, const Known& a, const Known& b);
  Derived shifted(const ir::Operation& op, const Known& a, const Known& b);
  Derived masked(const ir::Operation& op, const Known& a, const Known& b);
  Derived resized(const ir::Operation& op);
  Derived assumed(const ir::Operation& op);
  Derived number_of_tiles(ir::Value v, ir::Value view);
  Derived wrapped_extent(ir::Value v, Poly exact);
  Derived absolute(const ir::Operation& op, const Known& a);
  Poly constant(const ir::Operation& op);
  Poly block_number(const ir::Operation& op, std::size_t axis);
  /// An unknown value of its type in [lo, hi], where those are given.
  Derived within(ir::Value v, const PolyView* lo, const PolyView* hi);

  const analysis::LaunchContract* contract_;
  const analysis::Certificate* certificate_;
  Prover::Effort effort_;  ///< for finding out whether arithmetic wraps
  /// Of everything below, which grows and is dropped as a whole: thousands of small pieces.
  alignas(std::max_align_t) std::byte first_[kMemory];
  std::pmr::monotonic_buffer_resource memory_{first_, kMemory};
  Prover prover_{effort_, &memory_};
  std::vector<Scope> scopes_;
  std::pmr::deque<Found> found_{&memory_};                                          ///< in the order of scopes
  std::pmr::unordered_map<const ir::ValueImpl*, std::size_t> innermost_{&memory_};  ///< number + 1 in found_; 0: none
  std::pmr::unordered_map<const ir::ValueImpl*, Atom> unknown_{&memory_};
  std::pmr::unordered_map<std::uint64_t, Atom> arguments_{&memory_};
  std::vector<std::size_t> same_as_;  ///< of each entry argument: the lowest that is equal in every launch
  const ir::Block* entry_;
  std::pmr::vector<KnownTerm> terms_;   ///< launch expressions, as the present scope knows them
  std::vector<FoundTerm> found_terms_;  ///< in the order of scopes
  int depth_ = 0;                       ///< of the operands that are followed at present
  std::vector<bool> divisors_assumed_;  ///< of launch expressions
  std::vector<Poly> pieces_along_;      ///< along each axis
  Poly pieces_;                         ///< how many the launch has; bad if the contract says nothing
};

}  // namespace tessera::certify
