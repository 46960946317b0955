// Claims as assertions: what the analysis says of a condition is asked where it says so.
#pragma once
#include <string>

#include "tessera/analysis/facts.hpp"

namespace tessera::generate {

/// i1: the divisor of `op` is 1.
inline ir::Value divides_by_one(ir::Builder& b, const ir::Operation& op) {
  const ir::Value by = op.operand(1), one = b.constant_int(by.type().elem(), 1, by.type().shape());
  return b
      .create(ir::Op::CmpI, {by, one}, {by.type().with_element(ir::Elem::I1)},
              {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
               {ir::AttrName::signedness, ir::Signedness::Signed}})
      ->result();
}

/// Asserts in `copy`, a clone of the module that was analysed, every claim about a condition or a divisor that holds.
/// Returns how many there were.
inline int assert_claims(const ir::Module& copy, const analysis::Facts& facts, std::uint64_t held) {
  using analysis::ClaimKind;
  int n = 0;
  for (const analysis::Claim& c : facts.claims_of(copy)) {
    if ((c.kind != ClaimKind::Condition && c.kind != ClaimKind::DivisorIsOne) || !c.holds(held)) continue;
    ir::Operation* op = c.op;
    ir::Builder b = op->next() ? ir::Builder::before(op->next()) : ir::Builder(*op->block());
    ir::Value v =
        c.kind == ClaimKind::DivisorIsOne ? divides_by_one(b, *op) : op->result(static_cast<std::size_t>(c.index));
    if (!c.truth) {
      const ir::Value one = b.constant_int(ir::Elem::I1, 1, v.type().shape());
      v = b.create(ir::Op::XOrI, {v, one}, {v.type()})->result();
    }
    b.create(ir::Op::Assert, {v}, {}, {{ir::AttrName::message, std::string("a claim")}});
    ++n;
  }
  return n;
}

}  // namespace tessera::generate
