// Conditions of launches as bytes: predicates that are read again give the same answers, and no bytes make a launch
// unsafe.
#include <gtest/gtest.h>

#include "analysis/random_launch.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/bytes.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {
namespace {

using analysis::Facts;
using analysis::LaunchPredicates;

TEST(LaunchPredicates, AnswerTheSameAfterBeingWrittenAndRead) {
  std::uint64_t some = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 rng(seed);
    const analysis::LaunchContract contract = random_contract(rng);
    const auto module = RandomProgram(rng, contract).take();
    const Facts facts = Facts::analyze(*module, contract, passes::predicate_table());
    const auto read = LaunchPredicates::read(facts.predicates().bytes());
    ASSERT_TRUE(read.has_value()) << seed;
    for (int launch = 0; launch < 8; ++launch) {
      const auto slots = random_launch(rng, contract);
      some |= facts.evaluate(slots);
      ASSERT_EQ(read->evaluate(slots), facts.evaluate(slots)) << seed;
    }
    for (std::size_t slot = 0; slot < contract.args.size(); ++slot)
      ASSERT_EQ(read->slot_mask(slot), facts.slot_mask(slot)) << seed;
    EXPECT_EQ(read->bytes(), facts.predicates().bytes()) << seed;
  }
  EXPECT_NE(some, 0u) << "no obligation ever held";
}

TEST(LaunchPredicates, OfNothingHoldNothing) {
  const auto read = LaunchPredicates::read(LaunchPredicates().bytes());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->evaluate({}), 0u);
  EXPECT_EQ(read->slot_mask(0), 0u);
}

/// A sanitizer sees what evaluate() should not have touched.
TEST(LaunchPredicates, DamagedBytesAreRejectedOrHarmless) {
  std::mt19937_64 rng(7);
  const analysis::LaunchContract contract = random_contract(rng);
  const auto module = RandomProgram(rng, contract).take();
  const std::vector<std::byte> good = Facts::analyze(*module, contract, passes::predicate_table()).predicates().bytes();
  ASSERT_GT(good.size(), 100u);
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(LaunchPredicates::read(std::span(good).first(n)).has_value()) << n << " bytes";
  int rejected = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {1, 2, 16, 128}) {
      std::vector<std::byte> bad = good;
      bad[i] ^= static_cast<std::byte>(flip);
      const auto read = LaunchPredicates::read(bad);
      rejected += !read.has_value();
      if (!read) continue;
      for (int launch = 0; launch < 4; ++launch) (void)read->evaluate(random_launch(rng, contract));
      for (std::size_t slot = 0; slot < contract.args.size(); ++slot) (void)read->slot_mask(slot);
    }
  }
  EXPECT_GT(rejected, 0);
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(LaunchPredicates::read(longer).has_value());
}

/// One obligation: an argument, divided by 8 and rounded up, is a multiple of 8.
std::vector<std::byte> rounding_up(std::uint8_t shift, std::int64_t divisor) {
  BytesOut out;
  const auto step = [&](std::uint8_t code, std::uint8_t bits, std::int64_t value) {
    for (const std::uint8_t field : {code, std::uint8_t{0}, bits, std::uint8_t{1}}) out.number(field);
    out.number(std::uint32_t{0});  // both registers
    out.number(value);
  };
  out.number(std::uint32_t{2});
  step(1, 64, 0);                // the slot
  step(5, shift, divisor);       // ShiftUp
  out.number(std::uint32_t{1});  // tests
  out.number(std::uint8_t{1});   // Aligned
  out.number(std::uint32_t{1});  // of register 1
  out.number(std::uint64_t{8});
  out.number(std::uint32_t{1});  // obligations
  for (const std::uint64_t word : {1, 0, 0}) out.number(word);
  out.number(std::uint32_t{1});  // refinements: from, to
  out.number(std::uint32_t{1});
  return out.take();
}

TEST(LaunchPredicates, ARoundingDivisionMustBeByThePowerOfTwoOfItsShift) {
  const auto good = LaunchPredicates::read(rounding_up(3, 8));
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(good->evaluate(std::vector<std::uint64_t>{57}), 1u);
  EXPECT_EQ(good->evaluate(std::vector<std::uint64_t>{65}), 0u);
  EXPECT_FALSE(LaunchPredicates::read(rounding_up(3, INT64_MIN)).has_value()) << "the sum would overflow";
  EXPECT_FALSE(LaunchPredicates::read(rounding_up(3, 16)).has_value());
  EXPECT_FALSE(LaunchPredicates::read(rounding_up(63, INT64_MIN)).has_value());
}

/// One obligation of 192 tests: the argument is a multiple of 8 in one of them, of 1 in the others.
std::vector<std::byte> many_tests(int with_eight) {
  constexpr std::uint32_t kTests = 192;
  BytesOut out;
  out.number(std::uint32_t{1});
  for (const std::uint8_t field : {1, 0, 64, 1}) out.number(field);  // the slot
  out.number(std::uint32_t{0});
  out.number(std::int64_t{0});
  out.number(kTests);
  for (std::uint32_t i = 0; i < kTests; ++i) {
    out.number(std::uint8_t{1});   // Aligned
    out.number(std::uint32_t{0});  // of register 0
    out.number(std::uint64_t{static_cast<int>(i) == with_eight ? 8u : 1u});
  }
  out.number(std::uint32_t{1});
  for (int word = 0; word < 3; ++word) out.number(~std::uint64_t{0});
  out.number(std::uint32_t{1});
  out.number(std::uint32_t{1});
  return out.take();
}

TEST(LaunchPredicates, EveryTestOfAnObligationIsAsked) {
  for (const int asked : {0, 63, 64, 127, 128, 191}) {
    const auto read = LaunchPredicates::read(many_tests(asked));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->evaluate(std::vector<std::uint64_t>{64}), 1u);
    EXPECT_EQ(read->evaluate(std::vector<std::uint64_t>{65}), 0u) << "test " << asked;
  }
}

}  // namespace
}  // namespace tessera::test
