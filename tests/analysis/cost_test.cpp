// The time of analysing a recording, and of evaluating its obligations.
#include <chrono>
#include <cstdio>

#include "analysis/support.hpp"
#include "base/count_allocations.hpp"
#include "base/rounds.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {
namespace {

template <class F>
double least_nanoseconds(int runs, F f) {
  double least = 1e18;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::nano> t = std::chrono::steady_clock::now() - start;
    least = std::min(least, t.count());
  }
  return least;
}

TEST(Cost, EvaluatingAllocatesNothing) {
  const Recorded r = recorded<api_kernels::softmax<1024>>();
  const auto slots = r.slots({{8, 1024}, {8, 1024}});
  std::uint64_t bits = 0;
  const long before = allocations;
  for (int i = 0; i < 100; ++i) bits |= r.facts.evaluate(slots);
  const long after = allocations;
  EXPECT_EQ(before, after);
  EXPECT_NE(bits, 0u);
  volatile std::uint64_t sink = 0;
  const double ns = least_nanoseconds(50, [&] {
    for (int i = 0; i < 1000; ++i) sink = sink + r.facts.evaluate(slots);
  });
  std::printf("softmax: %.1f ns per evaluation of %zu obligations\n", ns / 1000, r.facts.obligations().size());
  if (!kSanitizer) {
    EXPECT_LT(ns / 1000, 2000);  // far above what it takes on an idle machine
  }
}

TEST(Cost, AnalysingAttentionIsQuick) {
  const Recorded r = recorded<api_kernels::attention<64, 64, 64>>();
  const double ns =
      least_nanoseconds(20, [&] { analysis::Facts::analyze(*r.trace.module, r.contract, passes::predicate_table()); });
  std::printf("attention: %.3f ms per analysis\n", ns / 1e6);
  if (!kSanitizer) { EXPECT_LT(ns / 1e6, 10); }
}

template <int Depth>
void count_in_loops(Scalar<i32>& total, Scalar<i32> n) {
  for (auto i : range(n)) {
    total += i;
    if constexpr (Depth > 1) count_in_loops<Depth - 1>(total, n);
  }
}
template <int Depth>
void nested(Mut<f32, 8> y, In<f32, dyn> x, Scalar<i32> n) {
  Scalar<i32> total = 0;
  count_in_loops<Depth>(total, n);
  y.store(x.tiles(shape<8>).load(total));
}
template <int Depth>
double milliseconds_for_loops() {
  const Recorded r = recorded<nested<Depth>>();
  return least_nanoseconds(2,
                           [&] { analysis::Facts::analyze(*r.trace.module, r.contract, passes::predicate_table()); }) /
         1e6;
}
TEST(Cost, NestedLoopsThatCarryNumbersAreNotExponential) {
  const double some = milliseconds_for_loops<8>(), many = milliseconds_for_loops<60>();
  std::printf("8 loops inside each other: %.2f ms, 60: %.2f ms\n", some, many);
  EXPECT_LT(many, 50 * some + 100);  // 2^52 times as long, if each level doubled it
}

}  // namespace
}  // namespace tessera::test
