// Kernels of the API page and relatives of them, over shapes at and around every boundary: with what a launch proves,
// they compute the same bits, and checked mode, which verifies every `inbounds`, finds nothing.
#include "analysis/launches.hpp"

namespace tessera::test {
namespace {

using namespace api_kernels;

Extents2 same(std::vector<std::int64_t> d, std::size_t tensors) { return Extents2(tensors, d); }
bool rarely(std::mt19937_64& rng) { return rng() % 4 == 0; }

TEST(Claims, Saxpy) {
  const Fuzzed f = fuzz<saxpy<16>>(120, [](auto& rng) {
    const std::int64_t n = around(rng, 16);
    return Extents2{{n}, {rarely(rng) ? around(rng, 16) : n}};
  });
  EXPECT_GT(f.unguarded, 30);
}

TEST(Claims, Softmax) {
  const Fuzzed f = fuzz<softmax<32>>(120, [](auto& rng) {
    const std::int64_t rows = around(rng, 2), columns = around(rng, 32, 1);
    return Extents2{{rows, columns}, {rarely(rng) ? around(rng, 2) : rows, rarely(rng) ? around(rng, 32, 1) : columns}};
  });
  EXPECT_GT(f.unguarded, 20);
}

TEST(Claims, AddRmsNorm) {
  const Fuzzed f = fuzz<add_rms_norm<32>>(40, [](auto& rng) {
    const std::int64_t rows = around(rng, 2), columns = around(rng, 32, 1);
    return Extents2{{rows, columns}, {rows, columns}, {rows, columns}, {rarely(rng) ? around(rng, 32, 1) : columns}};
  });
  EXPECT_GT(f.unguarded, 15);
}

TEST(Claims, LogSumExp) {
  const Fuzzed f = fuzz<logsumexp<16>>(40, [](auto& rng) {
    const std::int64_t rows = around(rng, 2);
    return Extents2{{rows}, {rarely(rng) ? around(rng, 2) : rows, around(rng, 16)}};
  });
  EXPECT_GT(f.unguarded, 15);
}

Extents2 products(std::mt19937_64& rng) {
  const std::int64_t m = around(rng, 16), n = around(rng, 8), k = around(rng, 8);
  return {{m, n}, {rarely(rng) ? around(rng, 16) : m, k}, {rarely(rng) ? around(rng, 8) : k, n}};
}
TEST(Claims, PersistentGemm) { EXPECT_GT((fuzz<gemm<f32, 16, 8, 8>>(120, products)).unguarded, 30); }
TEST(Claims, GemmOfPieces) { EXPECT_GT((fuzz<gemm_blocks<f32, 16, 8, 8>>(120, products)).unguarded, 30); }

TEST(Claims, Attention) {
  const Fuzzed f = fuzz<attention<16, 16, 16>>(40, [](auto& rng) {
    const std::int64_t batch = 1 + static_cast<std::int64_t>(rng() % 2), kv = 1 + static_cast<std::int64_t>(rng() % 2);
    const std::int64_t group = 1 + static_cast<std::int64_t>(rng() % 3), s = around(rng, 16), t = around(rng, 16);
    const std::int64_t keys = rarely(rng) ? t : s;
    return Extents2{
        {batch, kv * group, s, 16}, {batch, kv * group, s, 16}, {batch, kv, keys, 16}, {batch, kv, keys, 16}};
  });
  EXPECT_GT(f.unguarded, 20);
}

TEST(Claims, ElementOffsets) {
  fuzz<blur<8, 8>>(30, [](auto& rng) { return same({around(rng, 8), around(rng, 8)}, 2); });
}

TEST(Claims, Gather) {
  fuzz<embed<8, 16>>(30, [](auto& rng) {
    const std::int64_t n = around(rng, 8);
    return Extents2{{n, 16}, {around(rng, 16), 16}, {n}};
  });
}

TEST(Claims, ScalarsAndScans) {
  fuzz<dropout<16>>(20, [](auto& rng) { return same({around(rng, 16)}, 2); });
  fuzz<running_product<16>>(20, [](auto& rng) { return same({around(rng, 2), around(rng, 16, 1)}, 2); });
  fuzz<collatz<16>>(20, [](auto& rng) { return same({around(rng, 16)}, 2); });
}

void masked_rows(Mut<f32, 1, 256> y, In<f32, dyn, dyn> x, In<f32, dyn> weight) {
  auto t = x.load_like(y, pad(3.0f));
  auto inside = iota<i32, 1, 256>(axis<1>) < x.dim(1);
  auto outside = x.dim(1) <= iota<i32, 1, 256>(axis<1>);
  y.store(where(inside, t, 5.0f) * weight.load_like(y, axes<1>) + where(outside, 7.0f, t));
}
TEST(Claims, RowsThatNearlyFillTheirTile) {
  const auto edge = [](std::mt19937_64& rng) {
    return static_cast<std::int64_t>(64 * (1 + rng() % 5) + rng() % 3) - 1;
  };
  const Fuzzed f = fuzz<masked_rows>(150, [&](auto& rng) {
    const std::int64_t rows = around(rng, 2), columns = edge(rng);
    return Extents2{{rows, columns}, {rows, rarely(rng) ? edge(rng) : columns}, {rarely(rng) ? edge(rng) : columns}};
  });
  EXPECT_GT(f.unmasked, 50);
}

// ---- relatives ------------------------------------------------------------------------------------------------------

void transposed(Mut<f32, 8, 4> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.index();
  y.store(x.permuted(order<1, 0>).tiles(shape<8, 4>).load(i, j));
}
TEST(Claims, PermutedView) {
  const Fuzzed f = fuzz<transposed>(40, [](auto& rng) {
    const std::int64_t m = around(rng, 8), n = around(rng, 4);
    return Extents2{{m, n}, {rarely(rng) ? around(rng, 4) : n, rarely(rng) ? around(rng, 8) : m}};
  });
  EXPECT_GT(f.unguarded, 15);
}

void sub_pieces(Mut<f32, 8, 8> y, In<f32, dyn, dyn> x) {
  auto s = y.sub(shape<4, 2>);
  auto X = x.tiles(shape<4, 2>);
  auto [i, j] = y.index();
  for (auto r : range(2))
    for (auto c : range(4)) s.store(r, c, s.load(r, c) + X.load(2 * i + r, 4 * j + c));
}
TEST(Claims, SubPieces) {
  const Fuzzed f = fuzz<sub_pieces>(40, [](auto& rng) {
    const std::int64_t m = around(rng, 8), n = around(rng, 8);
    return Extents2{{m, n}, {m, rarely(rng) ? around(rng, 8) : n}};
  });
  EXPECT_GT(f.unguarded, 10);
}

void split_sum(Mut<f32, 1> y, In<f32, dyn> x) {  // block b sums the tiles b, b + 4, b + 8, ... by element offset
  auto [b] = y.index();
  auto s = zeros<f32, 16>();
  for (auto i : range(b * 16, x.dim(0), 64)) s += x.load_at(shape<16>, i);
  for (auto i : range(x.tiles(shape<16>).count(0) - 1)) s += x.tiles(shape<16>).load(i + 1);
  y.store(reshape(sum(s, axis<0>), shape<1>));
}
TEST(Claims, LoopsWithSteps) {
  fuzz<split_sum>(40, [](auto& rng) { return Extents2{{4}, {around(rng, 16, 6)}}; });
}

void guarded_by_hand(Mut<f32, 4> y, In<f32, dyn> x, Scalar<i32> shift) {
  auto [b] = y.index();
  auto X = x.tiles(shape<4>);
  auto t = zeros<f32, 4>();
  tile_if (b + shift >= 0 && b + shift < X.count(0)) {
    t = X.load(b + shift);
  } else {
    t = X.load(b - shift);
  }
  y.store(t + X.load(b * 2 / 2));
}
TEST(Claims, BranchesRefine) {
  fuzz<guarded_by_hand>(60, [](auto& rng) { return Extents2{{around(rng, 4, 8)}, {around(rng, 4, 8)}}; });
}

template <int Order>
void planes(MutTiles<f32, 1, 4, 8> c, In<f32, dyn, dyn, dyn> x) {
  auto X = x.tiles(shape<1, 4, 8>);
  const auto all = [&](auto&& tiles) {
    for (auto out : tiles) {
      auto [p, i, j] = out.index();
      out.store(X.load(p, i, j) + out.load());
    }
  };
  if constexpr (Order == 0) all(c.row_order());
  if constexpr (Order == 1) all(c.column_order());
  if constexpr (Order == 2) all(c.grouped(3));
}
TEST(Claims, EveryOrderOfDealing) {
  const auto extents = [](std::mt19937_64& rng) {
    const std::int64_t p = around(rng, 2), m = around(rng, 4), n = around(rng, 8);
    return Extents2{{p, m, n}, {p, rarely(rng) ? around(rng, 4) : m, n}};
  };
  EXPECT_GT((fuzz<planes<0>>(30, extents)).unguarded, 10);
  EXPECT_GT((fuzz<planes<1>>(30, extents)).unguarded, 10);
  EXPECT_GT((fuzz<planes<2>>(30, extents)).unguarded, 10);
}

void counted_down(Mut<f32, 4> y, In<f32, dyn> x) {  // a while loop whose index runs from the last tile to the first
  auto X = x.tiles(shape<4>);
  auto i = X.count(0) - 1;
  auto s = zeros<f32, 4>();
  tile_while(i >= 0) {
    s += X.load(i);
    i = i - 1;
  }
  y.store(s);
}
TEST(Claims, WhileLoops) {
  fuzz<counted_down>(20, [](auto& rng) { return Extents2{{around(rng, 4)}, {around(rng, 4)}}; });
}

}  // namespace
}  // namespace tessera::test
