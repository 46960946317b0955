// What the attention kernels share: options and their checks, scores, and the states of the softmax.
#pragma once
#include <cmath>
#include <limits>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

enum class AttentionMask { Full, Causal, Window };

struct AttentionOptions {
  float scale = 0;      ///< of the scores; 0: 1 / sqrt(d)
  bool causal = false;  ///< a query sees the keys up to its own position
  int window = 0;       ///< with causal: how many of the nearest keys a query sees; 0: all

  /// Throws ShapeError if the scale is not a normal number.
  float scale_for(std::int64_t d, const char* kernel = "attention",
                  SourceLocation where = SourceLocation::current()) const {
    if (scale == 0) return 1 / std::sqrt(static_cast<float>(d));
    if (!std::isnormal(scale))
      throw ShapeError(std::string("kernels::") + kernel + ": the scale is " + std::to_string(scale) +
                           "; take 0 for 1 / sqrt(d), or a normal finite number",
                       where);
    return scale;
  }
  /// The AttentionMask as a number. Throws ShapeError for a window without causal.
  int mask(const char* kernel, SourceLocation where) const {
    if (window < 0 || (window > 0 && !causal))
      throw ShapeError(std::string("kernels::") + kernel + ": a window is at least 0 and needs causal = true", where);
    return static_cast<int>(!causal ? AttentionMask::Full : window > 0 ? AttentionMask::Window : AttentionMask::Causal);
  }
};

/// The most columns of a head: of all kernels, and of those that process more than 256 in several tiles.
inline constexpr std::int64_t kWideHead = 256, kWidestHead = 1024;

/// The checks on q, k and v that do not depend on their rank: d is their last axis, `heads` the axis of heads.
template <Operand Q, Operand K, Operand V>
void check_attention(const char* kernel, const Q& q, const K& k, const V& v, int heads, SourceLocation where,
                     std::int64_t most = kWideHead) {
  static_assert(std::is_same_v<element_of<Q>, element_of<K>> && std::is_same_v<element_of<Q>, element_of<V>>,
                "q, k and v must have one element type");
  const std::int64_t d = q.dim(Q::rank - 1, where), kv_heads = k.dim(heads, where);
  expect_shape(d >= 1 && d <= most, kernel, "q", q, most == kWideHead ? "d is 1 to 256" : "d is 1 to 1024", where);
  expect_dim(kernel, "k", k, K::rank - 1, d, where);
  expect_shape(v.dims(where) == k.dims(where), kernel, "v", v, "they must equal the extents of k", where);
  expect_shape(kv_heads > 0 && q.dim(heads, where) % kv_heads == 0, kernel, "q", q,
               "its heads must be a multiple of k's", where);
}

/// Neither NaN nor infinite.
template <class T, int... D>
Tile<bool, D...> is_finite(const Tile<T, D...>& x) {
  return abs(widen(x)) < infinity<f32>;
}

/// Which of the keys at positions `cols` the queries at positions `rows` see under Mask; `keys` is the number of keys.
template <AttentionMask Mask, int M, int N>
Tile<bool, M, N> sees(const Tile<i32, M, 1>& rows, const Tile<i32, 1, N>& cols, const Scalar<i32>& keys,
                      const Scalar<i32>& window) {
  auto seen = broadcast(cols < keys, shape<M, N>);
  if constexpr (Mask != AttentionMask::Full) seen = seen && rows >= cols;
  if constexpr (Mask == AttentionMask::Window) seen = seen && rows - cols < window;
  return seen;
}

/// The scores of tile `j` of N keys. Scores of keys that a query does not see are replaced by `unseen`: keys beyond
/// `keys` and, depending on Mask, keys after the query or `window` or more before it. `first` is the position of the
/// first query.
template <AttentionMask Mask, int M, int N>
Tile<f32, M, N> without_unseen(Tile<f32, M, N> s, const Scalar<i32>& first, const Scalar<i32>& j,
                               const Scalar<i32>& keys, const Scalar<i32>& window, const Scalar<f32>& unseen) {
  auto partly = (j + 1) * N > keys;
  if constexpr (Mask != AttentionMask::Full) partly = partly || (j + 1) * N > first;
  if constexpr (Mask == AttentionMask::Window) partly = partly || j * N <= first + M - 1 - window;
  tile_if (partly) {
    auto rows = iota<i32, M, 1>(axis<0>) + first;
    auto cols = iota<i32, 1, N>(axis<1>) + j * N;
    s = where(sees<Mask>(rows, cols, keys, window), s, unseen);
  }
  return s;
}

/// scale * q k^T in units of log2(e), so that exp2 serves.
template <class T, int M, int N, int D>
auto scores(const Tile<T, M, D>& q, const Tile<T, N, D>& k, const Scalar<f32>& scale) {
  return mma(q, transpose(k), zeros<f32, M, N>()) * (scale * log2e<f32>);
}

/// exp2 of scores that weight values of type T: approximate where the results are rounded to 16 bits or fewer. It must
/// be requested here, because the sums are also compared (`holds`, `clean`), and operations whose result is compared
/// are precise by default.
template <class T, int... D>
Tile<f32, D...> weights_of(const Tile<f32, D...>& scores) {
  if constexpr (sizeof(T) <= 2)
    return exp2(scores, approx);
  else
    return exp2(scores);
}

/// Maximum, sum and weighted values of the scores so far, for each of M queries. The maximum starts at the lowest
/// finite number, so that queries that have seen no key keep the weight 0; -infinity would give NaN.
template <int M, int D>
struct OnlineSoftmax {
  Tile<f32, M, 1> m = full<f32, M, 1>(std::numeric_limits<f32>::lowest());
  Tile<f32, M, 1> l = zeros<f32, M, 1>();
  Tile<f32, M, D> acc = zeros<f32, M, D>();

  template <class T, int N>
  void add(const Tile<f32, M, N>& s, const Tile<T, N, D>& v) {
    auto m2 = max(m, max(s, axis<1>));
    auto p = weights_of<T>(s - m2);
    auto alpha = weights_of<T>(m - m2);
    l = l * alpha + sum(p, axis<1>);
    acc = mma(narrow<T>(p), v, acc * alpha);
    m = m2;
  }
  /// The same, for scores that are not yet multiplied by `unit`.
  template <class T, int N>
  void add(const Tile<f32, M, N>& s, const Scalar<f32>& unit, const Tile<T, N, D>& v) {
    add(s * unit, v);
  }
  /// Adds the finite values of N keys only. A NaN of a key that some query does not see would reach that query as 0 *
  /// NaN.
  template <class T, int N>
  void add_finite(const Tile<f32, M, N>& s, const Tile<T, N, D>& v, const Tile<bool, N, D>& finite) {
    add(s, where(finite, v, zeros<T, N, D>()));
  }
  /// Adds the other values of one key to the queries that see it.
  template <class T>
  void add_others(const Tile<bool, M, 1>& sees, const Tile<T, 1, D>& v) {
    auto wide = widen(v);
    auto others = where(is_finite(wide), 0.0f, wide);
    acc = acc + where(broadcast(sees, shape<M, D>), broadcast(others, shape<M, D>), 0.0f);
  }
  /// No NaN and no infinity has reached a query.
  Scalar<bool> clean() const { return all(is_finite(acc)); }
  /// 0 for a query that saw no key: its sum is 0; the sum of any other query is at least 1.
  Tile<f32, M, D> result() const { return acc / max(l, 1e-30f); }
  /// log2 of the sum of exp2 of the scores; -infinity for a query that saw no key.
  Tile<f32, M, 1> log_sum() const { return m + log2(l); }
};

/// The same with weights relative to a fixed reference per query, near its largest score, instead of the largest score
/// so far: no maximum and no rescaling in any step. `holds` tests afterwards whether the result is accurate; if not,
/// use OnlineSoftmax.
template <int M, int D>
struct FixedSoftmax {
  Tile<f32, M, 1> m;
  Tile<f32, M, 1, 8> l = zeros<f32, M, 1, 8>();  // sums of every eighth weight: a thread of a product holds those
  Tile<f32, M, D> acc = zeros<f32, M, D>();

  explicit FixedSoftmax(const Tile<f32, M, 1>& reference) : m(-reference) {}

  template <class T, int N>
  void add(const Tile<f32, M, N>& s, const Scalar<f32>& unit, const Tile<T, N, D>& v) {
    auto p = weights_of<T>(fma(s, unit, m));
    l = l + sum(reshape(p, shape<M, N / 8, 8>), axis<1>);
    acc = mma(narrow<T>(p), v, acc);
  }
  OnlineSoftmax<M, D> state() const { return {-m, reshape(sum(l, axis<2>), shape<M, 1>), acc}; }
  /// Every query has seen a score near its reference, and none so far above it that a weight overflowed its type.
  template <class T>
  Scalar<bool> holds() const {
    constexpr float most = std::is_same_v<T, f16> ? 0x1p15f : 0x1p40f;
    auto total = state().l;
    return all(total >= 0.5f && total <= most);
  }
  /// No NaN and no infinity has reached a query.
  Scalar<bool> clean() const { return all(is_finite(acc)); }
};

}  // namespace tessera::kernels
