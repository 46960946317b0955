// Activations and related elementwise kernels: GELU, its gradient, SwiGLU, dropout, rotary positions.
#include <cmath>
#include <cstdint>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kHeads = 32, kDepth = 128;  // of rope's pieces

template <int B>
void gelu(Mut<bf16, B> y, In<bf16, dyn> x) {
  auto t = cast<f32>(x.load_like(y));
  auto inner = 0.7978845608f * (t + 0.044715f * t * t * t);
  y.store(cast<bf16>(0.5f * t * (1.0f + tanh(inner))));
}

template <int B>
void gelu_gradient(Mut<bf16, B> dx, In<bf16, dyn> x, In<bf16, dyn> dy) {
  auto t = cast<f32>(x.load_like(dx));
  auto inner = 0.7978845608f * (t + 0.044715f * t * t * t);
  auto th = tanh(inner);
  auto slope = 0.5f * (1.0f + th) + 0.5f * t * (1.0f - th * th) * 0.7978845608f * (1.0f + 0.134145f * t * t);
  dx.store(cast<bf16>(slope * cast<f32>(dy.load_like(dx))));
}

/// x has the gates in its left half and the values in its right one.
template <int B>
void swiglu(Mut<bf16, 1, B> y, In<bf16, dyn, dyn> x) {
  require(x.dim(1) == y.dim(1) * 2, "x must be twice as wide as y");
  auto [row, column] = y.origin();
  auto gate = cast<f32>(x.load_at(shape<1, B>, row, column));
  auto value = cast<f32>(x.load_at(shape<1, B>, row, column + y.dim(1)));
  y.store(cast<bf16>(gate / (1.0f + exp(-gate)) * value));
}

template <int B>
void dropout(Mut<f32, B> y, In<f32, dyn> x, Scalar<f32> p, Scalar<u64> seed) {
  auto u = random::uniform<f32>(seed, y.offsets());
  y.store(where(u < p, 0.0f, x.load_like(y) / (1.0f - p)));
}

/// Rotates the pairs (i, i + D / 2) of each head by an angle that depends on the position and i.
template <int H, int D>
void rope(Mut<bf16, 1, 1, H, D> y, In<bf16, dyn, dyn, dyn, D> x, In<f32, dyn, D / 2> cosines,
          In<f32, dyn, D / 2> sines) {
  auto [batch, time, heads, zero] = y.index();
  auto X = x.tiles(shape<1, 1, H, D / 2>);
  auto a = cast<f32>(X.load(batch, time, heads, 0)), b = cast<f32>(X.load(batch, time, heads, 1));
  auto c = reshape(cosines.tiles(shape<1, D / 2>).load(time, 0), shape<1, 1, 1, D / 2>);
  auto s = reshape(sines.tiles(shape<1, D / 2>).load(time, 0), shape<1, 1, 1, D / 2>);
  auto Y = y.sub(shape<1, 1, H, D / 2>);
  Y.store(0, 0, 0, 0, cast<bf16>(a * c - b * s));
  Y.store(0, 0, 0, 1, cast<bf16>(b * c + a * s));
}

// -- the cases --------------------------------------------------------------------------------------------------------

double gelu_of(double t) { return 0.5 * t * (1 + std::tanh(0.7978845608 * (t + 0.044715 * t * t * t))); }
double gelu_slope(double t) {
  const double th = std::tanh(0.7978845608 * (t + 0.044715 * t * t * t));
  return 0.5 * (1 + th) + 0.5 * t * (1 - th * th) * 0.7978845608 * (1 + 3 * 0.044715 * t * t);
}

Plan gelu_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, n);
  return plan({2 * bytes_of<bf16>(n)}, outputs(by_offset<bf16>([=](Size i) { return gelu_of(x.at(i)); }, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<gelu<kPiece>>(mut(y), from).on(on); });
}

Plan gelu_gradient_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, n), dy = normal<bf16>(2, n);
  return plan({3 * bytes_of<bf16>(n)},
              outputs(by_offset<bf16>([=](Size i) { return gelu_slope(x.at(i)) * dy.at(i); }, n)), inputs(x, dy),
              [](const Stream& on, auto& dx, const auto& from, const auto& given) {
                kernel<gelu_gradient<kPiece>>(mut(dx), from, given).on(on);
              });
}

Plan swiglu_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, 2 * columns);
  const auto line = [=](Size i) -> Line {
    return [=](Size j) {
      const double gate = x(i, j);
      return gate / (1 + std::exp(-gate)) * x(i, columns + j);
    };
  };
  return plan({3 * bytes_of<bf16>(rows * columns)}, outputs(output<bf16>(line, rows, columns)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<swiglu<kPiece>>(mut(y), from).on(on); });
}

Plan dropout_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  constexpr std::uint64_t kSeed = 7;
  const auto x = normal<f32>(1, n);
  const auto wanted = [=](Size i) {
    return uniform_at<f32>(kSeed, static_cast<std::uint64_t>(i)) < 0.25f ? 0.0 : x.at(i) / 0.75;
  };
  return plan(
      {2 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<dropout<kPiece>>(mut(y), from, 0.25f, kSeed).on(on); });
}

Plan rope_plan(const Args& args) {
  constexpr int kHalf = kDepth / 2;
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length"),
             heads = size_of_case(args, "heads");
  const auto x = normal<bf16>(1, batch, length, heads, kDepth);
  const auto cosines = uniform<f32>(2, -1, 1, length, kHalf), sines = uniform<f32>(3, -1, 1, length, kHalf);
  const auto line = [=](Size i) -> Line {
    return [=](Size j) {
      const Size head = i % heads, time = i / heads % length, b = i / heads / length, k = j % kHalf;
      const double left = x(b, time, head, k), right = x(b, time, head, k + kHalf);
      const double c = cosines(time, k), s = sines(time, k);
      return j < kHalf ? left * c - right * s : right * c + left * s;
    };
  };
  return plan({2 * bytes_of<bf16>(batch * length * heads * kDepth)},
              outputs(output<bf16>(line, batch, length, heads, kDepth)), inputs(x, cosines, sines),
              [](const Stream& on, auto& y, const auto& from, const auto& c, const auto& s) {
                kernel<rope<kHeads, kDepth>>(mut(y), from, c, s).on(on);
              });
}

}  // namespace

std::vector<Entry> activation_entries() {
  return {entry<gelu_plan>("gelu", "activations", "n=268435456; n=200000003; n=20000005", "n=8192; n=5000"),
          entry<gelu_gradient_plan>("gelu_gradient", "activations", "n=134217728; n=100000007; n=29999999",
                                    "n=8192; n=5000"),
          entry<swiglu_plan>("swiglu", "activations",
                             "rows=16384 columns=8192; rows=150000 columns=901; rows=3001 columns=13824",
                             "rows=16 columns=2048; rows=5 columns=1500"),
          entry<dropout_plan>("dropout", "random", "n=134217728; n=100000003; n=12345679", "n=8192; n=5000"),
          entry<rope_plan>("rope", "activations",
                           "batch=4 length=4096 heads=32; batch=3 length=3001 heads=20; batch=111 length=333 heads=9",
                           "batch=2 length=16 heads=32; batch=2 length=5 heads=32")};
}

}  // namespace generality
