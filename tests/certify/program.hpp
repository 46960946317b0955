// Small kernels with branches and loops, and single claims about them, for the tests of the checker.
#pragma once
#include "certify/support.hpp"
#include "passes/pass_support.hpp"

namespace tessera::test {

/// A kernel whose regions are written in place.
struct Program : Kernel {
  using Value = ir::Value;

  Value divide(Value x, Value y, ir::Rounding rounding = ir::Rounding::Zero,
               ir::Signedness sign = ir::Signedness::Signed) {
    return op(ir::Op::DivI, {x, y}, x.type(), {{ir::AttrName::signedness, sign}, {ir::AttrName::rounding, rounding}});
  }
  Value with_sign(ir::Op o, Value x, Value y, ir::Signedness sign = ir::Signedness::Signed) {
    return op(o, {x, y}, x.type(), {{ir::AttrName::signedness, sign}});
  }
  Value compare(Value x, ir::ComparisonPredicate p, Value y, ir::Signedness sign = ir::Signedness::Signed) {
    return op(ir::Op::CmpI, {x, y}, x.type().with_element(ir::Elem::I1),
              {{ir::AttrName::comparison_predicate, p}, {ir::AttrName::signedness, sign}});
  }
  Value number_of_blocks() {
    const ir::Type t = ir::Type::tile(ir::Elem::I32);
    return b.create(ir::Op::GetNumTileBlocks, {}, {t, t, t})->result(0);
  }
  Value number_of_block() {
    const ir::Type t = ir::Type::tile(ir::Elem::I32);
    return b.create(ir::Op::GetTileBlockId, {}, {t, t, t})->result(0);
  }
  void inside(ir::Block& region, auto&& body) {
    const ir::Builder outside = b;
    b = ir::Builder(region);
    body();
    b = outside;
  }
  ir::Operation* branch(Value condition, auto&& then, auto&& otherwise) {
    ir::Operation* made = b.create(ir::Op::If, {condition}, {});
    inside(made->add_region(), [&] { then(), b.create(ir::Op::Yield, {}, {}); });
    inside(made->add_region(), [&] { otherwise(), b.create(ir::Op::Yield, {}, {}); });
    return made;
  }
  ir::Operation* branch(Value condition, auto&& then) {
    return branch(condition, then, [] {});
  }
  /// `body` takes the induction variable.
  ir::Operation* loop(Value lower, Value upper, Value step, auto&& body) {
    ir::Operation* made = b.create(ir::Op::For, {lower, upper, step}, {});
    ir::Block& region = made->add_region();
    const Value i = region.add_arg(lower.type());
    inside(region, [&] { body(i), b.create(ir::Op::Continue, {}, {}); });
    return made;
  }

  analysis::LaunchContract contract;
  analysis::Certificate certificate;
  std::uint64_t held = 0;

  /// Launch expressions; the number of the term.
  std::uint32_t term(analysis::Term t) {
    certificate.terms.push_back(t);
    return static_cast<std::uint32_t>(certificate.terms.size() - 1);
  }
  std::uint32_t constant(std::int64_t n) { return term({analysis::ExprKind::Const, 64, true, n, 0, 0}); }
  std::uint32_t slot(std::int64_t argument) { return term({analysis::ExprKind::Arg, 64, true, argument, 0, 0}); }
  std::uint32_t combined(analysis::ExprKind kind, std::uint32_t x, std::uint32_t y) {
    return term({kind, 64, true, 0, x, y});
  }
  /// One more obligation, which the launch holds.
  void holds(const analysis::CertificateCondition& c) {
    certificate.conditions.push_back(c);
    held |= std::uint64_t{1} << certificate.obligations.size();
    certificate.obligations.push_back({static_cast<std::uint32_t>(certificate.conditions.size() - 1)});
  }

  /// Ends the kernel, once.
  void end() {
    b.create(ir::Op::Return, {}, {});
    EXPECT_EQ(problems_of(module), "");
  }
  certify::Verdict judged(const analysis::Claim& claim) const {
    return certify::check(*module.functions.front(), contract, certificate, {&claim, 1}, held);
  }
  bool certifies(const analysis::Claim& claim) const { return judged(claim).certified.at(0); }
  bool certifies(Value condition, bool truth = true) const {
    analysis::Claim c = condition_claim(*condition.def(), truth);
    c.index = static_cast<int>(condition.index());
    return certifies(c);
  }
};

}  // namespace tessera::test
