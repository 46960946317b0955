// The cost of certifying compared with the passes of a compile: processor time, printed, with a generous limit.
#include <cstdio>
#include <ctime>

#include "certify/support.hpp"
#include "passes/accepting.hpp"

namespace tessera::test {
namespace {

double seconds(auto&& f) {
  const std::clock_t start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

template <auto K>
void expect_cheap(const char* name, const std::vector<std::vector<std::int64_t>>& dims, double& checks, double& rest) {
  constexpr int kTimes = 10;
  const Recorded r = recorded<K>();
  const std::uint64_t held = r.held(dims);
  double check = 0, passes = 0;
  std::size_t unproven = 0;
  for (int i = 0; i < kTimes; ++i) {
    check += seconds([&] { unproven += judge(*r.trace.module, r.facts, held).unproven; });
    passes += seconds([&] {
      auto module = ir::clone(*r.trace.module);
      passes::apply_claims(*module, r.facts.claims_of(*module), held);
      optimize_with_claims(*module, passes::Target{.sm = 90, .num_sms = 132});
    });
  }
  std::printf("%-14s check %6.3f ms, passes %6.3f ms, %3.0f %%\n", name, check * 1e3 / kTimes, passes * 1e3 / kTimes,
              check * 100 / passes);
  EXPECT_EQ(unproven, 0u) << name;
  checks += check;
  rest += passes;
}

TEST(CertifyCost, IsAFractionOfThePasses) {
  using namespace api_kernels;
  double checks = 0, passes = 0;
  const std::vector<std::int64_t> square{4096, 4096}, heads{2, 16, 2048, 64}, keys{2, 4, 2048, 64};
  expect_cheap<softmax<1024>>("softmax", {{4096, 1000}, {4096, 1000}}, checks, passes);
  expect_cheap<add_rms_norm<1024>>("add_rms_norm", {{64, 1024}, {64, 1024}, {64, 1024}, {1024}}, checks, passes);
  expect_cheap<gemm<f16, 128, 128, 64>>("gemm", {square, square, square}, checks, passes);
  expect_cheap<gemm_blocks<f16, 128, 128, 64>>("gemm_blocks", {square, square, square}, checks, passes);
  expect_cheap<attention<64, 64, 64>>("attention", {heads, heads, keys, keys}, checks, passes);
  expect_cheap<logsumexp<1024>>("logsumexp", {{4096}, {4096, 50257}}, checks, passes);
  std::printf("%-14s %.0f %%\n", "all", checks * 100 / passes);
  EXPECT_LT(checks, 0.6 * passes);  // about a fifth where the machine is quiet and the build optimised
}

}  // namespace
}  // namespace tessera::test
