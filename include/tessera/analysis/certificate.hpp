// The certificate of an analysis's claims, as data that a checker can verify without the analysis: bounds of the values
// that loops carry and branches yield, and the conditions of the obligations. docs/compiler/certificates.md.
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/analysis/expr.hpp"

namespace tessera::analysis {

/// One node of a launch expression. Operands are earlier nodes of the same certificate.
struct Term {
  ExprKind kind = ExprKind::Const;
  std::uint8_t bits = 64;  ///< Arg: how many low bits of the argument are read
  bool is_signed = true;   ///< Arg: how they are read
  std::int64_t value = 0;  ///< Const: the number; Arg: the entry argument
  std::uint32_t lhs = 0, rhs = 0;
};

/// lhs <= rhs, or `divisor` divides lhs. True only if every operation in it has a value (64 bits, divisors of at
/// least 1): that is how a launch evaluates it.
struct CertificateCondition {
  bool divides = false;
  std::uint32_t lhs = 0, rhs = 0;  ///< terms
  std::uint64_t divisor = 1;
};

/// A bound of one integer of the entry: argument `index` of the region of operation `op` (a loop), or result `index` of
/// `op`. It is claimed for launches in which all conditions of `when` hold. The bound of a result of an operation
/// without regions follows from those of its operands: a step of a proof that the checker may not find by itself.
struct Invariant {
  std::uint32_t op = 0;  ///< number of the operation in a walk of the entry, outer before inner
  std::uint32_t index = 0;
  bool of_region = false;
  bool is_upper = false;
  std::uint32_t bound = 0;          ///< term
  std::vector<std::uint32_t> when;  ///< conditions
};

struct Certificate {
  std::vector<Term> terms;
  std::vector<CertificateCondition> conditions;
  std::vector<std::vector<std::uint32_t>> obligations;  ///< conditions of each obligation, by its number
  std::vector<Invariant> invariants;
};

}  // namespace tessera::analysis
