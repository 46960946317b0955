// The kernels of API.md section 1, verbatim, and a few similar ones. The tests of the API launch them, those of the
// language record them and those of the passes compare them.
#pragma once
#include <tessera/lang/lang.hpp>

namespace api_kernels {

using namespace tessera;  // as users write it

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

template <int N>  // any row length up to N
void softmax(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(y, pad::neg_inf));
  t = exp(t - max(t, axis<1>));
  y.store(cast<bf16>(t / sum(t, axis<1>)));
}

template <int N>  // returns both outputs; residual is updated in place
void add_rms_norm(Mut<bf16, 1, N> y, Mut<bf16, 1, N> residual, In<bf16, dyn, dyn> x, In<bf16, dyn> weight,
                  Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto h = cast<f32>(residual.load()) + cast<f32>(x.load_like(residual));
  residual.store(cast<bf16>(h));
  auto scale = rsqrt(sum(h * h, axis<1>) / cast<f32>(x.dim(1)) + eps);
  y.store(cast<bf16>(h * scale * cast<f32>(weight.load_like(y, axes<1>))));
}

template <int C>
void logsumexp(Mut<f32, 1> y, In<bf16, dyn, dyn> x) {
  auto X = x.tiles(shape<1, C>, pad::neg_inf);
  auto [row] = y.index();
  auto m = full<f32, 1, 1>(-infinity<f32>), l = zeros<f32, 1, 1>();
  for (auto c : range(X.count(1))) {
    auto t = cast<f32>(X.load(row, c));
    auto m2 = max(m, max(t, axis<1>));
    l = l * exp(m - m2) + sum(exp(t - m2), axis<1>);
    m = m2;
  }
  y.store(reshape(m + log(l), shape<1>));
}

template <class T, int BM, int BN, int BK>
void gemm(MutTiles<T, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {  // every tile of c is assigned to exactly one block; groups of 8 rows of tiles
    auto [i, j] = out.index();
    auto acc = zeros<acc_t<T>, BM, BN>();  // f32 for floats up to 32 bits, f64, i32 for 8-bit integers
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(cast<T>(acc));
  }
}

template <class T, int BM, int BN, int BK>
void gemm_blocks(Mut<T, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  auto [i, j] = c.index();
  auto acc = zeros<acc_t<T>, BM, BN>();
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
  c.store(cast<T>(acc));
}

template <int BM, int BN, int D>
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
  for (auto j : range(min(K.count(2), ceil_div((block + 1) * BM, BN)))) {
    auto s = mma(Q, transpose(reshape(K.load(batch, kv_head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>()) *
             (scale * log2e<f32>);
    tile_if ((j + 1) * BN > block * BM || (j + 1) * BN > k.dim(2)) {
      auto cols = iota<i32, 1, BN>(axis<1>) + j * BN;
      s = where(rows >= cols && cols < k.dim(2), s, -infinity<f32>);
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

template <int BM, int BN>
void blur(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();  // first element of the piece
  auto s = zeros<f32, BM, BN>();
  for (int di : {-1, 0, 1})  // host loop: unrolled
    for (int dj : {-1, 0, 1}) s += x.load_at(shape<BM, BN>, i + di, j + dj);
  y.store(s / 9.0f);
}

template <int B, int D>
void embed(Mut<bf16, B, D> y, In<bf16, dyn, D> table, In<i32, dyn> ids) {
  y.store(table.gather(
      axis<0>, ids.load_like(
                   y, axes<0>)));  // rows by index (a tile with one axis longer than 1); an index outside reads padding
}

template <int B>
void dropout(Mut<f32, B> y, In<f32, dyn> x, Scalar<f32> p, Scalar<u64> seed) {
  auto u = random::uniform<f32>(seed, y.offsets());  // Philox, by element offset: the same on CPU and GPU
  y.store(where(u < p, 0.0f, x.load_like(y) / (1.0f - p)));
}

template <int N>
void running_product(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  y.store(scan(x.load_like(y), axis<1>, 1.0f, [](auto a, auto b) { return a * b; }));
}

template <int B>
void histogram(Acc<i32, dyn> counts, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  counts.add(x.tiles(shape<B>, pad(-1)).load(i), 1);  // by index; an index outside is dropped
}

// "reduce(x, axis<1>, init, f) likewise; argmax(x, axis<1>) gives {value, index}"
template <int N>
void row_extremes(Mut<f32, 1> value, Mut<i32, 1> index, Mut<f32, 1> longest, In<f32, dyn, dyn> x) {
  auto [row] = value.index();
  auto t = x.tiles(shape<1, N>, pad::neg_inf).load(row, 0);
  auto [v, i] = argmax(t, axis<1>);
  value.store(reshape(v, shape<1>));
  index.store(reshape(i, shape<1>));
  auto u = abs(x.tiles(shape<1, N>).load(row, 0));
  longest.store(reshape(reduce(u, axis<1>, 0.0f, [](auto a, auto b) { return max(a, b); }), shape<1>));
}

// tile_while, tile_if / else and integer arithmetic: steps until 1 of the Collatz sequence.
template <int B>
void collatz(Mut<i32, B> y, In<i32, dyn> x) {
  auto v = x.load_like(y);
  auto steps = zeros<i32, B>();
  tile_while(any(v > 1)) {
    auto active = v > 1;
    v = where(active, where(v % 2 == 0, v / 2, 3 * v + 1), v);
    steps = where(active, steps + 1, steps);
  }
  y.store(steps);
}

}  // namespace api_kernels
