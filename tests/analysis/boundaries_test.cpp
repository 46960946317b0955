// Claims about one operation, one comparison or one access, at and around the numbers at which they stop being true.
#include <gtest/gtest.h>

#include <vector>

#include "generate/claims.hpp"
#include "passes/pass_support.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/passes/apply_claims.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {
namespace {

using analysis::ArgRole;
using analysis::Facts;
using analysis::LaunchContract;
using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Signedness;
using ir::Type;
using ir::Value;
using Predicate = ir::ComparisonPredicate;

constexpr Predicate kPredicates[] = {Predicate::Equal,     Predicate::NotEqual, Predicate::Less,
                                     Predicate::LessEqual, Predicate::Greater,  Predicate::GreaterEqual};
constexpr Signedness kSigns[] = {Signedness::Signed, Signedness::Unsigned};

Value compared(ir::Builder& b, Predicate p, Signedness s, Value x, Value y) {
  return b
      .create(Op::CmpI, {x, y}, {Type::tile(Elem::I1)},
              {{AttrName::comparison_predicate, p}, {AttrName::signedness, s}})
      ->result();
}

/// A branch that does nothing but be decided.
void ask(ir::Builder& b, Predicate p, Signedness s, Value x, std::int64_t y) {
  const Value number = b.constant_int(x.type().elem(), y);
  ir::Operation* branch = b.create(Op::If, {compared(b, p, s, x, number)}, {});
  for (int arm = 0; arm < 2; ++arm) ir::Builder(branch->add_region()).create(Op::Yield, {}, {});
}

/// Runs the kernel for launches of two values; every claim that holds is an assertion. Returns how many there were.
int run(const Kernel& k, const std::vector<std::pair<std::int64_t, std::int64_t>>& launches) {
  LaunchContract contract;
  contract.args.resize(2);
  const Facts facts = Facts::analyze(k.module, contract, passes::predicate_table());
  int claims = 0;
  for (const auto& [x, y] : launches) {
    const std::vector<std::uint64_t> slots{static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)};
    const auto copy = ir::clone(k.module);
    claims += generate::assert_claims(*copy, facts, facts.evaluate(slots));
    cpu::RunOptions options;
    options.threads = 1;
    try {
      cpu::Program::compile(*copy)->run({1, 1, 1}, slots, options);
    } catch (const Error& e) { ADD_FAILURE() << "x = " << x << ", y = " << y << ": " << e.what() << ir::print(*copy); }
  }
  return claims;
}

TEST(Boundaries, WhatAComparisonSaysOfItsOperands) {
  int claims = 0;
  for (const Predicate outer : kPredicates) {
    for (const Signedness s : kSigns) {
      for (const bool swapped : {false, true}) {
        Kernel k;
        const Value x = k.arg(Elem::I32), limit = k.i32(64);
        k.arg(Elem::I32);
        ir::Operation* branch =
            k.b.create(Op::If, {compared(k.b, outer, s, swapped ? limit : x, swapped ? x : limit)}, {});
        for (int arm = 0; arm < 2; ++arm) {
          ir::Builder in(branch->add_region());
          for (const Predicate inner : kPredicates)
            for (const std::int64_t c : {0, 63, 64, 65}) ask(in, inner, Signedness::Signed, x, c);
          in.create(Op::Yield, {}, {});
        }
        k.function();
        claims += run(k, {{-1, 0}, {0, 0}, {62, 0}, {63, 0}, {64, 0}, {65, 0}, {66, 0}, {INT32_MIN, 0}});
      }
    }
  }
  EXPECT_GT(claims, 500) << "otherwise this test has seen nothing";
}

TEST(Boundaries, OfTwoArgumentsThatAreCompared) {
  int claims = 0;
  for (const Predicate outer : kPredicates) {
    Kernel k;
    const Value x = k.arg(Elem::I32), y = k.arg(Elem::I32);
    ir::Operation* branch = k.b.create(Op::If, {compared(k.b, outer, Signedness::Signed, x, y)}, {});
    for (int arm = 0; arm < 2; ++arm) {
      ir::Builder in(branch->add_region());
      for (const Predicate inner : kPredicates) {
        for (const std::int64_t c : {6, 7, 8}) {
          ask(in, inner, Signedness::Signed, x, c);
          ask(in, inner, Signedness::Signed, y, c);
        }
      }
      in.create(Op::Yield, {}, {});
    }
    k.function();
    std::vector<std::pair<std::int64_t, std::int64_t>> launches;
    for (const std::int64_t a : {-1, 6, 7, 8})
      for (const std::int64_t c : {-1, 6, 7, 8}) launches.emplace_back(a, c);
    claims += run(k, launches);
  }
  EXPECT_GT(claims, 500);
}

/// x and y are arguments: what follows from their signs is asked of the launch.
TEST(Boundaries, OfDivisionsAndExtensions) {
  int claims = 0;
  for (const std::int64_t c : {-4, -3, -1, 0, 1, 3, 4, 5}) {
    for (const Predicate p : {Predicate::Less, Predicate::GreaterEqual}) {
      Kernel k;
      const Value x = k.arg(Elem::I32), y = k.arg(Elem::I32);
      for (const Signedness s : kSigns) {
        const ir::NamedAttr sign{AttrName::signedness, s};
        for (const Value by : {k.i32(4), y}) ask(k.b, p, s, k.op(Op::RemI, {x, by}, x.type(), {sign}), c);
        for (const Value by : {k.i32(4), y}) {
          const ir::NamedAttr zero{AttrName::rounding, ir::Rounding::Zero};
          ask(k.b, p, s, k.op(Op::DivI, {x, by}, x.type(), {sign, zero}), c);
        }
        const Value wide = k.op(Op::ExtI, {x}, Type::tile(Elem::I64), {sign});
        for (const Signedness asked : kSigns)
          for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{1} << 31, std::int64_t{1} << 32})
            ask(k.b, p, asked, wide, limit + c);
      }
      k.function();
      std::vector<std::pair<std::int64_t, std::int64_t>> launches;
      for (const std::int64_t a : {-9, -4, -1, 0, 3, 4, 9})
        for (const std::int64_t d : {1, 3, 4}) launches.emplace_back(a, d);
      claims += run(k, launches);
    }
  }
  EXPECT_GT(claims, 300);
}

/// A load of the tile of 16 at `index` from a vector of `extent`, which may be believed to be inside only if it is.
struct OneLoad : Kernel {
  Value base = pointer(Elem::F32), n = arg(Elem::I32), index = arg(Elem::I32);
  bool inbounds(std::int64_t add, std::int64_t extent, std::int64_t at) {
    const Value dim = add == 0 ? n : binary(Op::AddI, n, i32(add));
    const std::vector<std::int64_t> dynamic{ir::kDynamic}, one{1};
    const std::vector<Type> type{Type::tensor_view(Elem::F32, dynamic, one)};
    const Value tensor =
        b.create_grouped(Op::MakeTensorView, std::vector<Value>{base, dim}, std::vector<std::uint32_t>{1, 1, 0}, type)
            ->result();
    const std::vector<std::int32_t> tile{16};
    load(op(Op::MakePartitionView, {tensor}, Type::partition_view(tensor.type(), tile, {}, ir::PaddingValue::Zero)),
         {index});
    ir::Function& f = function();
    LaunchContract contract;
    contract.args.resize(3);
    const Facts facts = Facts::analyze(module, contract, passes::predicate_table());
    const std::uint64_t slots[] = {0, static_cast<std::uint64_t>(extent), static_cast<std::uint64_t>(at)};
    passes::apply_claims(module, facts, facts.evaluate(slots));
    EXPECT_EQ(problems_of(module), "");
    return first(f, Op::LoadViewTko)->attr(AttrName::inbounds) != nullptr;
  }
};

TEST(Boundaries, ATileIsInsideFromTheFirstToTheLastWholeOne) {
  for (const auto& [at, inside] : {std::pair{-2, false}, {-1, false}, {0, true}, {3, true}, {4, false}})
    EXPECT_EQ(OneLoad().inbounds(0, 64, at), inside) << at;
  EXPECT_FALSE(OneLoad().inbounds(0, 63, 3));
  EXPECT_FALSE(OneLoad().inbounds(0, 0, 0));
  EXPECT_FALSE(OneLoad().inbounds(0, -1, 0));
}

TEST(Boundaries, AnExtentThatLeavesItsTypeHoldsNoTile) {
  EXPECT_TRUE(OneLoad().inbounds(32, 32, 3));
  EXPECT_FALSE(OneLoad().inbounds(32, 31, 3));
  EXPECT_FALSE(OneLoad().inbounds(32, INT32_MAX - 16, 0)) << "the sum is negative";
}

}  // namespace
}  // namespace tessera::test
