// Packed sequences, decoding over a cache and over pages, against f64.
#include "kernels/attention_reference.hpp"
#include "kernels/support.hpp"
#include "tessera/kernels/attention_varlen.hpp"
#include "tessera/kernels/decode_attention.hpp"
#include "tessera/kernels/paged_attention.hpp"

namespace tessera::kernels {
namespace {

void check_packed(const AttentionOptions& options) {
  const std::vector<i32> ends{0, 5, 5, 75, 230, 231};  // one sequence is empty
  const int tokens = ends.back(), heads = 2, d = 64;
  const auto q = random_tensor<bf16>({tokens, heads, d}, 1), k = random_tensor<bf16>({tokens, 1, d}, 2);
  const auto v = random_tensor<bf16>({tokens, 1, d}, 3);
  const auto hq = doubles(q), hk = doubles(k), hv = doubles(v);
  std::vector<double> want(hq.size());
  for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
    for (int i = ends[s]; i < ends[s + 1]; ++i) {
      for (int h = 0; h < heads; ++h) {
        const auto row = static_cast<std::size_t>((i * heads + h) * d);
        const auto sees = [&](std::ptrdiff_t j) {
          return j >= ends[s] && j < ends[s + 1] &&
                 (!options.causal || (j <= i && (options.window == 0 || i - j < options.window)));
        };
        attend(&hq[row], hk.data(), hv.data(), tokens, d, d, 0.125, sees, &want[row]);
      }
    }
  }
  const auto offsets = from(ends, {ends.size()}).sync();
  expect_close(attention_varlen(q, k, v, offsets, options).sync(), want, 1e-2, "packed");
}
TEST(AttentionVarlen, Sequences) {
  check_packed({});
  check_packed({.causal = true});
  check_packed({.causal = true, .window = 20});
}

constexpr int batch = 3, heads = 6, kv_heads = 2, group = 3, d = 64;

/// `row(b, h, j)`: the offset of key j of sequence b and head h.
template <class Row>
std::vector<double> decoded(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                            const std::vector<i32>& lengths, Row row) {
  std::vector<double> o(q.size());
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      std::vector<double> keys, values;
      const i32 n = lengths[static_cast<std::size_t>(b)];
      for (i32 j = 0; j < n; ++j) {
        const auto at = static_cast<std::ptrdiff_t>(row(b, h / group, j)) * d;
        keys.insert(keys.end(), k.begin() + at, k.begin() + at + d);
        values.insert(values.end(), v.begin() + at, v.begin() + at + d);
      }
      const auto to = static_cast<std::size_t>((b * heads + h) * d);
      attend(
          &q[to], keys.data(), values.data(), n, d, d, 0.125, [](std::ptrdiff_t) { return true; }, &o[to]);
    }
  }
  return o;
}

TEST(DecodeAttention, PartsOfTheCache) {
  const int capacity = 700;
  const auto q = random_tensor<f32>({batch, heads, d}, 4);
  const auto k = random_tensor<f32>({batch, kv_heads, capacity, d}, 5);
  const auto v = random_tensor<f32>({batch, kv_heads, capacity, d}, 6);
  for (const auto& lengths : {std::vector<i32>{700, 1, 300}, std::vector<i32>{0, 128, 129}}) {
    const auto n = from(lengths, {lengths.size()}).sync();
    const auto want = decoded(doubles(q), doubles(k), doubles(v), lengths,
                              [&](int b, int h, int j) { return (b * kv_heads + h) * capacity + j; });
    for (const int parts : {0, 1, 3, 9, 100})
      expect_close(decode_attention(q, k, v, n, 0, parts).sync(), want, 1e-5, std::to_string(parts) + " parts");
  }
  const auto n = zeros<i32>({batch}).sync(), two = from(std::vector<i32>{1, 2}, {2}).sync();
  const std::vector<double> nothing(batch * heads * d, 0.0);
  EXPECT_EQ(doubles(decode_attention(q, k.slice<2>(0, 0), v.slice<2>(0, 0), n).sync()), nothing);
  EXPECT_ERROR(ShapeError, (void)decode_attention(q, k, v, two), "argument lengths has the extents [2]");
}

/// Groups that fill tiles of 16 and 64 queries in part, against one query at a time.
TEST(DecodeAttention, GroupsOfAnySize) {
  const auto k = random_tensor<f32>({1, 1, 200, d}, 11), v = random_tensor<f32>({1, 1, 200, d}, 12);
  const auto n = from(std::vector<i32>{190}, {1}).sync();
  for (const int size : {1, 8, 9, 20}) {
    const auto q = random_tensor<f32>({1, size, d}, 13);
    std::vector<double> want(static_cast<std::size_t>(size * d));
    const auto hq = doubles(q), hk = doubles(k), hv = doubles(v);
    for (int h = 0; h < size; ++h)
      attend(
          &hq[static_cast<std::size_t>(h * d)], hk.data(), hv.data(), 190, d, d, 0.125,
          [](std::ptrdiff_t) { return true; }, &want[static_cast<std::size_t>(h * d)]);
    for (const int parts : {1, 2}) {
      expect_close(decode_attention(q, k, v, n, 0, parts).sync(), want, 1e-5, std::to_string(size) + " queries");
      expect_close(decode_attention<64>(q, k, v, n, 0, parts).sync(), want, 1e-5, "steps of 64 keys");
    }
  }
}

/// 132 SMs: rows and steps of 128 keys.
TEST(DecodeAttention, PartsFillTheDeviceOnce) {
  const Target h200{true, 132};
  EXPECT_EQ(decode_heuristic(8, 64, h200), 16) << "128 blocks of 4 steps";
  EXPECT_EQ(decode_heuristic(8, 256, h200), 16) << "128 blocks of 16 steps";
  EXPECT_EQ(decode_heuristic(64, 256, h200), 2);
  EXPECT_EQ(decode_heuristic(256, 64, h200), 1) << "nothing to split, nothing to combine";
  EXPECT_EQ(decode_heuristic(1024, 64, h200), 1);
  EXPECT_EQ(decode_heuristic(8, 516, h200, 2), 32) << "256 blocks of 17 pages, two on an SM";
  EXPECT_EQ(decode_heuristic(256, 8, h200, 2), 1);
  EXPECT_EQ(decode_heuristic(1, 1, h200), 1);
  EXPECT_EQ(decode_heuristic(0, 0, h200), 1);
}

TEST(PagedAttention, PagesInAnyOrder) {
  const int page = 32, pages = 20, most = 7;
  const auto q = random_tensor<f16>({batch, heads, d}, 7);
  const auto k = random_tensor<f16>({pages, kv_heads, page, d}, 8);
  const auto v = random_tensor<f16>({pages, kv_heads, page, d}, 9);
  std::vector<i32> table;
  for (int i = 0; i < batch * most; ++i) table.push_back(i * 7 % pages);
  const std::vector<i32> lengths{200, 33, 0};
  const auto t = from(table, {batch, most}).sync(), n = from(std::vector<i32>{1}, {1, 1}).sync();
  const auto used = from(lengths, {batch}).sync();
  const auto want = decoded(doubles(q), doubles(k), doubles(v), lengths, [&](int b, int h, int j) {
    return (table[static_cast<std::size_t>(b * most + j / page)] * kv_heads + h) * page + j % page;
  });
  for (const int parts : {0, 1, 4})
    expect_close(paged_attention(q, k, v, t, used, 0, parts).sync(), want, 2e-3, std::to_string(parts) + " parts");
  EXPECT_ERROR(ShapeError, (void)paged_attention(q, k, v, n, used), "argument table has the extents [1, 1]");
}

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

TEST(AttentionVarlen, WhatIsMaskedReachesNoSequence) {
  const std::vector<i32> ends{0, 40, 75, 140};
  const int tokens = ends.back();
  for (const int width : {4, 64, 128, 256}) {
    const auto q = random_tensor<bf16>({tokens, 1, width}, 1), k = random_tensor<bf16>({tokens, 1, width}, 2);
    const std::vector<double> v = doubles(random_tensor<bf16>({tokens, 1, width}, 3));
    const auto offsets = from(ends, {ends.size()}).sync();
    const auto run = [&](const std::vector<double>& values, const AttentionOptions& o) {
      const auto t = cast<bf16>(from(values, Dims<3>(tokens, 1, width))).sync();
      return doubles(attention_varlen(q, k, t, offsets, o).sync());
    };
    for (const AttentionOptions& o :
         {AttentionOptions{}, AttentionOptions{.causal = true}, AttentionOptions{.causal = true, .window = 10}}) {
      const auto clean = run(v, o);
      for (const float what : {nan, inf}) {
        auto spoilt = v;
        spoilt[static_cast<std::size_t>(50 * width + 1)] = static_cast<double>(what);
        const auto got = run(spoilt, o);
        for (int i = 0; i < tokens; ++i) {
          const bool sees = i >= 40 && i < 75 && (!o.causal || (i >= 50 && (o.window == 0 || i - 50 < o.window)));
          for (int c = 0; c < width; ++c) {
            const auto n = static_cast<std::size_t>(i * width + c);
            if (sees && c == 1)
              ASSERT_FALSE(std::isfinite(got[n])) << i;
            else
              ASSERT_NEAR(got[n], clean[n], 2e-2) << i << " " << c;
          }
        }
      }
    }
  }
}
/// Tokens before the first offset and after the last one are sequences as well; none sees keys beyond the tokens.
TEST(AttentionVarlen, OffsetsThatDoNotCoverTheTokens) {
  const auto q = random_tensor<f32>({9, 1, d}, 1), v = random_tensor<f32>({9, 1, d}, 2);
  const auto run = [&](const std::vector<i32>& ends) {
    return doubles(attention_varlen(q, q, v, from(ends, {ends.size()}).sync()).sync());
  };
  EXPECT_EQ(run({4, 6}), run({0, 4, 6, 9}));
  EXPECT_EQ(run({100, 200}), run({0, 9}));
  EXPECT_EQ(run({-5, 3, 100}), run({0, 3, 9}));
}

TEST(DecodeAttention, NothingBeyondTheLengthReachesAResult) {
  const std::vector<i32> lengths{200, 1, 0};
  const int capacity = 300;
  const auto n = from(lengths, {batch}).sync(), more = from(std::vector<i32>{500, -3, 200}, {batch}).sync();
  const auto q = random_tensor<bf16>({batch, heads, d}, 4);
  std::vector<double> k = doubles(random_tensor<bf16>({batch, kv_heads, capacity, d}, 5)), v = k;
  const auto run = [&](const auto& l, int parts) {
    const Dims<4> dims(batch, kv_heads, capacity, d);
    return doubles(
        decode_attention(q, cast<bf16>(from(k, dims)).sync(), cast<bf16>(from(v, dims)).sync(), l, 0, parts).sync());
  };
  const auto one = run(n, 1), three = run(n, 3);
  const auto outside = run(more, 1);
  EXPECT_EQ(outside[static_cast<std::size_t>(heads * d)], 0) << "a negative length is none";
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < kv_heads; ++h) {
      for (int j = lengths[static_cast<std::size_t>(b)]; j < capacity; ++j) {
        const auto at = static_cast<std::size_t>(((b * kv_heads + h) * capacity + j) * d);
        for (std::size_t c = 0; c < d; ++c) k[at + c] = v[at + c] = c % 2 == 0 ? nan : inf;
      }
    }
  }
  EXPECT_EQ(run(n, 1), one);
  EXPECT_EQ(run(n, 3), three);
}
TEST(PagedAttention, NoPageThatIsNotItsOwnReachesASequence) {
  const int page = 32, pages = 12;
  const auto q = random_tensor<f16>({batch, heads, d}, 7);
  std::vector<double> k = doubles(random_tensor<f16>({pages, kv_heads, page, d}, 8)), v = k;
  const Dims<4> dims(pages, kv_heads, page, d);
  const auto run = [&](const std::vector<i32>& table, const std::vector<i32>& lengths, int parts) {
    return doubles(paged_attention(q, cast<f16>(from(k, dims)).sync(), cast<f16>(from(v, dims)).sync(),
                                   from(table, {batch, 3}).sync(), from(lengths, {batch}).sync(), 0, parts)
                       .sync());
  };
  for (const int parts : {1, 4}) {
    const std::vector<i32> lengths{70, 33, 0};
    const auto want = run({0, 1, 2, 3, 4, 5, 6, 7, 8}, lengths, parts);
    const auto saved = v;
    const auto spoil = [&](int p, int from) {
      for (int h = 0; h < kv_heads; ++h)
        for (int j = from; j < page; ++j)
          for (int c = 0; c < d; ++c)
            k[static_cast<std::size_t>(((p * kv_heads + h) * page + j) * d + c)] =
                v[static_cast<std::size_t>(((p * kv_heads + h) * page + j) * d + c)] = nan;
    };
    spoil(2, 6), spoil(4, 1), spoil(11, 0);  // after the lengths, and the last page, which no sequence uses
    EXPECT_EQ(run({0, 1, 2, 3, 4, 5, 6, 7, 8}, lengths, parts), want);
    // Page numbers out of range: as if the keys did not exist.
    const auto gone = run({0, 999, 2, -1, 4, 5, 6, 7, 8}, lengths, parts);
    const auto fewer = run({0, 2, 5, 4, 5, 5, 6, 7, 8}, {38, 1, 0}, parts);
    for (std::size_t i = 0; i < gone.size(); ++i) ASSERT_NEAR(gone[i], fewer[i], 2e-3) << i;
    k = v = saved;
  }
}

}  // namespace
}  // namespace tessera::kernels
