// A case of compare_bench: random inputs, poisoned outputs, the call of one function of the kernel library, and a
// reference in f64. Inputs and outputs are described as in bench/generality. Only Tessera's public API is used, because
// the program is also built with the library of an older commit (docs/gpu.md, "Two builds compared").
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "generality/work.hpp"

namespace compare {

using namespace tessera;
using generality::bytes_of;
using generality::Fill;
using generality::Input;
using generality::inputs;
using generality::Line;
using generality::normal;
using generality::Output;
using generality::output;
using generality::outputs;
using generality::Size;
using generality::uniform;
using generality::whole;
using measure::Action;
using measure::Args;

/// What a check has found: the worst output's relative norm, and elements that no block has written.
struct Verdict {
  double error = 0, tolerance = 0;
  Size unwritten = 0;
  bool wrong() const { return !(error <= tolerance) || unwritten > 0; }
};

/// A case with its tensors.
struct Ready {
  Action<void(int set, const Stream&)> launch;
  Action<void()> poison;    ///< fills memory that the next results will probably get
  Action<Verdict()> check;  ///< of set 0, after one launch
  int sets = 1;             ///< equal groups of tensors, which together exceed L2 where that is possible
  double bytes = 0, flops = 0;
};

struct Case {
  const char* name;  ///< a function of tessera::kernels, or a kernel of bench/generality
  std::function<Ready(const Args&)> prepare;
};

std::vector<Case> product_cases();
std::vector<Case> product_plan_cases();
std::vector<Case> linear_cases();
std::vector<Case> batched_cases();
std::vector<Case> attention_cases();
std::vector<Case> convolution_cases();
std::vector<Case> attention_backward_cases();
std::vector<Case> row_gradient_cases();
std::vector<Case> decode_cases();
std::vector<Case> row_cases();
std::vector<Case> norm_cases();
std::vector<Case> reduction_cases();
std::vector<Case> elementwise_cases();
std::vector<Case> table_cases();
std::vector<Case> quantize_cases();
std::vector<Case> expert_cases();
std::vector<Case> user_cases();

// -- arguments --------------------------------------------------------------------------------------------------------

inline Size size_of(const Args& args, const char* key) {
  const Size n = args.number(key, 0);
  if (n <= 0) throw std::runtime_error(std::string("expected ") + key + "=N with N above 0");
  return n;
}
/// The seed of input `i`: each run of the comparison has other numbers.
inline std::uint64_t seed_of(const Args& args, int i) {
  return static_cast<std::uint64_t>(args.number("seed", 1)) * 16 + static_cast<std::uint64_t>(i);
}
template <class T>
constexpr const char* type_name() {
  return info(element_type<T>).name;
}
/// f(std::type_identity<T>) for the one of these element types that `type` names.
template <class... T, class F>
Ready by_type(const Args& args, F f) {
  const std::string name = args.text("type", "bf16");
  Ready ready;
  const auto attempt = [&]<class U>(std::type_identity<U> type) {
    if (name != type_name<U>()) return false;
    ready = f(type);
    return true;
  };
  if (!(attempt(std::type_identity<T>{}) || ...)) throw std::runtime_error("the case does not have the type " + name);
  return ready;
}

// -- checks -----------------------------------------------------------------------------------------------------------

/// Lines of an output that are compared with the reference: the first, the last, and `some` random ones.
inline std::vector<Size> sampled_lines(Size lines, int some, std::uint64_t seed) {
  std::vector<Size> chosen{0, lines - 1};
  std::mt19937_64 random(seed);
  for (int i = 0; i < some; ++i) chosen.push_back(static_cast<Size>(random() % static_cast<std::uint64_t>(lines)));
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

/// Compares a sample with the reference, and looks for poison everywhere if the output is not too large for that.
template <class T, int R>
Verdict compared(const Tensor<T, R>& found, const Output<T, R>& wanted, std::uint64_t seed) {
  constexpr Size kRuns = 8, kRun = 16, kReadWhole = Size{1} << 22;
  constexpr int kRandomLines = 3;
  Verdict verdict;
  verdict.tolerance = wanted.tolerance;
  const Size lines = wanted.lines(), length = wanted.length();
  const auto flat = found.view().reshape({lines * length});
  if (element_class<T> == ElementClass::Float && lines * length <= kReadWhole) {
    for (const double v : gpu_bench::values(flat)) verdict.unwritten += v != v ? 1 : 0;
  }
  generality::Distance distance;
  for (const Size i : sampled_lines(lines, kRandomLines, seed)) {
    const Line line = wanted.line(i);
    const auto run = [&](Size from, Size count) {
      const auto some = gpu_bench::values(flat.template slice<0>(i * length + from, i * length + from + count));
      for (Size j = 0; j < count; ++j) distance.add(some[static_cast<std::size_t>(j)], line(from + j));
    };
    if (length <= kRuns * kRun) {
      run(0, length);
    } else {
      for (Size r = 0; r < kRuns; ++r) run((length - kRun) * r / (kRuns - 1), kRun);
    }
  }
  verdict.error = distance.value();
  return verdict;
}

// -- cases ------------------------------------------------------------------------------------------------------------

/// Bytes and arithmetic of one launch, at least.
struct Cost {
  double bytes = 0, flops = 0;
};

/// All bits set: NaN as a float, -1 as an integer.
template <class T, int R>
void poison_like(const Output<T, R>& y) {
  const Size bytes = y.lines() * y.length() * static_cast<Size>(sizeof(T));
  (void)full<u8>({bytes}, u8{255}).sync();  // freed at once: the next allocation of this size is likely to get it
}

/// The case whose launch is `launch(stream, outputs..., inputs...)`.
template <class... Y, class... X, class F>
Ready ready(const Args& args, const Cost& cost, const std::tuple<Y...>& ys, const std::tuple<X...>& xs, F launch) {
  const auto make = [](const auto&... spec) { return std::make_tuple(spec.make()...); };
  using Set = generality::Tensors<decltype(std::apply(make, ys)), decltype(std::apply(make, xs))>;
  Ready r;
  r.bytes = cost.bytes;
  r.flops = cost.flops;
  r.sets = measure::sets_for(args, cost.bytes);
  auto sets = std::make_shared<std::vector<Set>>();
  for (int s = 0; s < r.sets; ++s) sets->push_back(Set{std::apply(make, ys), std::apply(make, xs)});
  r.launch = [=](int s, const Stream& on) {
    (*sets)[static_cast<std::size_t>(s)].with([&](auto&... tensors) { launch(on, tensors...); });
  };
  r.poison = [=] { std::apply([](const auto&... y) { (poison_like(y), ...); }, ys); };
  r.check = [=, seed = seed_of(args, 15)] {
    Verdict worst;
    bool first = true;
    const auto judge = [&](const Verdict& v) {
      const Size unwritten = worst.unwritten + v.unwritten;
      if (first || v.wrong() || (!worst.wrong() && v.error > worst.error)) worst = v;
      worst.unwritten = unwritten;
      first = false;
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (judge(compared(std::get<I>((*sets)[0].y), std::get<I>(ys), seed)), ...);
    }(std::index_sequence_for<Y...>{});
    return worst;
  };
  return r;
}

}  // namespace compare
