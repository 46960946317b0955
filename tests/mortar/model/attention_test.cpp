// Attention of prompt chunks over pages, against float64: several sequences that share the pool of pages, chunks that
// begin anywhere, slots that are not in use, scores far above those of the first page. From queries, and from the
// projections.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <tessera/tessera.hpp>
#include <vector>

#include "model/attention_kernels.hpp"
#include "model/kernels.hpp"

namespace mortar {
namespace {

constexpr int kHeads = 4, kKvHeads = 2, kDepth = 64, kPages = 12;
constexpr float kScale = 0.125f;

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

  /// The queries divided by their root mean squares, as the projections' are with weights of 1.
  void normalise() {
    for (std::size_t i = 0; i < q.size(); i += kDepth) {
      double squares = 0;
      for (std::size_t d = 0; d < kDepth; ++d) squares += double{q[i + d]} * double{q[i + d]};
      for (std::size_t d = 0; d < kDepth; ++d)
        q[i + d] = static_cast<float>(bf16(static_cast<float>(q[i + d] / std::sqrt(squares / kDepth))));
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
  /// f(o, k, v, table, lengths, tile_rows, tile_positions) gives the launch.
  template <class F>
  std::vector<float> run(F&& f) const {
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
    const auto keys = tensor(k, cache), values = tensor(v, cache);
    const auto both = numbers(table);
    const auto o = f(full<bf16>(dims_of_q(), bf16(777.0f)), keys.permute<1, 0, 2, 3>(), values.permute<1, 0, 2, 3>(),
                     both.reshape({static_cast<std::int64_t>(chunks.size()), static_cast<std::int64_t>(longest)}),
                     numbers(lengths), numbers(rows), numbers(positions))
                       .sync();
    const auto found = host(o).sync();
    return {found.begin(), found.end()};
  }
  Dims<3> dims_of_q() const { return Dims<3>({tokens, std::int64_t{kHeads}, std::int64_t{kDepth}}); }

  template <int Tile>
  std::vector<float> from_queries(const auto& queries) const {
    return run([&](auto&& o, const auto&... p) {
      return kernel<attend_chunks<bf16, Tile, kDepth>>(std::forward<decltype(o)>(o), queries, p..., kScale);
    });
  }
  /// The projections: the queries, and heads of keys and values that attention does not read.
  Tensor<bf16, 4> projections() const {
    constexpr std::int64_t all = kHeads + 2 * kKvHeads;
    std::vector<float> heads;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto row = q.begin() + t * kHeads * kDepth;
      heads.insert(heads.end(), row, row + kHeads * kDepth);
      heads.resize(heads.size() + 2 * kKvHeads * kDepth, 777.0f);
    }
    return tensor(heads, Dims<4>({tokens, all, std::int64_t{2}, std::int64_t{kDepth / 2}}));
  }
  std::vector<float> from_projections(const Tensor<bf16, 4>& heads, const Tensor<f32, 3>& angles) const {
    const auto norm = full<bf16>({2, kDepth / 2}, bf16(1.0f)).sync();
    return run([&](auto&& o, const auto&... p) {
      return kernel<attend_projected<bf16, kQueryTile, kDepth>>(std::forward<decltype(o)>(o), heads, norm, angles, p...,
                                                                kScale, 0.0f);
    });
  }
  /// Without rotation.
  std::vector<float> from_projections() const {
    std::vector<float> angles;
    for (std::int64_t t = 0; t < tokens; ++t) {
      angles.insert(angles.end(), kDepth / 2, 1.0f);
      angles.insert(angles.end(), kDepth / 2, 0.0f);
    }
    return from_projections(projections(), from(angles, {tokens, 2, kDepth / 2}).sync());
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

std::vector<Chunk> three_chunks() { return {{0, 70, {5, 2}}, {37, 91, {7, 0, 3}}, {128, 3, {1, 4, 9}}}; }

TEST(ChunkAttention, EqualsFloat64) {
  Case c(three_chunks(), 1, kSmallQueryTile);
  EXPECT_LT(c.error(c.from_queries<kSmallQueryTile>(Case::tensor(c.q, c.dims_of_q()))), kTolerance);
}

TEST(ChunkAttention, FromProjectionsEqualsFloat64) {
  Case c(three_chunks(), 2);
  const auto found = c.from_projections();
  c.normalise();
  EXPECT_LT(c.error(found), kTolerance);
}

TEST(ChunkAttention, FromProjectionsRotates) {
  Case c(three_chunks(), 3);
  std::vector<i32> positions(static_cast<std::size_t>(c.tokens), 0);
  c.each_token([&](const Chunk&, std::int64_t token, std::int64_t position) {
    positions[static_cast<std::size_t>(token)] = static_cast<i32>(position);
  });
  std::vector<float> frequencies;
  for (int i = 0; i < kDepth / 2; ++i) frequencies.push_back(std::pow(1e4f, -2.0f * static_cast<float>(i) / kDepth));
  const auto heads = c.projections();
  const auto norm = full<bf16>({2, kDepth / 2}, bf16(1.0f)).sync();
  const auto angles = kernel<rotation_angles<16, 32>>(empty<f32>({c.tokens, 2, kDepth / 2}), Case::numbers(positions),
                                                      from(frequencies, {kDepth / 2}).sync(), 1.0f, false)
                          .sync();
  const auto rotated =
      kernel<rotate_rows<16, 32>>(empty<bf16>({c.tokens, kHeads, 2, kDepth / 2}), heads, norm, angles, 0, 0.0f, false)
          .sync();
  const auto expected = c.from_queries<kQueryTile>(rotated.reshape({c.tokens, kHeads, kDepth}));
  const auto found = c.from_projections(heads, angles);
  c.each_token([&](const Chunk&, std::int64_t token, std::int64_t) {
    for (std::int64_t i = token * kHeads * kDepth; i < (token + 1) * kHeads * kDepth; ++i)
      ASSERT_NEAR(found[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(i)], kTolerance) << i;
  });
}

TEST(ChunkAttention, IgnoresWhatIsInSlotsThatAreNotInUse) {
  Case c(three_chunks(), 4);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Chunk& chunk : c.chunks) {
    const auto end = static_cast<std::int64_t>(chunk.pages.size()) * kPage;
    for (std::int64_t p = chunk.first + chunk.count; p < end; ++p)
      for (int head = 0; head < kKvHeads; ++head)
        for (int d = 0; d < kDepth; ++d) c.at(c.k, chunk, head, p, d) = c.at(c.v, chunk, head, p, d) = nan;
  }
  const auto rows = c.from_queries<kQueryTile>(Case::tensor(c.q, c.dims_of_q())), found = c.from_projections();
  EXPECT_LT(c.error(rows), kTolerance);
  c.normalise();
  EXPECT_LT(c.error(found), kTolerance);
}

TEST(ChunkAttention, ScoresFarAboveThoseOfTheFirstPage) {
  // One key of a later page lies along one query: its score is hundreds above those that the weights are relative to.
  Case c({{64, 64, {3, 8}}}, 5);
  for (int d = 0; d < kDepth; ++d) {
    const float q = c.q[static_cast<std::size_t>((30 * kHeads) * kDepth + d)];
    c.at(c.k, c.chunks[0], 0, 80, d) = static_cast<float>(bf16(40 * q));
  }
  const auto found = c.from_projections();
  c.normalise();
  EXPECT_LT(c.error(found), kTolerance);
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

}  // namespace
}  // namespace mortar
