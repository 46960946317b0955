// The measured kernels, written as a newcomer writes them: no hints, no unsafe_, one row or one tile per piece.
#pragma once
#include "tessera/tessera.hpp"

namespace gpu_bench {

using namespace tessera;

template <class T, int B>
void copy(Mut<T, B> y, In<T, dyn> x) {
  y.store(x.load_like(y));
}

template <class T, int B>
void add(Mut<T, B> z, In<T, dyn> x, In<T, dyn> y) {
  z.store(x.load_like(z) + y.load_like(z));
}

template <class T, int B>
void saxpy(Mut<T, B> y, Scalar<T> a, In<T, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

template <int N>
void softmax(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(y, pad::neg_inf));
  t = exp(t - max(t, axis<1>));
  y.store(cast<bf16>(t / sum(t, axis<1>)));
}

template <int N>
void rms_norm(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<bf16, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(y));
  auto scale = rsqrt(sum(t * t, axis<1>) / cast<f32>(x.dim(1)) + eps);
  y.store(cast<bf16>(t * scale * cast<f32>(weight.load_like(y, axes<1>))));
}

template <int N>
void layer_norm(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<bf16, dyn> weight, In<bf16, dyn> bias, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(y));
  auto n = cast<f32>(x.dim(1));
  auto mean = sum(t, axis<1>) / n;
  auto d = where(iota<i32, 1, N>(axis<1>) < x.dim(1), t - mean, 0.0f);
  auto scale = rsqrt(sum(d * d, axis<1>) / n + eps);
  y.store(cast<bf16>(d * scale * cast<f32>(weight.load_like(y, axes<1>)) + cast<f32>(bias.load_like(y, axes<1>))));
}

// Rows longer than a tile: the piece is the whole row, processed in chunks of C.
template <int N, int C>
void softmax_chunks(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto X = x.tiles(shape<1, C>, pad::neg_inf);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  auto m = full<f32, 1, C>(-infinity<f32>), l = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) {
    auto t = cast<f32>(X.load(row, c));
    auto m2 = max(m, t);
    l = l * exp(m - m2) + exp(t - m2);
    m = m2;
  }
  auto top = max(m, axis<1>);
  auto total = sum(l * exp(m - top), axis<1>);
  for (auto c : range(X.count(1))) Y.store(0, c, cast<bf16>(exp(cast<f32>(X.load(row, c)) - top) / total));
}

template <int N, int C>
void rms_norm_chunks(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<bf16, dyn> weight, Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto X = x.tiles(shape<1, C>);
  auto W = weight.tiles(shape<C>);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  auto squares = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) {
    auto t = cast<f32>(X.load(row, c));
    squares += t * t;
  }
  auto scale = rsqrt(sum(squares, axis<1>) / cast<f32>(x.dim(1)) + eps);
  for (auto c : range(X.count(1)))
    Y.store(0, c, cast<bf16>(cast<f32>(X.load(row, c)) * scale * cast<f32>(reshape(W.load(c), shape<1, C>))));
}

template <int N, int C>
void layer_norm_chunks(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<bf16, dyn> weight, In<bf16, dyn> bias,
                       Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto X = x.tiles(shape<1, C>);
  auto W = weight.tiles(shape<C>);
  auto B = bias.tiles(shape<C>);
  auto Y = y.sub(shape<1, C>);
  auto [row, zero] = y.index();
  auto n = cast<f32>(x.dim(1));
  auto total = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) total += cast<f32>(X.load(row, c));
  auto mean = sum(total, axis<1>) / n;
  auto squares = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) {
    auto d = where(iota<i32, 1, C>(axis<1>) + c * C < x.dim(1), cast<f32>(X.load(row, c)) - mean, 0.0f);
    squares += d * d;
  }
  auto scale = rsqrt(sum(squares, axis<1>) / n + eps);
  for (auto c : range(X.count(1)))
    Y.store(0, c,
            cast<bf16>((cast<f32>(X.load(row, c)) - mean) * scale * cast<f32>(reshape(W.load(c), shape<1, C>)) +
                       cast<f32>(reshape(B.load(c), shape<1, C>))));
}

/// R rows per piece: a GPU starts about one block per clock, so a block needs more than 2 KiB to load.
template <int R, int N>
void row_sum(Mut<f32, R> y, In<bf16, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one tile");
  auto [rows] = y.index();
  y.store(reshape(sum(cast<f32>(x.tiles(shape<R, N>).load(rows, 0)), axis<1>), shape<R>));
}

template <int B>
void transposed(Mut<f32, B, B> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.index();
  y.store(transpose(x.tiles(shape<B, B>).load(j, i)));
}

/// c = a b; 8-bit floats accumulate fast.
template <class T, class O, int BM, int BN, int BK>
void gemm(MutTiles<O, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  require(a.dim(1) == b.dim(0), "the columns of a must be the rows of b");
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(A.count(1))) {
      if constexpr (sizeof(T) == 1)
        acc = mma(A.load(i, k), B.load(k, j), acc, fast_acc);
      else
        acc = mma(A.load(i, k), B.load(k, j), acc);
    }
    out.store(cast<O>(acc));
  }
}

/// One tile per block.
template <class T, class O, int BM, int BN, int BK>
void gemm_blocks(Mut<O, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  require(a.dim(1) == b.dim(0), "the columns of a must be the rows of b");
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  auto [i, j] = c.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
  c.store(cast<O>(acc));
}

/// One row of activations (or a few) times weights w[n, k]: products and sums, no tensor cores.
template <int R, int C>
void gemv(Mut<bf16, 1, R> y, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> w) {
  require(x.dim(1) == w.dim(1), "a row of x must be as long as a row of w");
  auto X = x.tiles(shape<1, C>);
  auto W = w.tiles(shape<R, C>);
  auto [m, j] = y.index();
  auto acc = zeros<f32, R, C>();
  for (auto k : range(W.count(1))) acc += cast<f32>(W.load(j, k)) * cast<f32>(X.load(m, k));
  y.store(reshape(cast<bf16>(sum(acc, axis<1>)), shape<1, R>));
}

/// A few rows times weights w[n, k], with the weights as the left operand of the product.
template <int BM, int BN, int BK>
void few_rows(Mut<bf16, BM, BN> y, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> w) {
  require(x.dim(1) == w.dim(1), "a row of x must be as long as a row of w");
  auto X = x.tiles(shape<BM, BK>);
  auto W = w.tiles(shape<BN, BK>);
  auto [i, j] = y.index();
  auto acc = zeros<f32, BN, BM>();
  for (auto k : range(W.count(1))) acc = mma(W.load(j, k), transpose(X.load(i, k)), acc);
  y.store(cast<bf16>(transpose(acc)));
}

template <bool Causal, int BM, int BN, int D>
void attention(Mut<bf16, 1, 1, BM, D> o, In<bf16, dyn, dyn, dyn, D> q, In<bf16, dyn, dyn, dyn, D> k,
               In<bf16, dyn, dyn, dyn, D> v, Scalar<f32> scale) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, head, block, zero] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto m = full<f32, BM, 1>(-infinity<f32>), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, D>();
  auto steps = K.count(2);
  if constexpr (Causal) steps = min(steps, ceil_div((block + 1) * BM, BN));
  for (auto j : range(steps)) {
    auto s = mma(Q, transpose(reshape(K.load(batch, kv_head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>()) *
             (scale * log2e<f32>);
    auto masked = (j + 1) * BN > k.dim(2);
    if constexpr (Causal) masked = masked || (j + 1) * BN > block * BM;
    tile_if (masked) {
      auto cols = iota<i32, 1, BN>(axis<1>) + j * BN;
      auto inside = cols < k.dim(2);
      if constexpr (Causal)
        s = where(rows >= cols && inside, s, -infinity<f32>);
      else
        s = where(inside, s, -infinity<f32>);
    }
    auto m2 = max(m, max(s, axis<1>));
    auto p = exp2(s - m2);
    auto alpha = exp2(m - m2);
    l = l * alpha + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), reshape(V.load(batch, kv_head, j, 0), shape<BN, D>), acc * alpha);
    m = m2;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, 1, BM, D>));
}

/// One query token per sequence, G query heads per key head, `steps` tiles of BN keys per block: partial results.
template <int G, int BN, int D>
void decode_split(Mut<f32, 1, 1, 1, G, D> o, Mut<f32, 1, 1, 1, G> top, Mut<f32, 1, 1, 1, G> total,
                  In<bf16, dyn, dyn, G, D> q, In<bf16, dyn, dyn, dyn, D> k, In<bf16, dyn, dyn, dyn, D> v,
                  Scalar<f32> scale, Scalar<i32> steps) {
  auto [batch, head, split, zero, zero2] = o.index();
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = transpose(reshape(q.tiles(shape<1, 1, G, D>).load(batch, head, 0, 0), shape<G, D>));
  auto m = full<f32, 1, G>(-infinity<f32>), l = zeros<f32, 1, G>();
  auto acc = zeros<f32, D, G>();
  for (auto j : range(split * steps, min((split + 1) * steps, K.count(2)))) {
    auto s = mma(reshape(K.load(batch, head, j, 0), shape<BN, D>), Q, zeros<f32, BN, G>()) * (scale * log2e<f32>);
    tile_if ((j + 1) * BN > k.dim(2)) { s = where(iota<i32, BN, 1>(axis<0>) + j * BN < k.dim(2), s, -infinity<f32>); }
    auto m2 = max(m, max(s, axis<0>));
    auto p = exp2(s - m2);
    auto alpha = exp2(m - m2);
    l = l * alpha + sum(p, axis<0>);
    acc = mma(transpose(reshape(V.load(batch, head, j, 0), shape<BN, D>)), cast<bf16>(p), acc * alpha);
    m = m2;
  }
  o.store(reshape(transpose(acc), shape<1, 1, 1, G, D>));
  top.store(reshape(m, shape<1, 1, 1, G>));
  total.store(reshape(l, shape<1, 1, 1, G>));
}

/// Joins up to S partial results.
template <int S, int G, int D>
void decode_join(Mut<bf16, 1, 1, G, D> y, In<f32, dyn, dyn, dyn, G, D> o, In<f32, dyn, dyn, dyn, G> top,
                 In<f32, dyn, dyn, dyn, G> total) {
  require(o.dim(2) <= S, "the partial results must fit in one tile");
  auto [batch, head, zero, zero2] = y.index();
  auto m = reshape(top.tiles(shape<1, 1, S, G>, pad::neg_inf).load(batch, head, 0, 0), shape<S, G, 1>);
  auto l = reshape(total.tiles(shape<1, 1, S, G>).load(batch, head, 0, 0), shape<S, G, 1>);
  auto parts = reshape(o.tiles(shape<1, 1, S, G, D>).load(batch, head, 0, 0, 0), shape<S, G, D>);
  auto weight = exp2(m - max(m, axis<0>));
  auto sums = sum(parts * weight, axis<0>) / sum(l * weight, axis<0>);
  y.store(reshape(cast<bf16>(sums), shape<1, 1, G, D>));
}

}  // namespace gpu_bench
