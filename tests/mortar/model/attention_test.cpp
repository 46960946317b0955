// Attention of prompt chunks over pages, against float64: several sequences that share the pool of pages, chunks that
// begin anywhere, slots that are not in use, scores far above those of the first page. Each over a cache of bf16 and of
// FP8: then float64 has the elements times their scales, so that the error is the kernel's alone. And gates of many
// rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <tessera/tessera.hpp>
#include <vector>

#include "model/attention_kernels.hpp"
#include "model/kernels.hpp"
#include "model/one_token_kernels.hpp"
#include "tessera/kernels/paged_attention.hpp"

namespace mortar {
namespace THIS_FILE {

constexpr int kHeads = 4, kKvHeads = 2, kDepth = 64, kPages = 12;
constexpr float kScale = 0.125f;
/// Of an FP8 cache: of the keys of both key heads, and of the values.
constexpr std::array<float, 2 * kKvHeads> kScales{0.5f, 0.03125f, 0.25f, 4.0f};

template <int D>
void there_and_back(Mut<f32, 4, D> y, In<f32, dyn, dyn> x) {
  y.store(kernels::from_row_order(kernels::in_row_order(x.load_like(y))));
}
template <int D>
void rows_in_order(Mut<f32, 4, D> y, In<f32, dyn, dyn> x) {
  y.store(kernels::in_row_order(x.load_like(y)));
}
template <int D>
void columns_in_order(Mut<f32, 4, D> y, In<f32, dyn, dyn> x) {
  y.store(kernels::in_mma_order(x.load_like(y)));
}

/// A chunk of a sequence: tokens [first, first + count).
struct Chunk {
  std::int64_t first, count;
  std::vector<i32> pages;
};

struct Case {
  std::vector<Chunk> chunks;
  std::vector<float> q, k, v;  // q: [tokens, heads, depth]; k, v: [kv_heads, slots, depth]
  std::int64_t tokens = 0;
  int tile = kQueryTile;

  static std::vector<float> normals(std::mt19937& random, std::int64_t n) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& x : values) x = static_cast<float>(bf16(normal(random)));
    return values;
  }
  Case(std::vector<Chunk> all, unsigned seed, int query_tile = kQueryTile) : chunks(std::move(all)), tile(query_tile) {
    std::mt19937 random(seed);
    for (const Chunk& c : chunks) tokens = ceil_div(tokens, std::int64_t{tile}) * tile + c.count;
    q = normals(random, tokens * kHeads * kDepth);
    k = normals(random, kKvHeads * kPages * kPage * kDepth);
    v = normals(random, kKvHeads * kPages * kPage * kDepth);
  }
  /// The key or value of a position of a sequence.
  float& at(std::vector<float>& cache, const Chunk& c, int kv_head, std::int64_t position, int d) const {
    const std::int64_t slot =
        c.pages[static_cast<std::size_t>(position / kPage)] * std::int64_t{kPage} + position % kPage;
    return cache[static_cast<std::size_t>((kv_head * std::int64_t{kPages * kPage} + slot) * kDepth + d)];
  }
  /// f(chunk, token of the step, position) for all tokens.
  template <class F>
  void each_token(F&& f) const {
    std::int64_t token = 0;
    for (const Chunk& c : chunks) {
      token = ceil_div(token, std::int64_t{tile}) * tile;
      for (std::int64_t i = 0; i < c.count; ++i) f(c, token++, c.first + i);
    }
  }

  static Tensor<i32, 1> numbers(const std::vector<i32>& n) {
    return from(n, {static_cast<std::int64_t>(n.size())}).sync();
  }
  template <int R>
  static Tensor<bf16, R> tensor(const std::vector<float>& x, const Dims<R>& dims) {
    const std::vector<bf16> rounded(x.begin(), x.end());
    return reshape(from(rounded, {static_cast<std::int64_t>(rounded.size())}).sync(), dims);
  }
  /// Keys and values become numbers that a cache of C can hold.
  template <class C>
  void round_cache() {
    if constexpr (kernels::has_scales<C>)
      for (std::vector<float>* cache : {&k, &v})
        for (std::size_t i = 0; i < cache->size(); ++i) {
          const float scale = scale_of(cache == &v, i);
          (*cache)[i] = static_cast<float>(f8e4m3((*cache)[i] / scale)) * scale;
        }
  }
  static float scale_of(bool value, std::size_t element) {
    return kScales[(value ? kKvHeads : 0) + element / (kPages * kPage * kDepth)];
  }
  /// The keys or the values as a cache of C has them.
  template <class C>
  Tensor<C, 4> cache_of(bool value, const Dims<4>& dims) const {
    const std::vector<float>& x = value ? v : k;
    std::vector<C> elements;
    for (std::size_t i = 0; i < x.size(); ++i)
      elements.emplace_back(kernels::has_scales<C> ? x[i] / scale_of(value, i) : x[i]);
    return reshape(from(elements, {std::ssize(elements)}).sync(), dims);
  }
  /// What kernels take for the scales of a cache of C.
  template <class C>
  static auto scales() {
    if constexpr (kernels::has_scales<C>)
      return from(std::vector<float>(kScales.begin(), kScales.end()), {2, kKvHeads}).sync();
    else
      return false;
  }
  /// f(queries, keys, values, table, lengths, rows and positions of tiles), on the default device.
  template <class C>
  auto with_tensors(auto f) const {
    std::vector<i32> rows, positions, lengths, table;
    std::size_t longest = 0;
    for (const Chunk& c : chunks) longest = std::max(longest, c.pages.size());
    for (std::size_t r = 0; r < chunks.size(); ++r) {
      const Chunk& c = chunks[r];
      for (std::int64_t i = 0; i < c.count; i += tile) {
        rows.push_back(static_cast<i32>(r));
        positions.push_back(static_cast<i32>(c.first + i));
      }
      lengths.push_back(static_cast<i32>(c.first + c.count));
      table.insert(table.end(), c.pages.begin(), c.pages.end());
      table.resize((r + 1) * longest, -7);  // entries beyond a sequence's pages may be anything
    }
    const Dims<4> cache({std::int64_t{kKvHeads}, std::int64_t{kPages}, std::int64_t{kPage}, std::int64_t{kDepth}});
    const auto keys = cache_of<C>(false, cache), values = cache_of<C>(true, cache);
    const auto both = numbers(table);
    return f(tensor(q, queries()), keys.template permute<1, 0, 2, 3>(), values.template permute<1, 0, 2, 3>(),
             both.reshape({static_cast<std::int64_t>(chunks.size()), static_cast<std::int64_t>(longest)}),
             numbers(lengths), numbers(rows), numbers(positions));
  }
  Dims<3> queries() const { return {tokens, std::int64_t{kHeads}, std::int64_t{kDepth}}; }
  Tensor<bf16, 3> poisoned() const { return full<bf16>(queries(), bf16(777.0f)).sync(); }
  static std::vector<float> on_host(const Tensor<bf16, 3>& o) {
    const auto found = host(o).sync();
    return {found.begin(), found.end()};
  }

  template <int Tile, class C = bf16>
  std::vector<float> run() const {
    return with_tensors<C>([&](const auto& queries, const auto& keys, const auto& values, const auto&... of_step) {
      return on_host(kernel<attend_chunks<C, Tile, kDepth>>(poisoned(), queries, keys, values, of_step..., kScale,
                                                            scales<C>(), false)
                         .sync());
    });
  }
  /// Decoding, for chunks of one token: whole, or in `parts` KV splits.
  template <class C, bool Ordered = false>
  std::vector<float> run_decoding(std::int64_t parts) const {
    constexpr int kQueries = 8;
    return with_tensors<C>([&](const auto& queries, const auto& keys, const auto& values, const auto& table,
                               const auto& lengths, const auto&...) {
      const kernels::DecodeShape s{tokens, kKvHeads, parts, kHeads / kKvHeads, kDepth};
      const auto groups = reshape(queries.view(), s.result_dims());
      if (parts == 1)
        return on_host(reshape(kernel<kernels::paged_whole<bf16, kQueries, kPage, kDepth, C, Ordered>>(
                                   full<bf16>(s.result_dims(), bf16(777.0f)), groups, keys, values, table, lengths,
                                   kScale, scales<C>()),
                               this->queries())
                           .sync());
      auto partial = kernel<kernels::paged_split<bf16, kQueries, kPage, kDepth, C, Ordered>>(
          full<f32>(s.parts_dims(), 777.0f), full<f32>(s.sums_dims(), 777.0f), groups, keys, values, table, lengths,
          kScale, scales<C>());
      return on_host(
          reshape(kernels::combine_splits<bf16>(std::move(partial), s, SourceLocation::current()), this->queries())
              .sync());
    });
  }
  /// The arithmetic of prompts for one token of each sequence.
  template <class C>
  std::vector<float> run_last() const {
    return with_tensors<C>([&](const auto& queries, const auto& keys, const auto& values, const auto& table,
                               const auto& lengths, const auto&...) {
      return on_host(kernel<attend_last<C, kSmallQueryTile, kDepth>>(poisoned(), queries, keys, values, table, lengths,
                                                                     kScale, scales<C>())
                         .sync());
    });
  }
  /// The same with the keys of a tile in S splits, of which R queries at a time are combined.
  template <int S, int R, class C = bf16>
  std::vector<float> run_in_splits() const {
    return with_tensors<C>([&](const auto& queries, const auto& keys, const auto& values, const auto& table,
                               const auto& lengths, const auto& rows, const auto& positions) {
      const std::int64_t blocks = rows.dim(0) * kHeads * S;
      auto [parts, sums] = kernel<attend_splits<C, kQueryTile, kDepth>>(
                               full<f32>({blocks, std::int64_t{kQueryTile}, std::int64_t{kDepth}}, 777.0f),
                               full<f32>({blocks, std::int64_t{kQueryTile}}, 777.0f), queries, keys, values, table,
                               lengths, rows, positions, S, kScale, scales<C>(), false)
                               .sync();
      return on_host(kernel<combine_splits_of_tiles<kQueryTile, R, S, kDepth>>(poisoned(), parts, sums, kHeads).sync());
    });
  }
  /// Runs the attention over pages that were widened before, in memory that nothing has written.
  template <int S = 1>
  std::vector<float> run_widened() const {
    using C = f8e4m3;
    return with_tensors<C>([&](const auto& queries, const auto& keys, const auto& values, const auto& table,
                               const auto& lengths, const auto& rows, const auto& positions) {
      const auto of_row = static_cast<i32>(table.dim(1) + 1);
      const Dims<4> dims({table.dim(0) * of_row, std::int64_t{kKvHeads}, std::int64_t{kPage}, std::int64_t{kDepth}});
      const f16 poison(std::numeric_limits<float>::quiet_NaN());
      const auto [k, v] = kernel<widen_pages<C, f16, kDepth>>(full<f16>(dims, poison), full<f16>(dims, poison), keys,
                                                              values, table, lengths, of_row)
                              .sync();
      const auto as_multiplied = cast<f16>(queries).sync();
      if constexpr (S == 1)
        return on_host(kernel<attend_chunks<f16, kQueryTile, kDepth, C, f16>>(poisoned(), as_multiplied, k, v, table,
                                                                              lengths, rows, positions, kScale,
                                                                              scales<C>(), of_row)
                           .sync());
      const std::int64_t blocks = rows.dim(0) * kHeads * S;
      auto [parts, sums] = kernel<attend_splits<f16, kQueryTile, kDepth, C, f16>>(
                               full<f32>({blocks, std::int64_t{kQueryTile}, std::int64_t{kDepth}}, 777.0f),
                               full<f32>({blocks, std::int64_t{kQueryTile}}, 777.0f), as_multiplied, k, v, table,
                               lengths, rows, positions, S, kScale, scales<C>(), of_row)
                               .sync();
      return on_host(
          kernel<combine_splits_of_tiles<kQueryTile, 16, S, kDepth>>(poisoned(), parts, sums, kHeads).sync());
    });
  }
  /// The largest difference to float64, relative to the largest value.
  double error(std::vector<float> found) {
    double worst = 0;
    each_token([&](const Chunk& c, std::int64_t token, std::int64_t position) {
      for (int head = 0; head < kHeads; ++head) {
        const int kv_head = head / (kHeads / kKvHeads);
        const auto query = static_cast<std::size_t>((token * kHeads + head) * kDepth);
        std::vector<double> weights;
        double top = -std::numeric_limits<double>::infinity(), all = 0;
        for (std::int64_t p = 0; p <= position; ++p) {
          double score = 0;
          for (int d = 0; d < kDepth; ++d)
            score += double{q[query + static_cast<std::size_t>(d)]} * double{at(k, c, kv_head, p, d)};
          weights.push_back(score * double{kScale});
          top = std::max(top, weights.back());
        }
        for (double& w : weights) all += (w = std::exp(w - top));
        for (int d = 0; d < kDepth; ++d) {
          double expected = 0;
          for (std::int64_t p = 0; p <= position; ++p)
            expected += weights[static_cast<std::size_t>(p)] / all * double{at(v, c, kv_head, p, d)};
          const double difference = std::abs(double{found[query + static_cast<std::size_t>(d)]} - expected);
          worst = std::isnan(difference) ? 1e9 : std::max(worst, difference);
        }
      }
    });
    return worst;
  }
};

// bf16 weights and results: 2^-8 each, of values up to 4.
constexpr double kTolerance = 0.03;

/// f<type of the cache's elements>().
void for_each_cache(auto f) {
  {
    SCOPED_TRACE("bf16");
    f.template operator()<bf16>();
  }
  SCOPED_TRACE("f8e4m3");
  f.template operator()<f8e4m3>();
}

std::vector<Chunk> three_chunks() { return {{0, 70, {5, 2}}, {37, 91, {7, 0, 3}}, {128, 3, {1, 4, 9}}}; }

TEST(ChunkAttention, InSplitsEqualsFloat64) {
  // Splits without a key, splits that no query of a tile sees from its first key on, and more splits than pages.
  for_each_cache([]<class C>() {
    Case large(three_chunks(), 2);
    large.round_cache<C>();
    EXPECT_LT(large.error((large.run_in_splits<2, 16, C>())), kTolerance);
    EXPECT_LT(large.error((large.run_in_splits<4, 1, C>())), kTolerance);
    EXPECT_LT(large.error((large.run_in_splits<8, 8, C>())), kTolerance);
  });
}

TEST(ChunkAttention, EqualsFloat64) {
  for_each_cache([]<class C>() {
    Case small(three_chunks(), 1, kSmallQueryTile), large(three_chunks(), 2);
    small.round_cache<C>();
    large.round_cache<C>();
    EXPECT_LT(small.error(small.run<kSmallQueryTile, C>()), kTolerance);
    EXPECT_LT(large.error(large.run<kQueryTile, C>()), kTolerance);
  });
}

/// Every f8e4m3 is an f16, so it makes no difference when it is converted.
TEST(ChunkAttention, WidenedPagesGiveTheBitsOfThoseOfTheCache) {
  Case c(three_chunks(), 2);
  c.round_cache<f8e4m3>();
  const auto found = c.run_widened();
  EXPECT_LT(c.error(found), kTolerance);
  EXPECT_EQ(found, (c.run<kQueryTile, f8e4m3>()));
  EXPECT_EQ(c.run_widened<4>(), (c.run_in_splits<4, 16, f8e4m3>()));
}

TEST(ChunkAttention, AnswersEqualFloat64) {
  for_each_cache([]<class C>() {
    Case c({{0, 1, {5}}, {63, 1, {7, 2}}, {64, 1, {8, 11}}, {191, 1, {1, 4, 9}}, {150, 1, {0, 6, 3}}}, 12, 1);
    c.round_cache<C>();
    EXPECT_LT(c.error(c.run_decoding<C>(1)), kTolerance);
    EXPECT_LT(c.error(c.run_decoding<C>(2)), kTolerance);
    EXPECT_LT(c.error(c.run_decoding<C>(4)), kTolerance);
    EXPECT_LT(c.error((c.run_decoding<C, true>(1))), kTolerance);
    EXPECT_LT(c.error((c.run_decoding<C, true>(2))), kTolerance);
    EXPECT_LT(c.error(c.run_last<C>()), kTolerance);
  });
}

// Both orders are permutations, and the second one is undone.
TEST(MmaOrder, RowsComeBack) {
  const auto expect = []<int D>(std::integral_constant<int, D>) {
    std::vector<f32> numbers(4 * D);
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    const auto x = from(numbers, {4, D}).sync();
    const auto run = [&](auto order) { return host(order(full<f32>({4, D}, 777.0f), x).sync()).sync(); };
    EXPECT_EQ(run(kernel<there_and_back<D>>), numbers);
    for (const auto& ordered : {run(kernel<rows_in_order<D>>), run(kernel<columns_in_order<D>>)}) {
      EXPECT_NE(ordered, numbers);
      for (int row = 0; row < 4; ++row) {
        std::vector<f32> sorted(ordered.begin() + row * D, ordered.begin() + (row + 1) * D);
        std::sort(sorted.begin(), sorted.end());
        EXPECT_TRUE(std::equal(sorted.begin(), sorted.end(), numbers.begin() + row * D));
      }
    }
  };
  expect(std::integral_constant<int, 64>());
  expect(std::integral_constant<int, 128>());
  expect(std::integral_constant<int, 256>());
}

TEST(ChunkAttention, IgnoresWhatIsInSlotsThatAreNotInUse) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto poison = [nan](Case& c) {
    for (const Chunk& chunk : c.chunks) {
      const auto end = static_cast<std::int64_t>(chunk.pages.size()) * kPage;
      for (std::int64_t p = chunk.first + chunk.count; p < end; ++p)
        for (int head = 0; head < kKvHeads; ++head)
          for (int d = 0; d < kDepth; ++d) c.at(c.k, chunk, head, p, d) = c.at(c.v, chunk, head, p, d) = nan;
    }
  };
  for_each_cache([&]<class C>() {
    Case c(three_chunks(), 3), answers({{20, 1, {5}}, {77, 1, {7, 2}}}, 13, 1);
    for (Case* each : {&c, &answers}) {
      each->round_cache<C>();
      poison(*each);
    }
    EXPECT_LT(c.error(c.run<kQueryTile, C>()), kTolerance);
    EXPECT_LT(c.error((c.run_in_splits<2, 16, C>())), kTolerance);
    EXPECT_LT(answers.error(answers.run_decoding<C>(1)), kTolerance);
    EXPECT_LT(answers.error(answers.run_last<C>()), kTolerance);
  });
}

TEST(ChunkAttention, ScoresFarAboveThoseOfTheFirstPage) {
  // One key of a later page lies along one query: its score is hundreds above those that the weights are relative to.
  for_each_cache([]<class C>() {
    Case c({{64, 64, {3, 8}}}, 4);
    for (int d = 0; d < kDepth; ++d) {
      const float q = c.q[static_cast<std::size_t>((30 * kHeads) * kDepth + d)];
      c.at(c.k, c.chunks[0], 0, 80, d) = static_cast<float>(bf16(40 * q));
    }
    c.round_cache<C>();
    EXPECT_LT(c.error(c.run<kQueryTile, C>()), kTolerance);
  });
}

/// A head, [2, kDepth / 2], divided by its root mean square, times `norm` (empty: neither), and rotated by `angle`
/// radians per pair with the factor of YaRN; rounded once.
constexpr double kRopeFactor = 1.25;
std::vector<float> rotated_head(const float* head, const std::vector<float>& norm, const std::vector<double>& angle) {
  constexpr std::size_t kHalf = kDepth / 2;
  double squares = 0;
  for (int d = 0; d < kDepth; ++d) squares += double{head[d]} * double{head[d]};
  const auto normed = [&](std::size_t i) {
    return norm.empty() ? double{head[i]} : head[i] / std::sqrt(squares / kDepth) * norm[i];
  };
  std::vector<float> made(kDepth);
  for (std::size_t i = 0; i < kHalf; ++i) {
    const double a = normed(i), b = normed(kHalf + i);
    const double c = kRopeFactor * std::cos(angle[i]), s = kRopeFactor * std::sin(angle[i]);
    made[i] = static_cast<float>(bf16(static_cast<float>(a * c - b * s)));
    made[kHalf + i] = static_cast<float>(bf16(static_cast<float>(b * c + a * s)));
  }
  return made;
}

/// One token at position c.chunks[0].first: its query, key and value come with the projections, of which the last two
/// have to be in the cache afterwards, where nothing else changes. `written`: false for a token without a slot.
/// Combined: slices that finish_one takes at once, of which the last may not exist. Norm: HeadNorm, or NoNorm for heads
/// without. An FP8 cache gets the token's key and value rounded; its own attention has them as they are.
template <class C = bf16, int Combined = 8, class Norm = HeadNorm>
void expect_one_token(Case& c, bool written = true) {
  c.round_cache<C>();
  constexpr int kGroup = kHeads / kKvHeads, kHalf = kDepth / 2, kKeys = 32, kSlices = 8;
  const Chunk& chunk = c.chunks[0];
  const i32 slot =
      chunk.pages[static_cast<std::size_t>(chunk.first / kPage)] * kPage + static_cast<i32>(chunk.first % kPage);
  std::vector<float> heads = c.q;
  std::mt19937 random(11);
  const auto own = Case::normals(random, 2 * kKvHeads * kDepth);
  heads.insert(heads.end(), own.begin(), own.end());
  std::vector<double> angle;
  std::vector<float> angles(kDepth);
  for (std::size_t i = 0; i < kHalf; ++i) {
    angle.push_back(static_cast<double>(chunk.first) * std::pow(100.0, -static_cast<double>(i) / kHalf));
    angles[i] = static_cast<float>(kRopeFactor * std::cos(angle[i]));
    angles[kHalf + i] = static_cast<float>(kRopeFactor * std::sin(angle[i]));
  }
  const auto qkv = Case::tensor(
      heads, Dims<4>({std::int64_t{1}, std::int64_t{kHeads + 2 * kKvHeads}, std::int64_t{2}, std::int64_t{kHalf}}));
  const Dims<4> dims({std::int64_t{kKvHeads}, std::int64_t{kPages * kPage}, std::int64_t{2}, std::int64_t{kHalf}});
  auto keys = c.cache_of<C>(false, dims), values = c.cache_of<C>(true, dims);
  const auto scales = Case::scales<C>();
  const auto pages = [](const Tensor<C, 4>& cache) {
    return cache.reshape({kKvHeads, kPages, kPage, kDepth}).template permute<1, 0, 2, 3>();
  };
  auto q_weights = Case::normals(random, kDepth), k_weights = Case::normals(random, kDepth);
  const Dims<2> halves({std::int64_t{2}, std::int64_t{kHalf}});
  const auto argument = [&](std::vector<float>& weights) {
    if constexpr (has_norm<Norm>) {
      return Case::tensor(weights, halves);
    } else {
      weights.clear();
      return false;
    }
  };
  const auto q_norm = argument(q_weights), k_norm = argument(k_weights);
  const auto rotation = from(angles, {1, 2, kHalf}).sync();
  const auto lengths = Case::numbers({static_cast<i32>(chunk.first + 1)}), slots = Case::numbers({written ? slot : -1});
  const auto table = Case::numbers(chunk.pages);
  ASSERT_EQ(chunk.pages.size() * kPage / kKeys, std::size_t{kSlices});
  const auto [parts, tops, shares] =
      kernel<attend_slice<C, kKeys, kHalf, Norm>>(
          full<f32>({kKvHeads, kSlices, kGroup, kDepth}, 777.0f), full<f32>({kKvHeads, kSlices, kGroup}, 777.0f),
          full<f32>({kKvHeads, kSlices, kGroup}, 777.0f), qkv, q_norm, rotation, pages(keys), pages(values),
          table.reshape({1, static_cast<std::int64_t>(chunk.pages.size())}), lengths, kScale, 0.0f, scales)
          .sync();
  const auto o =
      kernel<finish_one<C, Combined, kHalf / kGroup / 2, kHalf, Norm>>(
          full<bf16>({kKvHeads, kGroup, 2, kHalf}, bf16(777.0f)), mut(keys), mut(values), qkv, q_norm, k_norm, rotation,
          slots, parts, tops, shares, static_cast<float>(kScale * kRopeFactor * kRopeFactor), 0.0f, scales)
          .sync();
  const std::vector<float> k_before = c.k, v_before = c.v;
  for (int head = 0; head < kKvHeads; ++head) {
    const auto key = rotated_head(&own[static_cast<std::size_t>(head * kDepth)], k_weights, angle);
    for (int d = 0; d < kDepth; ++d) {
      c.at(c.k, chunk, head, chunk.first, d) = key[static_cast<std::size_t>(d)];
      c.at(c.v, chunk, head, chunk.first, d) = own[static_cast<std::size_t>((kKvHeads + head) * kDepth + d)];
    }
  }
  const auto same = [](const Tensor<C, 4>& found, const std::vector<float>& expected, bool value) {
    const auto elements = host(found).sync();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const float scale = kernels::has_scales<C> ? Case::scale_of(value, i) : 1;
      const auto element = static_cast<float>(elements[i]) * scale;
      if (std::isnan(expected[i]))
        ASSERT_TRUE(std::isnan(element)) << i;
      else if (kernels::has_scales<C>)  // half a unit of its three bits, or of the smallest number
        ASSERT_NEAR(element, std::clamp(expected[i], -448 * scale, 448 * scale),
                    std::abs(expected[i]) / 15.5f + scale * 0x1p-10f)
            << i;
      else
        ASSERT_NEAR(element, expected[i], std::abs(expected[i]) / 100) << i;
    }
  };
  same(keys, written ? c.k : k_before, false);
  same(values, written ? c.v : v_before, true);
  for (int head = 0; head < kHeads; ++head) {
    const auto query = rotated_head(&c.q[static_cast<std::size_t>(head * kDepth)], q_weights, angle);
    std::copy(query.begin(), query.end(), c.q.begin() + head * kDepth);
  }
  const auto found = host(o).sync();
  EXPECT_LT(c.error(std::vector<float>(found.begin(), found.end())), kTolerance) << chunk.first;
}

TEST(OneToken, EqualsFloat64AndWritesItsSlot) {
  for (const std::int64_t first : {0, 1, 31, 32, 63, 64, 130, 191, 255}) {
    for_each_cache([&]<class C>() {
      Case c({{first, 1, {6, 2, 9, 4}}}, static_cast<unsigned>(first) + 20);
      expect_one_token<C>(c);
    });
  }
}
TEST(OneToken, EqualsFloat64AtRandomPositionsInRandomPages) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    std::vector<i32> pages(kPages);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    pages.resize(4);
    const auto first = static_cast<std::int64_t>(random() % (4 * kPage));
    SCOPED_TRACE(seed);
    Case c({{first, 1, pages}}, seed + 300);
    expect_one_token(c);
  }
}
TEST(OneToken, HeadsWithoutNormsEqualFloat64) {
  for (const std::int64_t first : {0, 31, 64, 130, 255}) {
    Case c({{first, 1, {6, 2, 9, 4}}}, static_cast<unsigned>(first) + 50);
    expect_one_token<bf16, 8, NoNorm>(c);
    Case rounded({{first, 1, {6, 2, 9, 4}}}, static_cast<unsigned>(first) + 60);
    expect_one_token<f8e4m3, 8, NoNorm>(rounded);
  }
}
TEST(OneToken, FewerSlicesThanAreCombinedAtOnce) {
  Case c({{130, 1, {6, 2, 9, 4}}}, 9);
  expect_one_token<bf16, 16>(c);
}
TEST(OneToken, WithoutASlotWritesNothing) {
  for_each_cache([]<class C>() {
    Case c({{77, 1, {6, 2, 9, 4}}}, 3);
    expect_one_token<C>(c, false);
  });
}
TEST(OneToken, SlotsThatAreNotInUseMayHoldAnything) {
  for_each_cache([]<class C>() {
    Case c({{77, 1, {6, 2, 9, 4}}}, 5);
    for (std::int64_t position = 78; position < 256; ++position)
      for (int head = 0; head < kKvHeads; ++head)
        for (int d = 0; d < kDepth; ++d)
          c.at(c.k, c.chunks[0], head, position, d) = c.at(c.v, c.chunks[0], head, position, d) =
              std::numeric_limits<float>::quiet_NaN();
    expect_one_token<C>(c);
  });
}

/// Keys and values of `tokens` tokens as `write` puts them into a cache of C that holds sixes.
template <class C>
std::array<std::vector<C>, 2> written_by(auto write) {
  const Dims<4> dims({kKvHeads, kPages * kPage, 2, kDepth / 2});
  auto keys = full<C>(dims, C(6.0f)).sync(), values = full<C>(dims, C(6.0f)).sync();
  write(mut(keys), mut(values));
  return {host(keys).sync(), host(values).sync()};
}

// What is written into an FP8 cache is what is written into a cache of bf16, divided by the scale and rounded once: by
// every kernel that writes. Some numbers are larger than the largest of the cache, some smaller than the smallest.
TEST(Fp8Cache, HoldsWhatACacheOfBf16HoldsRoundedOnce) {
  constexpr int kTokens = 37, kHalf = kDepth / 2, kWhole = kHeads + 2 * kKvHeads;
  std::mt19937 random(8);
  auto heads = Case::normals(random, kTokens * kWhole * kDepth);
  for (float& x : heads) x = static_cast<float>(bf16(std::ldexp(x, static_cast<int>(random() % 24) - 12)));
  const auto qkv = Case::tensor(heads, Dims<4>({kTokens, kWhole, 2, kHalf}));
  const auto norm = Case::tensor(Case::normals(random, kDepth), Dims<2>({2, kHalf}));
  std::vector<float> angles(static_cast<std::size_t>(kTokens * kDepth));
  for (float& x : angles) x = std::uniform_real_distribution<float>(-1, 1)(random);
  const auto rotation = from(angles, {kTokens, 2, kHalf}).sync();
  std::vector<i32> numbers(kPages * kPage);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), random);
  numbers.resize(kTokens);
  numbers[5] = -1;  // a token without a slot
  const auto slots = Case::numbers(numbers);
  const auto compare = [&](auto write) {
    const auto wide = written_by<bf16>([&](auto... cache) { write.template operator()<bf16>(cache..., false); });
    const auto scales = Case::scales<f8e4m3>();
    const auto narrow =
        written_by<f8e4m3>([&](auto... cache) { write.template operator()<f8e4m3>(cache..., scales.view()); });
    int largest = 0, zeros = 0;
    for (const bool value : {false, true})
      for (std::size_t i = 0; i < wide[value].size(); ++i) {
        const auto slot = static_cast<i32>(i / kDepth % (kPages * kPage));
        const bool is_written = std::find(numbers.begin(), numbers.end(), slot) != numbers.end();
        const float scaled = static_cast<float>(wide[value][i]) / Case::scale_of(value, i);
        const f8e4m3 expected = is_written ? f8e4m3(std::clamp(scaled, -448.0f, 448.0f)) : f8e4m3(6.0f);
        ASSERT_EQ(static_cast<float>(narrow[value][i]), static_cast<float>(expected)) << value << ' ' << i;
        largest += std::abs(scaled) > 448;
        zeros += scaled != 0 && static_cast<float>(expected) == 0;
      }
    EXPECT_GT(largest, 0);
    EXPECT_GT(zeros, 0);
  };
  compare([&]<class C>(auto keys, auto values, const auto& scales) {
    kernel<place_keys<C, 16, 8, kHalf>>(std::move(keys), std::move(values), qkv, norm, rotation, slots, 1e-6f, false,
                                        scales)
        .sync();
  });
  const auto rows = kernel<rotate_rows<16, kHalf>>(empty<bf16>({kTokens, kKvHeads, 2, kHalf}), qkv, norm, rotation,
                                                   kHeads, 1e-6f, false)
                        .sync();
  compare([&]<class C>(auto keys, auto values, const auto& scales) {
    kernel<copy_keys<C, 128, 8>>(std::move(keys), std::move(values), rows, qkv, slots, scales).sync();
  });
  const auto one = qkv.slice<0>(3, 4);
  numbers = {numbers[3]};
  const auto slot = Case::numbers(numbers);
  compare([&]<class C>(auto keys, auto values, const auto& scales) {
    (void)kernel<place_heads<C, kHeads / kKvHeads, kHalf>>(empty<bf16>({1, kKvHeads, kHeads / kKvHeads, 2, kHalf}),
                                                           std::move(keys), std::move(values), one, norm, norm,
                                                           rotation.slice<0>(3, 4), slot, 1e-6f, false, scales)
        .sync();
  });
}

struct Gates {
  static constexpr int kRows = 40, kColumns = 32, kDepth = 72;
};

TEST(GatedTiles, EqualFloat64) {
  std::mt19937 random(6);
  const auto x = Case::normals(random, Gates::kRows * Gates::kDepth),
             w = Case::normals(random, 2 * Gates::kColumns * Gates::kDepth);
  const auto y = kernel<gated_tiles<16, 16, 16>>(
                     full<bf16>({Gates::kRows, Gates::kColumns}, bf16(777.0f)),
                     Case::tensor(x, Dims<2>({std::int64_t{Gates::kRows}, std::int64_t{Gates::kDepth}})),
                     Case::tensor(w, Dims<2>({std::int64_t{2 * Gates::kColumns}, std::int64_t{Gates::kDepth}})))
                     .sync();
  const auto found = host(y).sync();
  const auto product = [&](int row, int column) {
    double sum = 0;
    for (int k = 0; k < Gates::kDepth; ++k)
      sum += double{x[static_cast<std::size_t>(row * Gates::kDepth + k)]} *
             double{w[static_cast<std::size_t>(column * Gates::kDepth + k)]};
    return sum;
  };
  for (int i = 0; i < Gates::kRows; ++i)
    for (int j = 0; j < Gates::kColumns; ++j) {
      const double gate = product(i, j), expected = gate / (1 + std::exp(-gate)) * product(i, Gates::kColumns + j);
      EXPECT_NEAR(static_cast<double>(static_cast<float>(found[static_cast<std::size_t>(i * Gates::kColumns + j)])),
                  expected, std::abs(expected) / 128 + 1e-3)
          << i << ' ' << j;
    }
}

}  // namespace THIS_FILE
}  // namespace mortar
