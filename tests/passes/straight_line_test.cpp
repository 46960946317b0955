// The compiler's own time grows with the length of straight-line code, not with its square. Processor time, the least
// of some runs: eight times the code may take four times as long as eight times the time.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/rounds.hpp"
#include "passes/passed.hpp"
#include "tessera/ir/bytecode.hpp"

namespace tessera::test {
namespace THIS_FILE {

enum class Code { Sums, Divisions, Guards, SameGuard, Regions, Lookups, Gathers, Products };

void unrolled(Mut<f32, 64> y, In<f32, dyn> x, In<i32, dyn> at, In<f16, dyn, dyn> f, Scalar<i32> a, Constant<int> code,
              Constant<int> n) {
  auto t = x.load_like(y);
  Tile<i32> s = a;
  const Code kind{static_cast<int>(code)};
  for (int i = 0; i < n; ++i) {
    if (kind == Code::Sums) s = (s + i) * 3;
    if (kind == Code::Divisions) s = s / max(a, Tile<i32>(1)) + x.dim(0);
    if (kind == Code::Guards) {
      tile_if (a > i) { t = t + 1.0f; }
    }
    if (kind == Code::SameGuard) {
      tile_if (a > 3) { t = t + 1.0f; }
    }
    if (kind == Code::Regions) t = t + x.load_at(shape<64>, a + i);
    if (kind == Code::Lookups) {
      tile_if (s < i) { s = s + 1; }
      t = t + x.tiles(shape<64>).load(s);
    }
    if (kind == Code::Gathers) t = t + x.gather(axis<0>, at.load_like(y) + i);
    if (kind == Code::Products && i % 4 == 0) {
      auto A = f.tiles(shape<16, 16>);
      t = t + sum(mma(A.load(0, i), A.load(i, 0), zeros<f32, 16, 16>()));
    }
  }
  y.store(t + x.tiles(shape<64>).load(s));
}

Code asked_code;
int asked_length;
lang::Specialization asked(const std::vector<lang::ParamInfo>& params) {
  lang::Specialization s = row_major(params);
  s.constants = {static_cast<std::uint64_t>(asked_code), static_cast<std::uint64_t>(asked_length)};
  return s;
}

double seconds_for(Code code, int length, int runs) {
  asked_code = code;
  asked_length = length;
  double least = 1e9;
  for (int i = 0; i < runs; ++i) {
    const std::clock_t start = std::clock();
    const Recorded r = recorded<unrolled>(asked);
    const auto slots = r.slots({{256}, {256}, {256}, {256, 256}});
    const auto claims = r.facts.claims_of(*r.trace.module);
    (void)certify::check(*r.trace.module->functions.front(), r.contract, r.facts.certificate(), claims,
                         r.facts.evaluate(slots));
    (void)ir::write_bytecode(*passed(r, slots, {}).module);
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

TEST(StraightLine, TimeGrowsWithTheLengthOfTheCode) {
  if (kSanitizer) GTEST_SKIP() << "times of a sanitizer";
  constexpr int kShort = 300, kFactor = 8;
  for (const Code code : {Code::Sums, Code::Divisions, Code::Guards, Code::SameGuard, Code::Regions, Code::Lookups,
                          Code::Gathers, Code::Products}) {
    const double some = seconds_for(code, kShort, 3), many = seconds_for(code, kFactor * kShort, 1);
    std::printf("code %d: %d times %.3f s, %d times %.3f s\n", static_cast<int>(code), kShort, some, kFactor * kShort,
                many);
    EXPECT_LT(many, 4 * kFactor * some + 0.2) << static_cast<int>(code);
  }
}

}  // namespace THIS_FILE
}  // namespace tessera::test
