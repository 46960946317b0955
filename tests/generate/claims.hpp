// Claims as assertions: what the analysis claims about a condition is asserted at its location.
#pragma once
#include <string>

#include "tessera/analysis/facts.hpp"

namespace tessera::generate {

/// i1: the divisor of `op` is `n`, a number of its type.
inline ir::Value divides_by(ir::Builder& b, const ir::Operation& op, std::int64_t n) {
  const ir::Value by = op.operand(1), number = b.constant_int(by.type().elem(), n, by.type().shape());
  return b
      .create(ir::Op::CmpI, {by, number}, {by.type().with_element(ir::Elem::I1)},
              {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
               {ir::AttrName::signedness, ir::Signedness::Signed}})
      ->result();
}

/// i1, in the loop: the sum of its induction variable and its step, a number of at least 1, does not wrap.
inline ir::Value step_fits(ir::Builder& b, const ir::Operation& loop) {
  const ir::Value i = loop.region(0).arg(0), step = loop.operand(2);
  const auto more = [&](ir::Value x, ir::Value y) {
    return b
        .create(ir::Op::CmpI, {x, y}, {x.type().with_element(ir::Elem::I1)},
                {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Greater},
                 {ir::AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  };
  const ir::Value next = b.create(ir::Op::AddI, {i, step}, {i.type()})->result();
  const ir::Value rises = more(next, i), positive = more(step, b.constant_int(step.type().elem(), 0));
  return b.create(ir::Op::AndI, {rises, positive}, {rises.type()})->result();
}

/// Asserts in `copy`, a clone of the module that was analysed, every claim about a condition, a divisor or a loop that
/// holds. Returns their number.
inline int assert_claims(const ir::Module& copy, const analysis::Facts& facts, std::uint64_t held) {
  using analysis::ClaimKind;
  int n = 0;
  for (const analysis::Claim& c : facts.claims_of(copy)) {
    const bool loop = c.kind == ClaimKind::StepFits, divisor = c.kind == ClaimKind::DivisorIsOne;
    if ((c.kind != ClaimKind::Condition && !divisor && !loop) || !c.holds(held)) continue;
    ir::Operation* op = c.op;
    ir::Operation* next = loop ? op->region(0).front() : op->next();
    ir::Builder b = next ? ir::Builder::before(next) : ir::Builder(*op->block());
    ir::Value v = loop      ? step_fits(b, *op)
                  : divisor ? divides_by(b, *op, 1)
                            : op->result(static_cast<std::size_t>(c.index));
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
