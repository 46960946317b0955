// Functions of one or two values, on tiles of f32 or f64, for the elementwise kernels and the epilogues of products.
// Each is a class without state, so that it can be a template argument.
#pragma once
#include "tessera/lang/lang.hpp"

namespace tessera::kernels::functions {

/// 1 / (1 + e^-x)
struct Sigmoid {
  auto operator()(const auto& x) const { return 1.0 / (1.0 + exp(0.0 - x)); }
};
/// x if it is positive, else 0; NaN stays NaN.
struct Relu {
  auto operator()(const auto& x) const { return where(x < 0.0, 0.0, x); }
};
/// x * sigmoid(x)
struct Silu {
  auto operator()(const auto& x) const { return x / (1.0 + exp(0.0 - x)); }
};
/// The error function within 1.5e-7 (Abramowitz and Stegun, 7.1.26).
struct Erf {
  auto operator()(const auto& x) const {
    const auto a = abs(x);
    const auto t = 1.0 / (1.0 + 0.3275911 * a);
    const auto p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    const auto y = 1.0 - p * exp(0.0 - a * a);
    return where(x < 0.0, 0.0 - y, y);
  }
};
/// x * (1 + erf(x / sqrt(2))) / 2, within 1.5e-7 * |x| (Erf), of f64 too: below -4, where it is nearly 0, few digits
/// are correct.
struct Gelu {
  auto operator()(const auto& x) const { return 0.5 * x * (1.0 + Erf{}(x * 0.70710678)); }
};
/// The approximation of Gelu by tanh (Hendrycks and Gimpel 2016).
struct GeluTanh {
  auto operator()(const auto& x) const { return 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }
};
struct Identity {
  auto operator()(const auto& x) const { return x; }
};
struct Exp {
  auto operator()(const auto& x) const { return exp(x); }
};
struct Tanh {
  auto operator()(const auto& x) const { return tanh(x); }
};
struct Add {
  auto operator()(const auto& a, const auto& b) const { return a + b; }
};
struct Sub {
  auto operator()(const auto& a, const auto& b) const { return a - b; }
};
struct Mul {
  auto operator()(const auto& a, const auto& b) const { return a * b; }
};
struct Div {
  auto operator()(const auto& a, const auto& b) const { return a / b; }
};
struct Maximum {
  auto operator()(const auto& a, const auto& b) const { return max(a, b); }
};
struct Minimum {
  auto operator()(const auto& a, const auto& b) const { return min(a, b); }
};
/// y + a * x of y, x, a.
struct Saxpy {
  auto operator()(const auto& y, const auto& x, const auto& a) const { return y + a * x; }
};
/// silu(gate) * up, gelu(gate) * up: the gates of transformer layers.
struct SiluMul {
  auto operator()(const auto& gate, const auto& up) const { return Silu{}(gate)*up; }
};
struct GeluMul {
  auto operator()(const auto& gate, const auto& up) const { return Gelu{}(gate)*up; }
};

}  // namespace tessera::kernels::functions
