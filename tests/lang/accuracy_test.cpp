// Accuracy is decided per operation, from the uses of its result. Each kernel computes one `exp` and tests one path to
// the outputs; after each follows the nearest kernel that may be approximate.
#include "core_support.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Arguments;
using test::count;
using test::run;
using test::text;

using Out = Mut<bf16, 8>;
using Other = Mut<i32, 8>;
using X = In<f32, dyn>;

/// The number of operations of a kernel that were recorded as approximate.
template <auto K>
int approximate() {
  return count(text<K>(), "rounding<approx>");
}

void integer_beside_narrow(Other q, Out y, X x, X z) {
  auto a = x.load_like(q), b = z.load_like(q);
  q.store(cast<i32>(a / b));
  y.store(cast<bf16>(a / b));
}
TEST(AccuracyOf, ADivisionBehindAnIntegerIsPreciseBesideAnApproximateOne) {
  const std::string ir = text<integer_beside_narrow>();
  EXPECT_EQ(count(ir, "divf"), 2) << ir;
  EXPECT_EQ(count(ir, "rounding<approx>"), 1) << ir;
}

void wide_beside_narrow(Mut<f32, 8> z, Out y, X x) {
  auto t = x.load_like(z);
  z.store(exp(t + 1.0f));
  y.store(cast<bf16>(exp(t)));
}
void widened_again(Mut<f32, 8> z, Out y, X x) {
  auto t = cast<bf16>(exp(x.load_like(z)));
  z.store(cast<f32>(t));
  y.store(t);
}
TEST(AccuracyOf, WhatReachesAWideOutputIsPrecise) {
  EXPECT_EQ(approximate<wide_beside_narrow>(), 1);
  EXPECT_EQ(approximate<widened_again>(), 0);
}

void compared(Out y, X x) {
  auto t = x.load_like(y);
  y.store(cast<bf16>(where(exp(t) > 0.5f, t, t * 2.0f)));
}
void limited(Out y, X x) { y.store(cast<bf16>(max(exp(x.load_like(y)), 0.5f))); }
TEST(AccuracyOf, WhatIsComparedIsPreciseButNotWhatIsLimited) {
  EXPECT_EQ(approximate<compared>(), 0);
  EXPECT_EQ(approximate<limited>(), 1);
}

void carried_to_integer(Other q, Out y, X x, Scalar<i32> n) {
  auto a = x.load_like(q), b = a;
  for (auto i : range(n)) {
    (void)i;
    auto old = a;
    a = b;
    b = exp(old);  // reaches a, and with it q, only in a later iteration
  }
  q.store(cast<i32>(a));
  y.store(cast<bf16>(b));
}
void carried_to_narrow(Other q, Out y, X x, Scalar<i32> n) {
  auto a = x.load_like(q), b = a;
  for (auto i : range(n)) {
    (void)i;
    b = exp(a * b);
  }
  q.store(cast<i32>(a));
  y.store(cast<bf16>(b));
}
TEST(AccuracyOf, WhatALoopCarriesToAnIntegerIsPrecise) {
  EXPECT_EQ(approximate<carried_to_integer>(), 0);
  EXPECT_EQ(approximate<carried_to_narrow>(), 1);
}

void decides_a_loop(Out y, X x) {
  auto t = x.load_like(y);
  auto rounds = zeros<f32, 8>();
  tile_while(sum(rounds) < 8.0f) { rounds = rounds + exp(t); }
  y.store(cast<bf16>(t));
}
void follows_a_loop(Out y, X x) {
  auto t = x.load_like(y), u = t;
  auto rounds = zeros<f32, 8>();
  tile_while(sum(rounds) < 8.0f) {
    rounds = rounds + 1.0f;
    u = u * exp(t);
  }
  y.store(cast<bf16>(u));
}
TEST(AccuracyOf, WhatEndsALoopIsPrecise) {
  EXPECT_EQ(approximate<decides_a_loop>(), 0);
  EXPECT_EQ(approximate<follows_a_loop>(), 1);
}

template <bool Integer>
void through_a_branch(Other q, Out y, X x, Scalar<i32> c) {
  auto t = x.load_like(q), v = t;
  tile_if (c > 0) { v = exp(t); }
  if (Integer) q.store(cast<i32>(v));
  y.store(cast<bf16>(v));
}
TEST(AccuracyOf, WhatABranchHandsOnIsFollowed) {
  EXPECT_EQ(approximate<through_a_branch<true>>(), 0);
  EXPECT_EQ(approximate<through_a_branch<false>>(), 1);
}

template <bool Integer>
void through_memory(Other q, Out y, X x) {
  y.store(cast<bf16>(exp(x.load_like(y))));
  if (Integer) q.store(cast<i32>(y.load()));
  if (!Integer) q.store(cast<i32>(x.load_like(y)));
}
TEST(AccuracyOf, WhatTheKernelReadsBackIsFollowed) {
  EXPECT_EQ(approximate<through_memory<true>>(), 0);
  EXPECT_EQ(approximate<through_memory<false>>(), 1);
}

void summed(Out y, X x) {
  auto e = exp(x.load_like(y));
  y.store(cast<bf16>(e * sum(e)));
}
void largest_at(Other q, Out y, X x) {
  auto e = exp(x.load_like(y));
  q.store(broadcast(argmax(e, axis<0>).index, shape<8>));
  y.store(cast<bf16>(e));
}
TEST(AccuracyOf, SumsAreFollowedAndThePlaceOfTheLargestIsAnInteger) {
  EXPECT_EQ(approximate<summed>(), 1);
  EXPECT_EQ(approximate<largest_at>(), 0);
}

void is_checked(Out y, X x) {
  auto e = exp(x.load_like(y));
  check(e < 100.0f, "small");
  y.store(cast<bf16>(e));
}
void called_approximate(Mut<f32, 8> z, X x) { z.store(exp(x.load_like(z), approx)); }
void called_precise(Out y, X x) { y.store(cast<bf16>(exp(x.load_like(y), precise))); }
TEST(AccuracyOf, ChecksWantPrecisionAndCallsHaveTheLastWord) {
  EXPECT_EQ(approximate<is_checked>(), 0);
  EXPECT_EQ(approximate<called_approximate>(), 1);
  EXPECT_EQ(approximate<called_precise>(), 0);
}

}  // namespace THIS_FILE
}  // namespace tessera
