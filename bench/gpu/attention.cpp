// Attention forward (full and causal), its unsafe twin, and decode attention: one token against a long cache.
#include "tessera/kernels/attention.hpp"

#include <array>
#include <map>

#include "attention_tiles.hpp"
#include "harness.hpp"
#include "kernels.hpp"
#include "tessera/kernels/decode_attention.hpp"
#include "unsafe_kernels.hpp"

namespace gpu_bench {
namespace {

struct Heads {
  std::int64_t batch, heads, kv_heads, length, d;
  bool causal;
  Tensor<bf16, 4> q, k, v, o;
  float scale;

  explicit Heads(const Args& args)
      : batch(args.number("batch", 1)),
        heads(args.number("heads", 2)),
        kv_heads(args.number("kv_heads", heads)),
        length(args.number("length", 128)),
        d(args.number("d", 64)),
        causal(args.number("causal", 1) != 0),
        q(normal<bf16>(Dims<4>({batch, heads, length, d}), 1)),
        k(normal<bf16>(Dims<4>({batch, kv_heads, length, d}), 2)),
        v(normal<bf16>(Dims<4>({batch, kv_heads, length, d}), 3)),
        o(poisoned<bf16>(Dims<4>({batch, heads, length, d}))),
        scale(1 / std::sqrt(static_cast<float>(d))) {}

  double flops() const {  // causal counts half the square
    const double L = static_cast<double>(length);
    return 4.0 * static_cast<double>(batch * heads) * L * L * static_cast<double>(d) * (causal ? 0.5 : 1.0);
  }
  double bytes() const { return 4.0 * static_cast<double>(batch * length * d) * static_cast<double>(heads + kv_heads); }
};

/// A row of queries over the keys that it sees.
std::vector<double> computed_row(std::int64_t d, std::int64_t q_at, std::int64_t kv_at, std::int64_t keys,
                                 double scale) {
  std::vector<double> p(static_cast<std::size_t>(keys)), out(static_cast<std::size_t>(d), 0.0), q;
  for (std::int64_t c = 0; c < d; ++c) q.push_back(normal_input<bf16>(1, q_at + c));
  double top = -1e300, total = 0;
  for (std::int64_t j = 0; j < keys; ++j) {
    double s = 0;
    for (std::int64_t c = 0; c < d; ++c) s += q[static_cast<std::size_t>(c)] * normal_input<bf16>(2, kv_at + j * d + c);
    p[static_cast<std::size_t>(j)] = s * scale;
    top = std::max(top, s * scale);
  }
  for (double& s : p) total += s = std::exp(s - top);
  for (std::int64_t j = 0; j < keys; ++j) {
    for (std::int64_t c = 0; c < d; ++c)
      out[static_cast<std::size_t>(c)] +=
          p[static_cast<std::size_t>(j)] / total * normal_input<bf16>(3, kv_at + j * d + c);
  }
  return out;
}

/// The same, computed once: a sweep checks many kernels on the same numbers.
const std::vector<double>& reference_row(std::int64_t d, std::int64_t q_at, std::int64_t kv_at, std::int64_t keys,
                                         double scale) {
  static std::map<std::array<std::int64_t, 4>, std::vector<double>> known;  // the scale follows from d
  std::vector<double>& row = known[{d, q_at, kv_at, keys}];
  if (row.empty()) row = computed_row(d, q_at, kv_at, keys, scale);
  return row;
}

Accuracy check_attention(const Heads& a) {
  Norm norm;
  for (int s = 0; s < 3; ++s) {
    const std::int64_t b = s ? a.batch - 1 : 0, h = s == 1 ? a.heads / 2 : a.heads - 1;
    const std::int64_t i = s == 0 ? 0 : s == 1 ? a.length / 2 + 1 : a.length - 1;
    const std::int64_t q_at = ((b * a.heads + h) * a.length + i) * a.d;
    const std::int64_t kv_at = (b * a.kv_heads + h / (a.heads / a.kv_heads)) * a.length * a.d;
    const auto wanted = reference_row(a.d, q_at, kv_at, a.causal ? i + 1 : a.length, static_cast<double>(a.scale));
    const auto found = values(a.o.slice<0>(b, b + 1).slice<1>(h, h + 1).slice<2>(i, i + 1));
    for (std::size_t c = 0; c < found.size(); ++c) norm.add(found[c], wanted[c]);
  }
  return {norm.relative(), 8e-3};
}

template <bool Causal, int BM, int BN, int D>
auto forward(std::shared_ptr<Heads> a) {
  return [a](int, const Stream& on) {
    kernel<attention<Causal, BM, BN, D>>(mut(a->o), a->q, a->k, a->v, a->scale).on(on);
  };
}
template <bool Causal>
std::function<void(int, const Stream&)> forward_of(const std::shared_ptr<Heads>& a, const std::string& tile) {
  if (a->d == 64) return forward<Causal, 64, 128, 64>(a);
  if (a->d == 128 && tile == "128x128") return forward<Causal, 128, 128, 128>(a);
  if (a->d == 128) return forward<Causal, 64, 128, 128>(a);
  if (a->d == 256 && tile == "64x128") return forward<Causal, 64, 128, 256>(a);
  if (a->d == 256) return forward<Causal, 128, 128, 256>(a);
  throw std::runtime_error("d must be 64, 128 or 256");
}

Prepared attention_case(const Args& args) {
  auto a = std::make_shared<Heads>(args);
  Prepared p;
  p.flops = a->flops();
  p.bytes = a->bytes();
  const std::string tile = args.text("tile", ""), library = args.text("library", "");
  if (!library.empty())
    p.launch = [a, go = attention_of_tile(a->d, a->causal, library)](int, const Stream& on) {
      go(a->o, a->q, a->k, a->v, a->scale, on);
    };
  else if (tile.empty())
    p.launch = [a, chain = Chain{args.number("chain", 0) != 0}](int, const Stream& on) mutable {
      const auto q = chain.begins() ? a->q.view() : a->o.view();  // as many heads, tokens and features
      a->o = kernels::attention(q, a->k, a->v, {.causal = a->causal}).on(on);
    };
  else
    p.launch = a->causal ? forward_of<true>(a, tile) : forward_of<false>(a, tile);
  p.check = [a] { return check_attention(*a); };
  return p;
}

template <bool Causal>
auto unsafe_forward(std::shared_ptr<Heads> a) {
  return [a](int, const Stream& on) {
    kernel<unsafe_attention<Causal, 64, 128, 128>>(mut(a->o), a->q, a->k, a->v, a->scale).on(on);
  };
}

Prepared unsafe_attention_case(const Args& args) {
  auto a = std::make_shared<Heads>(args);
  if (a->d != 128 || a->length % 128)
    throw std::runtime_error("the unsafe twin takes d=128 and a length that 128 divides");
  Prepared p;
  p.flops = a->flops();
  p.bytes = a->bytes();
  if (a->causal)
    p.launch = unsafe_forward<true>(a);
  else
    p.launch = unsafe_forward<false>(a);
  p.check = [a] { return check_attention(*a); };
  return p;
}

// -- decode: D = 128, 8 key heads with 8 query heads each ------------------------------------------------------------

constexpr int kGroup = 8, kKeys = 128, kDepth = 128, kMaxSplits = 512;

struct Cache {
  std::int64_t batch, length, kv_heads, splits;
  i32 steps;
  Tensor<bf16, 4> q, k, v, y;
  Tensor<f32, 5> parts;
  Tensor<f32, 4> top, total;
  float scale = 1 / std::sqrt(static_cast<float>(kDepth));

  explicit Cache(const Args& args)
      : batch(args.number("batch", 1)), length(args.number("length", 1024)), kv_heads(args.number("kv_heads", 8)) {
    const std::int64_t tiles = (length + kKeys - 1) / kKeys;
    // About eight blocks for each of 132 SMs, at most 16 tiles each.
    const std::int64_t wanted = batch * kv_heads * tiles / (132 * 8);
    steps = static_cast<i32>(args.number("steps", std::min<std::int64_t>(std::max<std::int64_t>(wanted, 2), 16)));
    splits = (tiles + steps - 1) / steps;
    if (splits > kMaxSplits) throw std::runtime_error("too many parts: give more steps a block");
    q = normal<bf16>(Dims<4>({batch, kv_heads, kGroup, kDepth}), 1);
    k = normal<bf16>(Dims<4>({batch, kv_heads, length, kDepth}), 2);
    v = normal<bf16>(Dims<4>({batch, kv_heads, length, kDepth}), 3);
    y = poisoned<bf16>(Dims<4>({batch, kv_heads, kGroup, kDepth}));
    parts = poisoned<f32>(Dims<5>({batch, kv_heads, splits, kGroup, kDepth}));
    top = poisoned<f32>(Dims<4>({batch, kv_heads, splits, kGroup}));
    total = poisoned<f32>(Dims<4>({batch, kv_heads, splits, kGroup}));
  }
  static double bytes(const Args& args) {  // of keys and values
    return 4.0 * static_cast<double>(args.number("batch", 1) * args.number("kv_heads", 8)) *
           static_cast<double>(args.number("length", 1024) * kDepth);
  }
  void join(const Stream& on) {
    if (splits <= 4)
      kernel<decode_join<4, kGroup, kDepth>>(mut(y), parts, top, total).on(on);
    else if (splits <= 16)
      kernel<decode_join<16, kGroup, kDepth>>(mut(y), parts, top, total).on(on);
    else if (splits <= 32)
      kernel<decode_join<32, kGroup, kDepth>>(mut(y), parts, top, total).on(on);
    else if (splits <= 128)
      kernel<decode_join<128, kGroup, kDepth>>(mut(y), parts, top, total).on(on);
    else
      kernel<decode_join<512, kGroup, kDepth>>(mut(y), parts, top, total).on(on);
  }
  Accuracy check() const {
    Norm norm;
    for (int s = 0; s < 2; ++s) {
      const std::int64_t b = s ? batch - 1 : 0, h = s ? kv_heads - 1 : 0, g = s ? kGroup - 1 : 0;
      const std::int64_t head = b * kv_heads + h;
      const auto wanted = reference_row(kDepth, (head * kGroup + g) * kDepth, head * length * kDepth, length,
                                        static_cast<double>(scale));
      const auto found = values(y.slice<0>(b, b + 1).slice<1>(h, h + 1).slice<2>(g, g + 1));
      for (std::size_t c = 0; c < found.size(); ++c) norm.add(found[c], wanted[c]);
    }
    return {norm.relative(), 8e-3};
  }
};

/// The library's entry, with all of the cache in use.
Prepared decode_library(const Args& args) {
  Prepared p;
  struct State {
    Cache cache;
    Tensor<bf16, 3> q, y;
    Tensor<i32, 1> lengths;
  };
  auto states = std::make_shared<std::vector<State>>();
  auto chain = std::make_shared<Chain>(Chain{args.number("chain", 0) != 0});
  p.bytes = Cache::bytes(args);
  p.sets = sets_for(args, p.bytes);
  for (int s = 0; s < p.sets; ++s) {
    Cache c(args);
    const std::int64_t heads = c.kv_heads * kGroup;
    auto q = normal<bf16>(Dims<3>({c.batch, heads, std::int64_t{kDepth}}), 1);
    auto lengths = full<i32>({c.batch}, static_cast<i32>(c.length)).sync();
    states->push_back(State{std::move(c), std::move(q), {}, std::move(lengths)});
  }
  const std::int64_t keys = args.number("keys", 128), parts = args.number("parts", 0);
  p.launch = [states, chain, keys, parts](int s, const Stream& on) {
    State& t = (*states)[static_cast<std::size_t>(s)];
    const auto q = chain->begins() ? t.q.view() : (*states)[static_cast<std::size_t>(chain->from)].y.view();
    t.y = keys == 64 ? kernels::decode_attention<64>(q, t.cache.k, t.cache.v, t.lengths, 0, parts).on(on)
                     : kernels::decode_attention(q, t.cache.k, t.cache.v, t.lengths, 0, parts).on(on);
    chain->from = s;
  };
  p.check = [states, chain] {
    State& t = states->front();
    t.cache.y = std::move(t.y).reshape({t.cache.batch, t.cache.kv_heads, kGroup, kDepth});
    chain->launches = 0;
    return t.cache.check();
  };
  return p;
}

Prepared decode_case(const Args& args) {
  if (args.text("impl", "library") == "library") return decode_library(args);
  Prepared p;
  p.bytes = Cache::bytes(args);
  p.sets = sets_for(args, p.bytes);
  auto caches = std::make_shared<std::vector<Cache>>();
  for (int s = 0; s < p.sets; ++s) caches->emplace_back(args);
  p.launch = [caches](int s, const Stream& on) {
    Cache& c = (*caches)[static_cast<std::size_t>(s)];
    kernel<decode_split<kGroup, kKeys, kDepth>>(mut(c.parts), mut(c.top), mut(c.total), c.q, c.k, c.v, c.scale, c.steps)
        .on(on);
    c.join(on);
  };
  p.check = [caches] { return caches->front().check(); };
  return p;
}

}  // namespace

std::vector<Case> attention_cases() {
  return {{"attention",
           "batch heads kv_heads length d=64|128|256 causal=0|1 chain=0|1 (the library's entry), or library=64x128 ... "
           "(its kernel "
           "with these tiles), or tile=64x128|128x128 (the plain kernel)",
           attention_case},
          {"attention_unsafe", "batch heads length causal=0|1 (d=128)", unsafe_attention_case},
          {"decode",
           "batch length kv_heads impl=library|naive steps, or keys=64|128 parts chain=0|1 (d=128, 8 query heads per "
           "key head, "
           "combining included)",
           decode_case}};
}

}  // namespace gpu_bench
