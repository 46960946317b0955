// Steps of training, element by element: Adam's, Lion's, RMSprop's, of factored moments; averages of weights; the
// gradient of the Huber loss.
#include <algorithm>
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;

template <int B>
void adam_step(Mut<f32, B> new_p, Mut<f32, B> new_m, Mut<f32, B> new_v, In<f32, dyn> p, In<f32, dyn> m, In<f32, dyn> v,
               In<bf16, dyn> gradient, Scalar<f32> rate, Scalar<f32> first_bias, Scalar<f32> second_bias) {
  auto g = cast<f32>(gradient.load_like(new_p));
  auto m2 = 0.9f * m.load_like(new_m) + 0.1f * g;
  auto v2 = 0.999f * v.load_like(new_v) + 0.001f * g * g;
  new_m.store(m2);
  new_v.store(v2);
  new_p.store(p.load_like(new_p) - rate * (m2 / first_bias) / (sqrt(v2 / second_bias) + 1e-8f));
}

/// 0 below 0.1, then linear, and at most 1.
template <int B>
void huber_gradient(Mut<f16, B> y, In<f16, dyn> x, In<f16, dyn> target) {
  auto d = cast<f32>(x.load_like(y)) - cast<f32>(target.load_like(y));
  auto outer = where(d > 0.0f, 1.0f, -1.0f);
  auto g = where(abs(d) < 0.1f, 0.0f, where(abs(d) <= 1.0f, d, outer));
  y.store(cast<f16>(g));
}

/// Lion: the sign of an average of the gradients, and decay of the weights.
template <int B>
void lion_step(Mut<bf16, B> new_p, Mut<f32, B> new_m, In<bf16, dyn> p, In<f32, dyn> m, In<bf16, dyn> gradient,
               Scalar<f32> rate) {
  auto g = cast<f32>(gradient.load_like(new_p)), before = m.load_like(new_m), w = cast<f32>(p.load_like(new_p));
  auto c = 0.9f * before + 0.1f * g;
  auto sign = where(c > 0.0f, 1.0f, where(c < 0.0f, -1.0f, full<f32, B>(0.0f)));
  new_p.store(cast<bf16>(w - rate * (sign + 0.1f * w)));
  new_m.store(0.99f * before + 0.01f * g);
}

template <int B>
void rmsprop_step(Mut<f32, B> new_p, Mut<f32, B> new_v, In<f32, dyn> p, In<f32, dyn> v, In<f32, dyn> gradient,
                  Scalar<f32> rate) {
  auto g = gradient.load_like(new_p);
  auto square = 0.99f * v.load_like(new_v) + 0.01f * g * g;
  new_v.store(square);
  new_p.store(p.load_like(new_p) - rate * g / (sqrt(square) + 1e-6f));
}

/// A step by second moments that are known per row and per column (Adafactor).
template <int BM, int BN>
void factored_step(Mut<f32, BM, BN> y, In<f32, dyn, dyn> p, In<f32, dyn, dyn> gradient, In<f32, dyn> rows,
                   In<f32, dyn> columns, Scalar<f32> rate) {
  auto moment = rows.load_like(y, axes<0>) * columns.load_like(y, axes<1>);
  y.store(p.load_like(y) - rate * gradient.load_like(y) * rsqrt(moment));
}

/// Weights of 16 bits into their running average.
template <int B>
void average_of_weights(Mut<f32, B> y, In<f32, dyn> average, In<f16, dyn> weights, Scalar<f32> share) {
  auto before = average.load_like(y);
  y.store(before + share * (cast<f32>(weights.load_like(y)) - before));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan adam_step_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto p = normal<f32>(1, n), m = normal<f32>(2, n), v = uniform<f32>(3, 0, 1, n);
  const auto g = normal<bf16>(4, n);
  constexpr float kRate = 0.01f, kFirst = 0.5f, kSecond = 0.01f;
  const auto m2 = [=](Size i) { return 0.9 * m.at(i) + 0.1 * g.at(i); };
  const auto v2 = [=](Size i) { return 0.999 * v.at(i) + 0.001 * g.at(i) * g.at(i); };
  const auto p2 = [=](Size i) {
    return p.at(i) - static_cast<double>(kRate) * (m2(i) / static_cast<double>(kFirst)) /
                         (std::sqrt(v2(i) / static_cast<double>(kSecond)) + 1e-8);
  };
  return plan({bytes_of<f32>(6 * n) + bytes_of<bf16>(n)},
              outputs(by_offset<f32>(p2, n), by_offset<f32>(m2, n), by_offset<f32>(v2, n)), inputs(p, m, v, g),
              [](const Stream& on, auto& a, auto& b, auto& c, const auto&... in) {
                kernel<adam_step<kPiece>>(mut(a), mut(b), mut(c), in..., kRate, kFirst, kSecond).on(on);
              });
}

Plan huber_gradient_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f16>(1, n), t = normal<f16>(2, n);
  const auto wanted = [=](Size i) {
    const double d = x.at(i) - t.at(i);
    if (std::abs(d) < static_cast<double>(0.1f)) return 0.0;
    return std::clamp(d, -1.0, 1.0);
  };
  return plan(
      {3 * bytes_of<f16>(n)}, outputs(by_offset<f16>(wanted, n)), inputs(x, t),
      [](const Stream& on, auto& y, const auto&... in) { kernel<huber_gradient<kPiece>>(mut(y), in...).on(on); });
}

Plan lion_step_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto p = normal<bf16>(1, n), g = normal<bf16>(3, n);
  const auto m = normal<f32>(2, n);
  const auto p2 = [=](Size i) {
    const double c = 0.9 * m.at(i) + 0.1 * g.at(i);
    return p.at(i) - 0.01 * ((c > 0 ? 1 : -1) + 0.1 * p.at(i));
  };
  const auto m2 = [=](Size i) { return 0.99 * m.at(i) + 0.01 * g.at(i); };
  return plan({14.0 * static_cast<double>(n)}, outputs(by_offset<bf16>(p2, n), by_offset<f32>(m2, n)), inputs(p, m, g),
              [](const Stream& on, auto& a, auto& b, const auto&... in) {
                kernel<lion_step<kPiece>>(mut(a), mut(b), in..., 0.01f).on(on);
              });
}

Plan rmsprop_step_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto p = normal<f32>(1, n), v = uniform<f32>(2, 0, 1, n), g = normal<f32>(3, n);
  const auto v2 = [=](Size i) { return 0.99 * v.at(i) + 0.01 * g.at(i) * g.at(i); };
  const auto p2 = [=](Size i) { return p.at(i) - 0.01 * g.at(i) / (std::sqrt(v2(i)) + 1e-6); };
  return plan({bytes_of<f32>(5 * n)}, outputs(by_offset<f32>(p2, n), by_offset<f32>(v2, n)), inputs(p, v, g),
              [](const Stream& on, auto& a, auto& b, const auto&... in) {
                kernel<rmsprop_step<kPiece>>(mut(a), mut(b), in..., 0.01f).on(on);
              });
}

Plan factored_step_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto p = normal<f32>(1, rows, columns), g = normal<f32>(2, rows, columns);
  const auto r = uniform<f32>(3, 0.1, 1, rows), c = uniform<f32>(4, 0.1, 1, columns);
  const auto wanted = [=](Size at) {
    return p.at(at) - 0.01 * g.at(at) / std::sqrt(r(at / columns) * c(at % columns));
  };
  return plan({3 * bytes_of<f32>(rows * columns)}, outputs(by_offset<f32>(wanted, rows, columns)), inputs(p, g, r, c),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<factored_step<16, 128>>(mut(y), in..., 0.01f).on(on);
              });
}

Plan average_of_weights_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto average = normal<f32>(1, n);
  const auto weights = normal<f16>(2, n);
  const auto wanted = [=](Size i) { return average.at(i) + 0.001 * (weights.at(i) - average.at(i)); };
  return plan({10.0 * static_cast<double>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(average, weights),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<average_of_weights<kPiece>>(mut(y), in..., 0.001f).on(on);
              });
}

}  // namespace

std::vector<Entry> training_entries() {
  return {entry<adam_step_plan>("adam_step", "optimizers", "n=20000000; n=15000001; n=3000003", "n=7936; n=5001"),
          entry<lion_step_plan>("lion_step", "optimizers", "n=50331648; n=40000003; n=9000011", "n=8192; n=5001"),
          entry<rmsprop_step_plan>("rmsprop_step", "optimizers", "n=33554432; n=30000001; n=7000003", "n=8192; n=5001"),
          entry<factored_step_plan>("factored_step", "optimizers",
                                    "rows=8192 columns=8192; rows=20011 columns=3001; rows=777 columns=50257",
                                    "rows=32 columns=256; rows=21 columns=177"),
          entry<average_of_weights_plan>("average_of_weights", "optimizers", "n=100663296; n=80000003; n=9000011",
                                         "n=8192; n=5001"),
          entry<huber_gradient_plan>("huber_gradient", "gradients", "n=100000000; n=80000003; n=29000001",
                                     "n=7936; n=5001")};
}

}  // namespace generality
