// Scans over tiles of many shapes: within a thread, across a warp, across warps, and several groups of elements a
// thread. Sums of integers, so that both devices must agree in every bit.
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

template <int H, int W>
void scans(Mut<i32, 1, H, W> y0, Mut<i32, 1, H, W> y1, Mut<i32, 1, H, W> y2, Mut<i32, 1, H, W> y3,
           In<i32, dyn, dyn, dyn> x) {
  const auto t = x.load_like(y0);
  y0.store(cumsum(t, axis<2>));
  y1.store(cumsum(t, axis<2>, backward));
  y2.store(cumsum(t, axis<1>));
  y3.store(scan(
      t, axis<1>, 0, [](auto a, auto b) { return a + b; }, backward));
}

template <int H, int W>
void check_scans() {
  std::vector<i32> values(static_cast<std::size_t>(2 * H * W));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<i32>((i * 2654435761u) % 1000) - 500;
  const char* names[] = {"last axis", "last axis, backward", "first axis", "first axis, backward"};
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {2, H, W});
    auto a = side.output<i32>({2, H, W}), b = side.output<i32>({2, H, W}), c = side.output<i32>({2, H, W}),
         d = side.output<i32>({2, H, W});
    kernel<scans<H, W>>(a.lend(), b.lend(), c.lend(), d.lend(), x.view()).sync();
    std::vector<i32> all;
    for (auto* part : {&a, &b, &c, &d}) {
      const auto v = part->take();
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  });
  const std::size_t n = values.size();
  for (std::size_t p = 0; p < 4; ++p) {
    const auto part = [&](const std::vector<i32>& v) {
      return std::vector<i32>(v.begin() + static_cast<std::ptrdiff_t>(p * n),
                              v.begin() + static_cast<std::ptrdiff_t>((p + 1) * n));
    };
    EXPECT_EQ(exact(part(both.cpu), part(both.gpu)), "") << names[p] << " of " << H << " x " << W;
  }
}

class Scan : public Gpu {};
TEST_F(Scan, ShortRows) {
  check_scans<16, 32>();
  check_scans<32, 16>();
  check_scans<64, 8>();
  check_scans<4, 128>();
}
TEST_F(Scan, SquareTiles) {
  check_scans<64, 64>();
  check_scans<32, 128>();
}
TEST_F(Scan, OneLongRow) {
  check_scans<1, 256>();
  check_scans<1, 1024>();
  check_scans<1, 4096>();
  check_scans<2, 2048>();
}

}  // namespace
}  // namespace gpu_test
