// Attention of prompt chunks over pages, against float64: several sequences that share the pool of pages, chunks that
// begin anywhere, slots that are not in use, scores far above those of the first page. And gates of many rows.
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

  static Tensor<i32, 1> numbers(const std::vector<i32>& n) {
    return from(n, {static_cast<std::int64_t>(n.size())}).sync();
  }
  template <int R>
  static Tensor<bf16, R> tensor(const std::vector<float>& x, const Dims<R>& dims) {
    const std::vector<bf16> rounded(x.begin(), x.end());
    return reshape(from(rounded, {static_cast<std::int64_t>(rounded.size())}).sync(), dims);
  }
  template <int Tile>
  std::vector<float> run() const {
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
    const Dims<3> queries({tokens, std::int64_t{kHeads}, std::int64_t{kDepth}});
    const auto o = kernel<attend_chunks<bf16, Tile, kDepth>>(
                       full<bf16>(queries, bf16(777.0f)), tensor(q, queries), keys.permute<1, 0, 2, 3>(),
                       values.permute<1, 0, 2, 3>(),
                       both.reshape({static_cast<std::int64_t>(chunks.size()), static_cast<std::int64_t>(longest)}),
                       numbers(lengths), numbers(rows), numbers(positions), kScale)
                       .sync();
    const auto found = host(o).sync();
    return {found.begin(), found.end()};
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
  Case small(three_chunks(), 1, kSmallQueryTile), large(three_chunks(), 2);
  EXPECT_LT(small.error(small.run<kSmallQueryTile>()), kTolerance);
  EXPECT_LT(large.error(large.run<kQueryTile>()), kTolerance);
}

TEST(ChunkAttention, IgnoresWhatIsInSlotsThatAreNotInUse) {
  Case c(three_chunks(), 3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Chunk& chunk : c.chunks) {
    const auto end = static_cast<std::int64_t>(chunk.pages.size()) * kPage;
    for (std::int64_t p = chunk.first + chunk.count; p < end; ++p)
      for (int head = 0; head < kKvHeads; ++head)
        for (int d = 0; d < kDepth; ++d) c.at(c.k, chunk, head, p, d) = c.at(c.v, chunk, head, p, d) = nan;
  }
  EXPECT_LT(c.error(c.run<kQueryTile>()), kTolerance);
}

TEST(ChunkAttention, ScoresFarAboveThoseOfTheFirstPage) {
  // One key of a later page lies along one query: its score is hundreds above those that the weights are relative to.
  Case c({{64, 64, {3, 8}}}, 4);
  for (int d = 0; d < kDepth; ++d) {
    const float q = c.q[static_cast<std::size_t>((30 * kHeads) * kDepth + d)];
    c.at(c.k, c.chunks[0], 0, 80, d) = static_cast<float>(bf16(40 * q));
  }
  EXPECT_LT(c.error(c.run<kQueryTile>()), kTolerance);
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
