// Steps of training, element by element: Adam's, the gradient of the Huber loss.
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

}  // namespace

std::vector<Entry> training_entries() {
  return {entry<adam_step_plan>("adam_step", "optimizers", "n=20000000; n=15000001; n=3000003", "n=7936; n=5001"),
          entry<huber_gradient_plan>("huber_gradient", "gradients", "n=100000000; n=80000003; n=29000001",
                                     "n=7936; n=5001")};
}

}  // namespace generality
