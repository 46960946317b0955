// Attention against f64: full, causal, window, grouped heads, other lengths of queries than of keys.
#include "tessera/kernels/attention.hpp"

#include "kernels/attention_reference.hpp"
#include "kernels/support.hpp"

namespace tessera::kernels {
namespace {

struct Case {
  int batch, heads, kv_heads, queries, keys, d;
  double growth = 0;  ///< keys get larger along the sequence, so do scores
};

/// Normal numbers; the last key of each head (1 + growth) times as large.
template <class T>
Tensor<T, 4> growing(int batch, int heads, int length, int d, double growth) {
  std::vector<double> x = doubles(random_tensor<T>({batch, heads, length, d}, 2));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = i / static_cast<std::size_t>(d) % static_cast<std::size_t>(length);
    x[i] *= 1 + growth * static_cast<double>(at) / length;
  }
  return cast<T>(from(x, Dims<4>(batch, heads, length, d))).sync();
}

/// `run(q, k, v, options)`: the attention to check.
template <class T, class Run>
void check_run(const Case& c, const AttentionOptions& options, Run run) {
  const auto q = random_tensor<T>({c.batch, c.heads, c.queries, c.d}, 1);
  const auto k = growing<T>(c.batch, c.kv_heads, c.keys, c.d, c.growth);
  const auto v = random_tensor<T>({c.batch, c.kv_heads, c.keys, c.d}, 3);
  const auto hq = doubles(q), hk = doubles(k), hv = doubles(v);
  std::vector<double> want(hq.size());
  for (int bh = 0; bh < c.batch * c.heads; ++bh) {
    const int kv = bh / c.heads * c.kv_heads + bh % c.heads / (c.heads / c.kv_heads);
    for (int i = 0; i < c.queries; ++i) {
      const auto sees = [&](std::ptrdiff_t j) {
        const std::ptrdiff_t at = i + c.keys - c.queries;
        return !options.causal || (j <= at && (options.window == 0 || at - j < options.window));
      };
      const std::ptrdiff_t row = (static_cast<std::ptrdiff_t>(bh) * c.queries + i) * c.d;
      const std::ptrdiff_t keys = static_cast<std::ptrdiff_t>(kv) * c.keys * c.d;
      attend(&hq[static_cast<std::size_t>(row)], hk.data() + keys, hv.data() + keys, c.keys, c.d, c.d,
             options.scale_for(c.d), sees, &want[static_cast<std::size_t>(row)]);
    }
  }
  expect_close(run(q, k, v, options), want, 1e-2,
               std::to_string(c.queries) + " queries, " + std::to_string(c.keys) + " keys, d " + std::to_string(c.d));
}
template <class T = bf16>
void check(const Case& c, const AttentionOptions& options) {
  check_run<T>(c, options, [](const auto& q, const auto& k, const auto& v, const AttentionOptions& o) {
    return attention(q, k, v, o).sync();
  });
}

TEST(Attention, Full) {
  check({1, 2, 1, 70, 300, 64}, {});
  check({2, 2, 2, 1, 1, 32}, {});
}
TEST(Attention, Causal) {
  check({2, 4, 2, 200, 200, 64}, {.causal = true});
  check({1, 2, 1, 50, 300, 128}, {.causal = true});  // the last 50 of 300 positions
  check({1, 1, 1, 100, 70, 80}, {.causal = true});   // the first 30 queries see nothing
  check({1, 1, 1, 130, 130, 256}, {.causal = true});
  for (const int keys : {330, 394})
    check({1, 2, 1, 330, keys, 128}, {.causal = true});  // 64 divides the difference of lengths
}
TEST(Attention, Window) {
  check({1, 2, 1, 300, 300, 64}, {.causal = true, .window = 50});
  check({1, 1, 1, 300, 300, 64}, {.causal = true, .window = 1});
  check({1, 1, 1, 60, 400, 64}, {.causal = true, .window = 129});
  check({1, 1, 1, 100, 70, 64}, {.causal = true, .window = 0x7FFFFFFF});  // from before the first key
}
/// Scores that exceed the range of the first keys by far, or a little: the weights are then relative to a running
/// maximum.
TEST(Attention, ScoresThatGrow) {
  for (const double growth : {3.0, 30.0, 300.0}) {
    check({1, 2, 1, 70, 300, 64, growth}, {});
    check({1, 1, 1, 200, 200, 64, growth}, {.causal = true});
    check<f16>({1, 1, 1, 130, 400, 64, growth}, {});
  }
  check({1, 1, 1, 70, 400, 64, 30}, {.causal = true, .window = 50});
}
TEST(Attention, WideHeads) {
  check({1, 2, 1, 70, 130, 264}, {});
  check<f16>({1, 1, 1, 100, 70, 512}, {.causal = true});
  check<f32>({1, 1, 1, 20, 90, 1024}, {.causal = true, .window = 9});
}
TEST(Attention, NegativeScales) {
  check({1, 1, 1, 100, 300, 64}, {.scale = -0.1f});
  check({1, 1, 1, 200, 200, 64}, {.scale = -0.5f, .causal = true});
  check({1, 1, 1, 200, 200, 64}, {.scale = -0.5f, .causal = true, .window = 30});
  check<f16>({1, 1, 1, 200, 200, 64}, {.scale = -2.0f, .causal = true});
}
/// The last tile of keys after the loop instead of in it.
template <AttentionMask Mask>
Tensor<bf16, 4> straight(const Tensor<bf16, 4>& q, const Tensor<bf16, 4>& k, const Tensor<bf16, 4>& v,
                         const AttentionOptions& o) {
  return kernel<attention_forward<Mask, bf16, 64, 128, 64, false, true>>(empty<bf16>(q.dims()), q, k, v,
                                                                         o.scale_for(q.dim(3)), 0)
      .sync();
}
TEST(Attention, LastTileBehindTheLoop) {
  for (const double growth : {0.0, 30.0}) {
    check_run<bf16>({1, 2, 1, 70, 300, 64, growth}, {}, straight<AttentionMask::Full>);
    check_run<bf16>({1, 1, 1, 10, 90, 64, growth}, {}, straight<AttentionMask::Full>);
    for (const auto& [queries, keys] : {std::pair(330, 330), std::pair(60, 252), std::pair(230, 102)})
      check_run<bf16>({2, 2, 1, queries, keys, 64, growth}, {.causal = true}, straight<AttentionMask::Causal>);
  }
  EXPECT_ERROR(ShapeError, check_run<bf16>({1, 1, 1, 64, 100, 64}, {.causal = true}, straight<AttentionMask::Causal>),
               "keys - queries must be a multiple of a tile's queries");
}
TEST(Attention, ShapesThatDoNotFit) {
  const auto q = random_tensor<bf16>({1, 4, 10, 32}, 1), k = random_tensor<bf16>({1, 3, 10, 32}, 2);
  const auto two = random_tensor<bf16>({1, 2, 10, 32}, 2), wide = random_tensor<bf16>({1, 2, 10, 16}, 3);
  EXPECT_ERROR(ShapeError, (void)attention(q, k, k), "its heads must be a multiple of k's");
  EXPECT_ERROR(ShapeError, (void)attention(q, wide, wide),
               "argument k has the extents [1, 2, 10, 16]: axis 3 must be 32");
  EXPECT_ERROR(ShapeError, (void)attention(q, two, wide), "argument v");
  EXPECT_ERROR(ShapeError, (void)attention(q, two, two, {.window = 3}), "needs causal");
  EXPECT_EQ(attention(q, two, two).sync().dims(), Dims(1, 4, 10, 32));
}

/// One number in the values of key `bad` is `what`: it reaches the queries that see the key, and no others.
template <class T>
void check_one_value(const AttentionOptions& o, int length, int extra, int d, int bad, float what, double growth) {
  const int keys = length + extra;
  const auto q = random_tensor<T>({1, 1, length, d}, 1), k = growing<T>(1, 1, keys, d, growth);
  std::vector<double> v = doubles(random_tensor<T>({1, 1, keys, d}, 3));
  const auto clean = doubles(attention(q, k, cast<T>(from(v, Dims<4>(1, 1, keys, d))).sync(), o).sync());
  v[static_cast<std::size_t>(bad * d + 3)] = static_cast<double>(what);
  const auto got = doubles(attention(q, k, cast<T>(from(v, Dims<4>(1, 1, keys, d))).sync(), o).sync());
  for (int i = 0; i < length; ++i) {
    const int at = i + extra;
    const bool sees = !o.causal || (bad <= at && (o.window == 0 || at - bad < o.window));
    for (int c = 0; c < d; ++c) {
      const auto n = static_cast<std::size_t>(i * d + c);
      if (sees && c == 3 && std::isnan(what))
        ASSERT_TRUE(std::isnan(got[n])) << i;
      else if (sees && c == 3)
        ASSERT_FALSE(std::isfinite(got[n]) && growth == 0) << i;
      else
        ASSERT_NEAR(got[n], clean[n], 2e-2) << i << " " << c << " bad " << bad << " d " << d;
    }
  }
}
TEST(Attention, WhatIsMaskedReachesNoQuery) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const int d : {64, 128, 256}) {
    for (const float what : {nan, inf, -inf}) {
      check_one_value<bf16>({.causal = true}, 200, 0, d, 150, what, 0);
      check_one_value<bf16>({.causal = true}, 70, 33, d, 90, what, 0);
      check_one_value<f16>({.causal = true, .window = 20}, 150, 0, d, 100, what, 0);
    }
    check_one_value<bf16>({.causal = true}, 150, 0, d, 5, nan, 30);
    check_one_value<bf16>({}, 70, 30, d, 50, nan, 0);
  }
  check_one_value<f32>({.causal = true}, 8, 0, 4, 7, nan, 0);
  // Queries that see nothing give 0, whatever the keys and values are.
  const auto q = random_tensor<bf16>({1, 1, 100, 64}, 1), bad = full<bf16>({1, 1, 70, 64}, bf16(nan)).sync();
  const auto o = doubles(attention(q, bad, bad, {.causal = true}).sync());
  EXPECT_EQ(std::vector<double>(o.begin(), o.begin() + 30 * 64), std::vector<double>(30 * 64, 0.0));
  EXPECT_TRUE(std::isnan(o[30 * 64]));
}

}  // namespace
}  // namespace tessera::kernels
