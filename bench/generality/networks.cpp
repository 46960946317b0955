// Parts of networks: gradients, losses, bags of embeddings, rotations of pairs, low-rank updates, gates of experts,
// weights of 8 bits, pages of a cache.
#include <algorithm>
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kBag = 20;     // of embedding_bag
constexpr int kWidth = 128;  // of its rows, and of a page's
constexpr int kRank = 16;    // of lora_product
constexpr int kPage = 16;    // rows of a page
constexpr int kHead = 64;    // of attention_state

/// The gradient of log softmax from its result, rows of any length: dx = dy - exp(y) * sum(dy).
template <int N, int C>
void log_softmax_gradient(Mut<bf16, 1, N> dx, In<bf16, dyn, dyn> y, In<bf16, dyn, dyn> dy) {
  require(y.dim(1) <= N, "a row must fit in one piece");
  auto [row, zero] = dx.index();
  auto Y = y.tiles(shape<1, C>), DY = dy.tiles(shape<1, C>);
  auto parts = dx.sub(shape<1, C>);
  auto total = zeros<f32, 1, 1>();
  for (auto k : range(DY.count(1))) total += sum(cast<f32>(DY.load(row, k)), axis<1>);
  for (auto k : range(Y.count(1))) {
    auto g = cast<f32>(DY.load(row, k)) - exp(cast<f32>(Y.load(row, k))) * total;
    parts.store(0, k, cast<bf16>(g));
  }
}

/// Both gradients of silu(gate) * up.
template <int B>
void swiglu_gradient(Mut<bf16, B> d_gate, Mut<bf16, B> d_up, In<bf16, dyn> gate, In<bf16, dyn> up, In<bf16, dyn> dy) {
  auto g = cast<f32>(gate.load_like(d_gate)), u = cast<f32>(up.load_like(d_gate)), d = cast<f32>(dy.load_like(d_gate));
  auto s = 1.0f / (1.0f + exp(-g));
  d_up.store(cast<bf16>(d * g * s));
  d_gate.store(cast<bf16>(d * u * s * (1.0f + g * (1.0f - s))));
}

/// The focal loss of each row (alpha 0.25, gamma 2), summed over its classes; a label outside is the background.
template <int R, int N>
void focal_loss(Mut<f32, R> y, In<f32, dyn, dyn> x, In<i32, dyn> labels) {
  require(x.dim(1) <= N, "all classes must fit in one piece");
  auto [i] = y.index();
  auto t = x.tiles(shape<R, N>).load(i, 0);
  auto classes = iota<i32, 1, N>(axis<1>);
  auto positive = classes == reshape(labels.load_like(y), shape<R, 1>);
  auto p = 1.0f / (1.0f + exp(-t));
  auto cross_entropy = max(t, 0.0f) - where(positive, t, 0.0f) + log(1.0f + exp(-abs(t)));
  auto missed = where(positive, 1.0f - p, p);
  auto loss = where(positive, 0.25f, 0.75f) * missed * missed * cross_entropy;
  y.store(reshape(sum(where(classes < x.dim(1), loss, 0.0f), axis<1>), shape<R>));
}

/// Sums of the rows of each bag.
void embedding_bag(Mut<f32, 1, kWidth> y, In<bf16, dyn, kWidth> table, In<i32, dyn, kBag> bags) {
  auto [bag, zero] = y.index();
  auto ids = bags.tiles(shape<1, 32>, pad(-1)).load(bag, 0);
  auto rows = table.gather(axis<0>, reshape(ids, shape<32, 1>));
  y.store(sum(cast<f32>(rows), axis<0>));
}

/// Rotary embedding of neighbouring pairs: batch, time, head, depth.
template <int H, int D>
void rope_pairs(Mut<bf16, 1, 1, H, D> y, In<bf16, dyn, dyn, dyn, dyn> x, In<f32, dyn, dyn> cosines,
                In<f32, dyn, dyn> sines) {
  auto [batch, t, head, zero] = y.index();
  auto pairs = reshape(cast<f32>(x.load_like(y)), shape<H, D / 2, 2>);
  auto a = extract(pairs, shape<H, D / 2, 1>, 0, 0, 0), b = extract(pairs, shape<H, D / 2, 1>, 0, 0, 1);
  auto c = reshape(cosines.tiles(shape<1, D / 2>).load(t, 0), shape<1, D / 2, 1>);
  auto s = reshape(sines.tiles(shape<1, D / 2>).load(t, 0), shape<1, D / 2, 1>);
  auto rotated = cat(a * c - b * s, b * c + a * s, axis<2>);
  y.store(cast<bf16>(reshape(rotated, shape<1, 1, H, D>)));
}

/// base + (x A) B / 2 of rank 16: a block keeps x A of its rows, and goes through the columns.
template <int BM, int BN, int BK, int N>
void lora_product(Mut<bf16, BM, N> y, In<bf16, dyn, dyn> base, In<bf16, dyn, dyn> x, In<bf16, dyn, kRank> a,
                  In<bf16, kRank, dyn> b) {
  require(y.dim(1) <= N, "a row must fit in one piece");
  auto [i, zero] = y.index();
  auto X = x.tiles(shape<BM, BK>);
  auto A = a.tiles(shape<BK, kRank>);
  auto B = b.tiles(shape<kRank, BN>);
  auto inner = zeros<f32, BM, kRank>();
  for (auto k : range(X.count(1))) inner = mma(X.load(i, k), A.load(k, 0), inner);
  auto low = cast<bf16>(inner * 0.5f);
  auto from = base.tiles(shape<BM, BN>);
  auto parts = y.sub(shape<BM, BN>);
  for (auto j : range(B.count(1))) {
    parts.store(0, j, cast<bf16>(mma(low, B.load(0, j), cast<f32>(from.load(i, j)))));
  }
}

/// The two best experts of each token, and their weights: a softmax of the two.
template <int R, int N>
void top_two_gate(Mut<f32, R, 2> weights, Mut<i32, R, 2> experts, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "all experts must fit in one piece");
  auto [i, zero] = weights.index();
  auto t = x.tiles(shape<R, N>, pad::neg_inf).load(i, 0);
  auto [first, first_place] = argmax(t, axis<1>);
  auto others = where(iota<i32, 1, N>(axis<1>) == first_place, -infinity<f32>, t);
  auto [second, second_place] = argmax(others, axis<1>);
  auto share = 1.0f / (1.0f + exp(second - first));
  weights.store(cat(share, 1.0f - share, axis<1>));
  experts.store(cat(first_place, second_place, axis<1>));
}

/// A few rows times weights of 8 bits, one row of them and one scale for each column of the result.
template <int BM, int BN, int BK>
void int8_weights(Mut<bf16, BM, BN> y, In<bf16, dyn, dyn> x, In<i8, dyn, dyn> w, In<f32, dyn> scale) {
  auto X = x.tiles(shape<BM, BK>);
  auto W = w.permuted(order<1, 0>).tiles(shape<BK, BN>);
  auto [i, j] = y.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(X.count(1))) acc = mma(X.load(i, k), cast<bf16>(W.load(k, j)), acc);
  y.store(cast<bf16>(acc * scale.load_like(y, axes<1>)));
}

/// The state of linear attention: for each head the sum over the time of the products of keys and values.
template <int T>
void attention_state(Mut<f32, 1, kHead, kHead> y, In<bf16, dyn, dyn, kHead> keys, In<bf16, dyn, dyn, kHead> values) {
  auto [head, zero, none] = y.index();
  auto K = keys.tiles(shape<1, T, kHead>), V = values.tiles(shape<1, T, kHead>);
  auto acc = zeros<f32, kHead, kHead>();
  for (auto t : range(K.count(1))) {
    auto k = reshape(K.load(head, t, 0), shape<T, kHead>), v = reshape(V.load(head, t, 0), shape<T, kHead>);
    acc = mma(transpose(k), v, acc);
  }
  y.store(reshape(acc, shape<1, kHead, kHead>));
}

/// The pages of each sequence, one after another: sequence, place, depth.
void gather_pages(Mut<bf16, 1, kPage, kWidth> y, In<bf16, dyn, kPage, kWidth> pages, In<i32, dyn, dyn> table) {
  auto [sequence, page, zero] = y.index();
  y.store(pages.tiles(shape<1, kPage, kWidth>).load(table.gather(sequence, page), 0, 0));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan log_softmax_gradient_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto y = uniform<bf16>(1, -12, -8, rows, columns), dy = normal<bf16>(2, rows, columns);
  const auto wanted = [=](Size i) -> Line {
    double total = 0;
    for (Size j = 0; j < columns; ++j) total += dy(i, j);
    return [=](Size j) { return dy(i, j) - std::exp(y(i, j)) * total; };
  };
  return plan({3 * bytes_of<bf16>(rows * columns)}, outputs(output<bf16>(wanted, rows, columns)), inputs(y, dy),
              [](const Stream& on, auto& dx, const auto&... in) {
                kernel<log_softmax_gradient<65536, 1024>>(mut(dx), in...).on(on);
              });
}

Plan swiglu_gradient_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto gate = normal<bf16>(1, n), up = normal<bf16>(2, n), dy = normal<bf16>(3, n);
  const auto sigmoid = [](double t) { return 1 / (1 + std::exp(-t)); };
  const auto d_gate = [=](Size i) {
    const double g = gate.at(i), s = sigmoid(g);
    return dy.at(i) * up.at(i) * s * (1 + g * (1 - s));
  };
  const auto d_up = [=](Size i) { return dy.at(i) * gate.at(i) * sigmoid(gate.at(i)); };
  return plan({5 * bytes_of<bf16>(n)}, outputs(by_offset<bf16>(d_gate, n), by_offset<bf16>(d_up, n)),
              inputs(gate, up, dy), [](const Stream& on, auto& a, auto& b, const auto&... in) {
                kernel<swiglu_gradient<kPiece>>(mut(a), mut(b), in...).on(on);
              });
}

Plan focal_loss_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), classes = size_of_case(args, "classes");
  const auto x = normal<f32>(1, rows, classes);
  const auto labels = whole<i32>(2, -1, classes, rows);
  const auto wanted = [=](Size i) {
    double s = 0;
    for (Size j = 0; j < classes; ++j) {
      const bool positive = labels(i) == static_cast<double>(j);
      const double p = 1 / (1 + std::exp(-x(i, j))), hit = positive ? p : 1 - p;
      s -= (positive ? 0.25 : 0.75) * (1 - hit) * (1 - hit) * std::log(hit);
    }
    return s;
  };
  return plan({bytes_of<f32>(rows * (classes + 2))}, outputs(by_offset<f32>(wanted, rows)), inputs(x, labels),
              [](const Stream& on, auto& y, const auto&... in) { kernel<focal_loss<16, 128>>(mut(y), in...).on(on); });
}

Plan embedding_bag_plan(const Args& args) {
  const Size bags = size_of_case(args, "bags"), words = size_of_case(args, "words");
  const auto table = normal<bf16>(1, words, kWidth);
  const auto ids = whole<i32>(2, 0, words, bags, kBag);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < kBag; ++k) s += table(static_cast<Size>(ids(at / kWidth, k)), at % kWidth);
    return s;
  };
  return plan({bytes_of<bf16>(bags * kBag * kWidth) + bytes_of<f32>(bags * (kWidth + kBag))},
              outputs(by_offset<f32>(wanted, bags, kWidth)), inputs(table, ids),
              [](const Stream& on, auto& y, const auto&... in) { kernel<embedding_bag>(mut(y), in...).on(on); });
}

Plan rope_pairs_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length");
  const Size heads = size_of_case(args, "heads"), depth = size_of_case(args, "depth"), half = depth / 2;
  const auto x = normal<bf16>(1, batch, length, heads, depth);
  const auto cosines = uniform<f32>(2, -1, 1, length, half), sines = uniform<f32>(3, -1, 1, length, half);
  const auto wanted = [=](Size at) {
    const Size t = at / (heads * depth) % length, pair = at % depth / 2, first = at / 2 * 2;
    const double a = x.at(first), b = x.at(first + 1), c = cosines(t, pair), s = sines(t, pair);
    return at % 2 == 0 ? a * c - b * s : b * c + a * s;
  };
  const Size n = batch * length * heads * depth;
  return plan({2 * bytes_of<bf16>(n) + 2 * bytes_of<f32>(length * half)},
              outputs(by_offset<bf16>(wanted, batch, length, heads, depth)), inputs(x, cosines, sines),
              [](const Stream& on, auto& y, const auto&... in) { kernel<rope_pairs<16, 128>>(mut(y), in...).on(on); });
}

Plan lora_product_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto base = normal<bf16>(1, m, n), x = normal<bf16>(2, m, inner);
  const auto a = uniform<bf16>(3, -0.1, 0.1, inner, kRank), b = uniform<bf16>(4, -0.5, 0.5, kRank, n);
  const auto wanted = [=](Size i) -> Line {
    std::vector<double> low(kRank, 0.0);
    for (Size r = 0; r < kRank; ++r) {
      for (Size k = 0; k < inner; ++k) low[static_cast<std::size_t>(r)] += x(i, k) * a(k, r) / 2;
    }
    return [=](Size j) {
      double s = base(i, j);
      for (Size r = 0; r < kRank; ++r) s += low[static_cast<std::size_t>(r)] * b(r, j);
      return s;
    };
  };
  return plan({bytes_of<bf16>(m * (2 * n + inner)),
               2.0 * kRank * static_cast<double>(m) * static_cast<double>(n + inner), "bf16"},
              outputs(output<bf16>(wanted, m, n)), inputs(base, x, a, b),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<lora_product<64, 128, 64, 4096>>(mut(y), in...).on(on);
              });
}

Plan top_two_gate_plan(const Args& args) {
  const Size tokens = size_of_case(args, "tokens"), experts = size_of_case(args, "experts");
  const auto x = normal<f32>(1, tokens, experts);
  const auto places = [=](Size i) {
    Size first = 0, second = -1;
    for (Size j = 1; j < experts; ++j) {
      if (x(i, j) > x(i, first)) first = j;
    }
    for (Size j = 0; j < experts; ++j) {
      if (j != first && (second < 0 || x(i, j) > x(i, second))) second = j;
    }
    return std::vector<double>{static_cast<double>(first), static_cast<double>(second)};
  };
  const auto weights = [=](Size i) {
    const auto place = places(i);
    const double share = 1 / (1 + std::exp(x(i, static_cast<Size>(place[1])) - x(i, static_cast<Size>(place[0]))));
    return std::vector<double>{share, 1 - share};
  };
  return plan({bytes_of<f32>(tokens * (experts + 4))},
              outputs(by_line<f32>(weights, tokens, 2), by_line<i32>(places, tokens, 2)), inputs(x),
              [](const Stream& on, auto& w, auto& e, const auto& from) {
                kernel<top_two_gate<16, 64>>(mut(w), mut(e), from).on(on);
              });
}

Plan int8_weights_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto x = normal<bf16>(1, m, inner);
  const auto w = whole<i8>(2, -127, 128, n, inner);
  const auto scale = uniform<f32>(3, 0.001, 0.002, n);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size k = 0; k < inner; ++k) s += x(at / n, k) * w(at % n, k);
    return s * scale(at % n);
  };
  return plan(
      {bytes_of<i8>(n * inner) + bytes_of<bf16>(m * (n + inner)) + bytes_of<f32>(n)},
      outputs(by_offset<bf16>(wanted, m, n)), inputs(x, w, scale),
      [](const Stream& on, auto& y, const auto&... in) { kernel<int8_weights<16, 64, 128>>(mut(y), in...).on(on); });
}

Plan attention_state_plan(const Args& args) {
  const Size heads = size_of_case(args, "heads"), length = size_of_case(args, "length");
  const auto keys = normal<bf16>(1, heads, length, kHead), values = normal<bf16>(2, heads, length, kHead);
  const auto wanted = [=](Size at) {
    const Size head = at / (kHead * kHead), i = at / kHead % kHead, j = at % kHead;
    double s = 0;
    for (Size t = 0; t < length; ++t) s += keys(head, t, i) * values(head, t, j);
    return s;
  };
  return plan({2 * bytes_of<bf16>(heads * length * kHead) + bytes_of<f32>(heads * kHead * kHead)},
              outputs(by_offset<f32>(wanted, heads, kHead, kHead)), inputs(keys, values),
              [](const Stream& on, auto& y, const auto&... in) { kernel<attention_state<64>>(mut(y), in...).on(on); });
}

Plan gather_pages_plan(const Args& args) {
  const Size sequences = size_of_case(args, "sequences"), count = size_of_case(args, "pages"), all = sequences * count;
  const auto pages = normal<bf16>(1, all, kPage, kWidth);
  const auto table = whole<i32>(2, 0, all, sequences, count);
  const auto wanted = [=](Size at) {
    return pages(static_cast<Size>(table.at(at / (kPage * kWidth))), at / kWidth % kPage, at % kWidth);
  };
  return plan({2 * bytes_of<bf16>(all * kPage * kWidth)},
              outputs(by_offset<bf16>(wanted, sequences, count * kPage, kWidth).within(0)), inputs(pages, table),
              [](const Stream& on, auto& y, const auto&... in) { kernel<gather_pages>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> network_entries() {
  return {entry<log_softmax_gradient_plan>("log_softmax_gradient", "gradients",
                                           "rows=2048 columns=50257; rows=3001 columns=32003; rows=50001 columns=1001",
                                           "rows=2 columns=5003; rows=3 columns=777"),
          entry<swiglu_gradient_plan>("swiglu_gradient", "gradients", "n=67600000; n=50000003; n=7000001",
                                      "n=8064; n=5001"),
          entry<focal_loss_plan>("focal_loss", "losses",
                                 "rows=800000 classes=91; rows=700001 classes=80; rows=300007 classes=111",
                                 "rows=64 classes=91; rows=33 classes=80"),
          entry<embedding_bag_plan>("embedding_bag", "gathers",
                                    "bags=100000 words=1000000; bags=70001 words=100003; bags=30001 words=3000017",
                                    "bags=64 words=1000; bags=13 words=57"),
          entry<rope_pairs_plan>("rope_pairs", "activations",
                                 "batch=16 length=4096 heads=12 depth=80; batch=15 length=3001 heads=9 depth=72; "
                                 "batch=60 length=555 heads=14 depth=112",
                                 "batch=2 length=8 heads=12 depth=80; batch=1 length=5 heads=7 depth=48"),
          entry<lora_product_plan>("lora_product", "products",
                                   "m=24576 n=3072 k=3072; m=15001 n=2000 k=3001; m=50003 n=1100 k=1032",
                                   "m=64 n=384 k=192; m=50 n=200 k=72"),
          entry<top_two_gate_plan>("top_two_gate", "sorting",
                                   "tokens=1000000 experts=60; tokens=900001 experts=33; tokens=400003 experts=57",
                                   "tokens=64 experts=60; tokens=33 experts=9"),
          entry<int8_weights_plan>("int8_weights", "quantized",
                                   "m=16 n=13824 k=5120; m=9 n=20001 k=5100; m=13 n=70001 k=1544",
                                   "m=16 n=192 k=256; m=9 n=70 k=90"),
          entry<attention_state_plan>("attention_state", "attention",
                                      "heads=768 length=2000; heads=333 length=3001; heads=3001 length=333",
                                      "heads=2 length=80; heads=3 length=33"),
          entry<gather_pages_plan>("gather_pages", "gathers",
                                   "sequences=64 pages=1000; sequences=77 pages=700; sequences=1001 pages=13",
                                   "sequences=2 pages=10; sequences=3 pages=7")};
}

}  // namespace generality
