// Obligations are sound: kernels whose guards vanish when their launch allows it run over shapes around every boundary
// and over views that are shifted, strided and permuted, on the CPU in checked mode and on the GPU between guard zones.
// Whatever variant the launcher chose, the result is the CPU's and nothing outside is touched.
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

/// Extents around the multiples of `tile`.
std::vector<std::int64_t> around(std::int64_t tile) {
  return {0, 1, tile - 1, tile, tile + 1, 2 * tile - 1, 2 * tile, 3 * tile + tile / 2};
}

/// As on_both, with the CPU in checked mode (for kernels that promise to stay inside).
template <class F>
auto on_both_checked(Placement placement, F f) {
  return on_both(placement, [&](const Side& side) {
    struct Restore {
      bool before = check_mode();
      ~Restore() { set_check_mode(before); }
    } restore;
    set_check_mode(side.device() == Device::cpu());
    return f(side);
  });
}

#define EXPECT_SAME(both, ...) EXPECT_EQ(exact((both).cpu, (both).gpu), "") << __VA_ARGS__

template <class T, int B>
void line_copy(Mut<T, B> y, In<T, dyn> x) {
  y.store(x.load_like(y));
}
template <class T, int B>
void check_line_copy() {
  for (const std::int64_t n : around(B)) {
    const auto values = any_values<T>(static_cast<std::size_t>(n), 1);
    for (const Placement p : kPlacements) {
      const auto both = on_both_checked(p, [&](const Side& side) {
        auto x = side.input(values, {n});
        auto y = side.template output<T>({n});
        kernel<line_copy<T, B>>(y.lend(), x.view()).sync();
        return y.take();
      });
      EXPECT_SAME(both, type_name<T>() << " " << n << ", placement " << int(p));
    }
  }
}
class BoundsLines : public Gpu {};
class BoundsPlanes : public Gpu {};
class BoundsViews : public Gpu {};
class BoundsProducts : public Gpu {};
class BoundsWalks : public Gpu {};
TEST_F(BoundsLines, LinesF32) { check_line_copy<f32, 128>(); }
TEST_F(BoundsLines, LinesBF16) { check_line_copy<bf16, 64>(); }
TEST_F(BoundsLines, LinesI8) { check_line_copy<i8, 256>(); }
TEST_F(BoundsLines, LinesF64) { check_line_copy<f64, 16>(); }

template <class T>
void plane_copy(Mut<T, 16, 32> y, In<T, dyn, dyn> x) {
  auto [i, j] = y.index();
  y.store(x.tiles(shape<16, 32>).load(i, j));
}
template <class T>
void check_plane_copy() {
  for (const std::int64_t h : around(16)) {
    for (const std::int64_t w : around(32)) {
      const auto values = any_values<T>(static_cast<std::size_t>(h * w), 1);
      for (const Placement p : kPlacements) {
        const auto both = on_both_checked(p, [&](const Side& side) {
          auto x = side.input(values, {h, w});
          auto y = side.template output<T>({h, w});
          kernel<plane_copy<T>>(y.lend(), x.view()).sync();
          return y.take();
        });
        EXPECT_SAME(both, type_name<T>() << " " << h << "x" << w << ", placement " << int(p));
      }
    }
  }
}
TEST_F(BoundsPlanes, PlanesF32) { check_plane_copy<f32>(); }
TEST_F(BoundsPlanes, PlanesF16) { check_plane_copy<f16>(); }

// The transposed view has its unit stride along the other axis.
TEST_F(BoundsViews, TransposedViews) {
  for (const std::int64_t h : around(16)) {
    for (const std::int64_t w : around(32)) {
      const auto values = any_values<f32>(static_cast<std::size_t>(h * w), 1);
      for (const Placement p : kPlacements) {
        const auto both = on_both_checked(p, [&](const Side& side) {
          auto x = side.input(values, {w, h});
          auto y = side.output<f32>({w, h});
          auto z = side.output<f32>({h, w});
          kernel<plane_copy<f32>>(y.lend().permute<1, 0>(), x.view().permute<1, 0>()).sync();
          kernel<plane_copy<f32>>(z.lend(), x.view().permute<1, 0>()).sync();
          auto all = y.take();
          const auto more = z.take();
          all.insert(all.end(), more.begin(), more.end());
          return all;
        });
        EXPECT_SAME(both, h << "x" << w << ", placement " << int(p));
      }
    }
  }
}

// Indices far outside: total, never undefined. (Out-of-range indices are what checked mode reports, so it stays off.)
void far_away(Mut<f32, 16, 32> y, In<f32, dyn, dyn> x, Scalar<i32> di, Scalar<i32> dj) {
  auto [i, j] = y.index();
  auto [a, b] = y.origin();
  y.store(x.tiles(shape<16, 32>, pad(1.0f)).load(i + di, j + dj) +
          x.load_at(shape<16, 32>, a + di * 7, b + dj * 7, pad(2.0f)));
}
TEST_F(BoundsViews, FarIndices) {
  const auto values = values_in<f32>(40 * 70, 1, -9, 9);
  const std::vector<int> shifts{0, 1, -1, 2, -2, 3, 100, -100, 1 << 20, INT32_MAX, INT32_MIN, INT32_MAX / 16, 1 << 27};
  for (const int di : shifts) {
    for (const int dj : shifts) {
      const auto both = on_both(Placement::OddStride, [&](const Side& side) {
        auto x = side.input(values, {40, 70});
        auto y = side.output<f32>({40, 70});
        kernel<far_away>(y.lend(), x.view(), di, dj).sync();
        return y.take();
      });
      EXPECT_SAME(both, di << ", " << dj);
    }
  }
}

template <int BK>
void small_gemm(MutTiles<bf16, 32, 32> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  auto A = a.tiles(shape<32, BK>);
  auto B = b.tiles(shape<BK, 32>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, 32, 32>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(cast<bf16>(acc));
  }
}
// Whole numbers, so that sums are exact in any order and the comparison can be.
TEST_F(BoundsProducts, Products) {
  for (const std::int64_t m : {1, 31, 32, 33, 64}) {
    for (const std::int64_t n : {1, 31, 32, 40, 64}) {
      for (const std::int64_t k : {0, 1, 15, 16, 17, 48}) {
        const auto ha = values_in<bf16>(static_cast<std::size_t>(m * k), 1, -2, 2);
        const auto hb = values_in<bf16>(static_cast<std::size_t>(k * n), 2, -2, 2);
        std::vector<bf16> wa, wb;
        for (const bf16 v : ha) wa.push_back(bf16(std::round(float(v))));
        for (const bf16 v : hb) wb.push_back(bf16(std::round(float(v))));
        for (const Placement p : kPlacements) {
          const auto both = on_both(p, [&](const Side& side) {
            auto a = side.input(wa, {m, k});
            auto b = side.input(wb, {k, n});
            auto c = side.output<bf16>({m, n});
            kernel<small_gemm<16>>(c.lend(), a.view(), b.view()).sync();
            return c.take();
          });
          EXPECT_SAME(both, m << "x" << n << "x" << k << ", placement " << int(p));
        }
      }
    }
  }
}
// b is shorter or narrower than a says: reads padding, whatever was proven of a.
TEST_F(BoundsProducts, ProductsOfUnequalDepth) {
  for (const std::int64_t ka : {16, 31, 32, 64}) {
    for (const std::int64_t kb : {0, 15, 16, 32, 65}) {
      const std::vector<bf16> wa(static_cast<std::size_t>(40 * ka), bf16(1.0f));
      const std::vector<bf16> wb(static_cast<std::size_t>(kb * 64), bf16(2.0f));
      const auto both = on_both(Placement::Aligned, [&](const Side& side) {
        auto a = side.input(wa, {40, ka});
        auto b = side.input(wb, {kb, 64});
        auto c = side.output<bf16>({64, 64});
        kernel<small_gemm<16>>(c.lend(), a.view(), b.view()).sync();
        return c.take();
      });
      EXPECT_SAME(both, ka << " and " << kb);
    }
  }
}

template <int N>
void row_softmax(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = x.load_like(y, pad::neg_inf);
  t = exp(t - max(t, axis<1>));
  y.store(t / sum(t, axis<1>));
}
TEST_F(BoundsWalks, Rows) {
  for (const std::int64_t rows : {1, 2, 7}) {
    for (const std::int64_t columns : {1, 2, 127, 128, 129, 191, 192, 193, 200, 255, 256}) {
      const auto values = values_in<f32>(static_cast<std::size_t>(rows * columns), 1, -5, 5);
      for (const Placement p : kPlacements) {
        const auto both = on_both_checked(p, [&](const Side& side) {
          auto x = side.input(values, {rows, columns});
          auto y = side.output<f32>({rows, columns});
          kernel<row_softmax<256>>(y.lend(), x.view()).sync();
          return y.take();
        });
        EXPECT_EQ(close(both.cpu, both.gpu, 1e-5), "") << rows << "x" << columns << ", placement " << int(p);
      }
    }
  }
}

// A loop whose bound comes from one tensor and whose index reads another, with a step and an offset.
void shifted_walk(Mut<i32, 64> y, In<i32, dyn> a, In<i32, dyn> b, Scalar<i32> first, Scalar<i32> last) {
  auto A = a.tiles(shape<64>), B = b.tiles(shape<64>, pad(-7));
  auto total = zeros<i32, 64>();
  for (auto i : range(first, last, 2)) total += A.load(i) * 3 + B.load(i + 1) + B.load(A.count(0) - 1 - i);
  y.store(total);
}
TEST_F(BoundsWalks, Walks) {
  for (const std::int64_t na : around(64)) {
    for (const std::int64_t nb : {std::int64_t{0}, std::int64_t{64}, na, na + 1, std::int64_t{300}}) {
      const auto ha = values_in<i32>(static_cast<std::size_t>(na), 1, -99, 99);
      const auto hb = values_in<i32>(static_cast<std::size_t>(nb), 2, -99, 99);
      for (const auto& [first, last] : {std::pair{0, 4}, {-3, 9}, {1, 2}, {3, 1}}) {
        const int lo = first, hi = last;
        const auto both = on_both(Placement::Aligned, [&](const Side& side) {
          auto a = side.input(ha, {na}), b = side.input(hb, {nb});
          auto y = side.output<i32>({100});
          kernel<shifted_walk>(y.lend(), a.view(), b.view(), lo, hi).sync();
          return y.take();
        });
        EXPECT_SAME(both, na << ", " << nb << ": " << lo << " to " << hi);
      }
    }
  }
}

// The same tensor at several alignments, in one process: the launcher must not reuse a variant that proved more.
TEST_F(BoundsWalks, AlignmentsAlternate) {
  constexpr std::int64_t n = 1024;
  const auto values = any_values<f32>(n + 8, 1);
  const auto run = [&](const Device device) {
    const Stream s = Stream::default_of(device);
    const auto x = from(values, {n + 8}).on(s);
    auto y = from(std::vector<f32>(n + 8, 0.5f), {n + 8}).on(s);
    std::vector<f32> all;
    for (const std::int64_t shift : {0, 1, 4, 2, 0, 3, 8}) {
      for (const std::int64_t length : {n, n - 1, n - 128}) {
        kernel<line_copy<f32, 128>>(mut(y).slice<0>(shift, shift + length - shift), x.slice<0>(0, length - shift))
            .sync();
        const auto now = host(y).sync();
        all.insert(all.end(), now.begin(), now.end());
      }
    }
    return all;
  };
  EXPECT_EQ(exact(run(Device::cpu()), run(device_under_test())), "");
}

// Random kernels of a family: piece, tile and shifts are drawn, shapes around the boundaries.
template <int PH, int PW, int TH, int TW>
void mosaic(Mut<i32, PH, PW> y, In<i32, dyn, dyn> x, Scalar<i32> si, Scalar<i32> sj, Scalar<i32> steps) {
  auto X = x.tiles(shape<TH, TW>, pad(9));
  auto [i, j] = y.index();
  auto sum = zeros<i32, 1, 1>();
  for (auto k : range(steps)) sum += reshape(max(X.load(i * si + k, j + sj - k)), shape<1, 1>);
  auto [a, b] = y.origin();
  y.store(x.load_at(shape<PH, PW>, a * si, b + sj) + sum + y.load());
}
template <int PH, int PW, int TH, int TW>
void check_mosaic(std::uint64_t seed) {
  gpu_test::Random random(seed);
  for (int round = 0; round < 60; ++round) {
    const auto pick = [&](std::int64_t tile) {
      const auto sizes = around(tile);
      return sizes[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(sizes.size())))];
    };
    const std::int64_t h = pick(PH), w = pick(PW), xh = pick(TH), xw = pick(TW);
    const int si = static_cast<int>(random.below(4)) - 1, sj = static_cast<int>(random.below(7)) - 3;
    const int steps = static_cast<int>(random.below(5));
    const Placement p = kPlacements[random.below(4)];
    const auto start = any_values<i32>(static_cast<std::size_t>(h * w), random.bits());
    const auto values = any_values<i32>(static_cast<std::size_t>(xh * xw), random.bits());
    const auto both = on_both(p, [&](const Side& side) {
      auto x = side.input(values, {xh, xw});
      auto y = side.input(start, {h, w});
      kernel<mosaic<PH, PW, TH, TW>>(y.lend(), x.view(), si, sj, steps).sync();
      return y.take();
    });
    EXPECT_SAME(both, h << "x" << w << " from " << xh << "x" << xw << ", " << si << " " << sj << " " << steps
                        << ", placement " << int(p));
  }
}
class RandomBounds : public Gpu {};
TEST_F(RandomBounds, Small) { check_mosaic<4, 8, 8, 4>(1); }
TEST_F(RandomBounds, Wide) { check_mosaic<1, 128, 2, 64>(2); }
TEST_F(RandomBounds, Tall) { check_mosaic<64, 1, 16, 16>(3); }
TEST_F(RandomBounds, Square) { check_mosaic<32, 32, 32, 32>(4); }

}  // namespace
}  // namespace gpu_test
