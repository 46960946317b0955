// The gradients of attention against f64: those of the formula, which are compared with finite differences.
#include "tessera/kernels/attention_backward.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/support.hpp"

namespace tessera::kernels {
namespace THIS_FILE {

struct Case {
  int batch, heads, kv_heads, queries, keys, d;
};
using Values = std::vector<double>;

/// Attention in f64, its log-sum-exp and gradients.
class Reference {
 public:
  Reference(const Case& c, const AttentionOptions& o) : c_(c), o_(o) {}

  struct Forward {
    Values o, lse;
  };
  Forward forward(const Values& q, const Values& k, const Values& v) const {
    Forward r{Values(q.size(), 0.0), Values(rows(), -INFINITY)};
    each_row([&](std::size_t row, std::size_t kv, int i) {
      const Values p = weights(q, k, row, kv, i, &r.lse[row]);
      for (int j = 0; j < c_.keys; ++j)
        for (int x = 0; x < c_.d; ++x) r.o[at(row, x)] += p[idx(j)] * v[at(kv + idx(j), x)];
    });
    return r;
  }
  struct Gradients {
    Values q, k, v;
  };
  Gradients backward(const Values& d_o, const Values& q, const Values& k, const Values& v) const {
    Gradients g{Values(q.size(), 0.0), Values(k.size(), 0.0), Values(v.size(), 0.0)};
    each_row([&](std::size_t row, std::size_t kv, int i) {
      double lse = 0;
      const Values p = weights(q, k, row, kv, i, &lse);
      Values dp(idx(c_.keys), 0.0);
      double delta = 0;
      for (int j = 0; j < c_.keys; ++j) {
        for (int x = 0; x < c_.d; ++x) dp[idx(j)] += d_o[at(row, x)] * v[at(kv + idx(j), x)];
        delta += p[idx(j)] * dp[idx(j)];
      }
      for (int j = 0; j < c_.keys; ++j) {
        const double ds = p[idx(j)] * (dp[idx(j)] - delta) * scale();
        for (int x = 0; x < c_.d; ++x) {
          g.v[at(kv + idx(j), x)] += p[idx(j)] * d_o[at(row, x)];
          g.q[at(row, x)] += ds * k[at(kv + idx(j), x)];
          g.k[at(kv + idx(j), x)] += ds * q[at(row, x)];
        }
      }
    });
    return g;
  }

 private:
  static std::size_t idx(int i) { return static_cast<std::size_t>(i); }
  std::size_t rows() const { return idx(c_.batch * c_.heads * c_.queries); }
  std::size_t at(std::size_t row, int x) const { return row * idx(c_.d) + idx(x); }
  double scale() const { return static_cast<double>(o_.scale_for(c_.d)); }
  bool sees(int i, int j) const {
    const int pos = i + c_.keys - c_.queries;
    return !o_.causal || (j <= pos && (o_.window == 0 || pos - j < o_.window));
  }
  template <class F>
  void each_row(F f) const {
    for (int bh = 0; bh < c_.batch * c_.heads; ++bh) {
      const int kv = bh / c_.heads * c_.kv_heads + bh % c_.heads / (c_.heads / c_.kv_heads);
      for (int i = 0; i < c_.queries; ++i) f(idx(bh * c_.queries + i), idx(kv * c_.keys), i);
    }
  }
  Values weights(const Values& q, const Values& k, std::size_t row, std::size_t kv, int i, double* lse) const {
    Values s(idx(c_.keys), -INFINITY);
    double top = -INFINITY, total = 0;
    for (int j = 0; j < c_.keys; ++j) {
      if (!sees(i, j)) continue;
      double sum = 0;
      for (int x = 0; x < c_.d; ++x) sum += q[at(row, x)] * k[at(kv + idx(j), x)];
      s[idx(j)] = sum * scale();
      top = std::max(top, s[idx(j)]);
    }
    for (double& x : s) total += x = top == -INFINITY ? 0 : std::exp(x - top);
    *lse = total > 0 ? top + std::log(total) : -INFINITY;
    for (double& x : s) x /= total > 0 ? total : 1;
    return s;
  }

  Case c_;
  AttentionOptions o_;
};

/// The relative error of gradients of queries or keys. Of a query with one key they are differences of equal terms,
/// which are about scale * sqrt(d) large for normal inputs: there the error is relative to a hundredth of these.
double gradient_error(const Values& got, const Values& want, double terms) {
  if (std::ranges::any_of(want, [](double x) { return x != 0; })) return relative_error(got, want);
  double squares = 0;
  for (const double x : got) squares += x * x;
  return std::sqrt(squares / static_cast<double>(got.size())) / (0.01 * terms);
}

template <class T>
void check(const Case& c, const AttentionOptions& options, double allowed = 1e-2) {
  SCOPED_TRACE(concat(c.batch, "x", c.heads, "/", c.kv_heads, " ", c.queries, " queries ", c.keys, " keys d ", c.d,
                      options.causal ? " causal " : " full ", options.window));
  const auto q = random_tensor<T>({c.batch, c.heads, c.queries, c.d}, 1);
  const auto k = random_tensor<T>({c.batch, c.kv_heads, c.keys, c.d}, 2);
  const auto v = random_tensor<T>({c.batch, c.kv_heads, c.keys, c.d}, 3);
  const auto g = random_tensor<T>({c.batch, c.heads, c.queries, c.d}, 4);
  const auto [o, lse] = attention_with_lse(q, k, v, options).sync();
  const Reference reference(c, options);
  const auto forward = reference.forward(doubles(q), doubles(k), doubles(v));
  EXPECT_LE(relative_error(doubles(o), forward.o), allowed);
  EXPECT_LE(relative_error(doubles(lse), forward.lse), allowed);
  const auto [dq, dk, dv] = attention_backward(g, q, k, v, o, lse, options).sync();
  const auto want = reference.backward(doubles(g), doubles(q), doubles(k), doubles(v));
  const double terms = std::abs(options.scale_for(c.d)) * std::sqrt(static_cast<double>(c.d));
  EXPECT_LE(gradient_error(doubles(dq), want.q, terms), allowed) << "dq";
  EXPECT_LE(gradient_error(doubles(dk), want.k, terms), allowed) << "dk";
  EXPECT_LE(relative_error(doubles(dv), want.v), allowed) << "dv";
}

TEST(AttentionBackward, Full) {
  check<bf16>({1, 2, 1, 70, 150, 64}, {});
  check<f16>({2, 2, 2, 1, 1, 32}, {});
  check<f32>({1, 3, 1, 33, 65, 20}, {}, 1e-4);
  check<bf16>({1, 1, 1, 130, 40, 128}, {.scale = -0.2f});
}
TEST(AttentionBackward, Causal) {
  check<bf16>({2, 4, 2, 140, 140, 64}, {.causal = true});
  check<f16>({1, 2, 1, 50, 200, 128}, {.causal = true});  // the last 50 of 200 positions
  check<bf16>({1, 1, 1, 100, 70, 80}, {.causal = true});  // the first 30 queries see nothing
}
TEST(AttentionBackward, Window) {
  check<bf16>({1, 2, 1, 200, 200, 64}, {.causal = true, .window = 50});
  check<f32>({1, 1, 1, 60, 100, 16}, {.causal = true, .window = 2}, 1e-4);
  check<bf16>({1, 1, 1, 60, 300, 64}, {.causal = true, .window = 129});
  check<bf16>({1, 1, 1, 100, 70, 64}, {.causal = true, .window = 0x7FFFFFFF});
}
/// More columns than a tile has: scores and results in several tiles.
TEST(AttentionBackward, WideHeads) {
  check<bf16>({1, 2, 1, 40, 70, 200}, {});
  check<f16>({1, 2, 1, 70, 70, 264}, {.causal = true});
  check<f32>({1, 1, 1, 20, 30, 512}, {.causal = true, .window = 7}, 1e-4);
  check<bf16>({1, 1, 1, 20, 130, 1024}, {});
}
TEST(AttentionBackward, RandomShapes) {
  std::mt19937 random(7);
  const auto upto = [&](int n) { return 1 + static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 6; ++round) {
    const int kv_heads = upto(2), heads = kv_heads * upto(3);
    const bool causal = random() % 2;
    check<bf16>({upto(2), heads, kv_heads, upto(150), upto(150), upto(128)},
                {.causal = causal, .window = causal && random() % 2 ? upto(60) : 0}, 1.5e-2);
  }
}
/// The reference's gradients are those of its forward pass.
TEST(AttentionBackward, TheReferenceAgreesWithFiniteDifferences) {
  const Case c{1, 2, 1, 5, 7, 3};
  const AttentionOptions options{.scale = 0.7f, .causal = true, .window = 4};
  const Reference reference(c, options);
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  const auto made = [&](int n) {
    Values x(static_cast<std::size_t>(n));
    for (double& e : x) e = normal(random);
    return x;
  };
  Values q = made(2 * 5 * 3), k = made(7 * 3), v = made(7 * 3);
  const Values g = made(2 * 5 * 3);
  const auto got = reference.backward(g, q, k, v);
  const auto loss = [&] {
    const Values o = reference.forward(q, k, v).o;
    double total = 0;
    for (std::size_t i = 0; i < o.size(); ++i) total += o[i] * g[i];
    return total;
  };
  const auto compare = [&](Values& x, const Values& gradient) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double before = x[i];
      x[i] = before + kStep;
      const double above = loss();
      x[i] = before - kStep;
      const double below = loss();
      x[i] = before;
      EXPECT_NEAR((above - below) / (2 * kStep), gradient[i], 1e-7 * (1 + std::abs(gradient[i])));
    }
  };
  compare(q, got.q);
  compare(k, got.k);
  compare(v, got.v);
}
/// Results have the same bits in every run.
TEST(AttentionBackward, RepeatsItsBits) {
  const auto q = random_tensor<bf16>({1, 4, 100, 64}, 1), g = random_tensor<bf16>({1, 4, 100, 64}, 4);
  const auto k = random_tensor<bf16>({1, 2, 90, 64}, 2), v = random_tensor<bf16>({1, 2, 90, 64}, 3);
  const auto [o, lse] = attention_with_lse(q, k, v).sync();
  const auto first = attention_backward(g, q, k, v, o, lse).sync(),
             second = attention_backward(g, q, k, v, o, lse).sync();
  EXPECT_EQ(doubles(std::get<0>(first)), doubles(std::get<0>(second)));
  EXPECT_EQ(doubles(std::get<1>(first)), doubles(std::get<1>(second)));
  EXPECT_EQ(doubles(std::get<2>(first)), doubles(std::get<2>(second)));
}
TEST(AttentionBackward, ShapesThatDoNotFit) {
  const auto q = random_tensor<bf16>({1, 2, 10, 32}, 1), other = random_tensor<bf16>({1, 2, 9, 32}, 1);
  const auto [o, lse] = attention_with_lse(q, q, q).sync();
  EXPECT_ERROR(ShapeError, (void)attention_backward(other, q, q, q, o, lse), "argument d_o");
  EXPECT_ERROR(ShapeError, (void)attention_backward(q, q, q, q, other, lse), "argument o");
  EXPECT_ERROR(ShapeError, (void)attention_backward(q, other, other, other, other, lse), "argument d_o");
  EXPECT_ERROR(ShapeError, (void)attention_backward(other, other, q, q, other, lse), "argument lse");
  EXPECT_ERROR(ShapeError, (void)attention_backward(q, q, q, q, o, lse, {.window = 3}), "needs causal");
  EXPECT_EQ(std::get<0>(attention_backward(q, q, q, q, o, lse).sync()).dims(), q.dims());
}

}  // namespace THIS_FILE
}  // namespace tessera::kernels
