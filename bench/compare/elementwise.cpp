// Elementwise functions into new tensors and in place, and dropout.
#include <cmath>

#include "case.hpp"
#include "tessera/kernels/dropout.hpp"
#include "tessera/kernels/elementwise.hpp"

namespace compare {
namespace {

namespace k = kernels;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }

/// A function of one tensor; `Reference` has the same in f64.
template <auto Call, auto Reference>
Ready unary(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto x = normal<T>(seed_of(args, 1), rows, columns);
    return ready(args, {2 * bytes_of<T>(rows * columns)},
                 outputs(generality::by_offset<T>([=](Size at) { return Reference(x.at(at)); }, rows, columns)),
                 inputs(x), [](const Stream& on, auto& y, const auto& from) { y = Call(from).on(on); });
  });
}
/// A function of two tensors; broadcast=1: the second is one row.
template <auto Call, auto Reference>
Ready binary(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const bool broadcast = args.number("broadcast", 0) != 0;
    const auto a = normal<T>(seed_of(args, 1), rows, columns);
    const auto b = uniform<T>(seed_of(args, 2), 0.5, 1.5, broadcast ? 1 : rows, columns);
    const auto wanted = [=](Size at) { return Reference(a.at(at), b.at(broadcast ? at % columns : at)); };
    return ready(args, {(broadcast ? 2 : 3) * bytes_of<T>(rows * columns)},
                 outputs(generality::by_offset<T>(wanted, rows, columns)), inputs(a, b),
                 [](const Stream& on, auto& y, const auto& left, const auto& right) { y = Call(left, right).on(on); });
  });
}

/// The element at an offset before the first launch in place: what Output::make() has filled it with.
double before(Size at) { return gpu_bench::normal_input<f32>(0xBAD, at); }

struct HalfSquare {
  auto operator()(const auto& x) const { return 0.5 * x * x; }
};
struct Halved {  // a launch in place must not drift to infinity or 0
  auto operator()(const auto& x) const { return 0.5 * x + 1.0; }
};

Ready map_in_place_case(const Args& args) {
  const Size n = size_of(args, "n");
  const auto unused = normal<f32>(1, 1);
  return ready(args, {2 * bytes_of<f32>(n)},
               outputs(generality::by_offset<f32>([](Size at) { return 0.5 * before(at) + 1; }, n)), inputs(unused),
               [](const Stream& on, auto& y, const auto&) { y = k::map_in_place(Halved{}, std::move(y)).on(on); });
}

Ready saxpy_case(const Args& args) {
  const Size n = size_of(args, "n");
  const auto x = normal<f32>(seed_of(args, 1), n);
  return ready(args, {3 * bytes_of<f32>(n)},
               outputs(generality::by_offset<f32>([=](Size at) { return before(at) + 2 * x.at(at); }, n)), inputs(x),
               [](const Stream& on, auto& y, const auto& from) { y = k::saxpy(std::move(y), 2.0f, from).on(on); });
}

Ready dropout_case(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    constexpr float kShare = 0.25f;
    const Size n = size_of(args, "n");
    const auto seed = seed_of(args, 2);
    const auto x = normal<T>(seed_of(args, 1), n);
    const auto wanted = [=](Size at) {
      return uniform_at<f32>(seed, static_cast<std::uint64_t>(at)) < kShare ? 0 : x.at(at) / (1 - kShare);
    };
    return ready(args, {2 * bytes_of<T>(n)}, outputs(generality::by_offset<T>(wanted, n)), inputs(x),
                 [=](const Stream& on, auto& y, const auto& from) { y = k::dropout(from, kShare, seed).on(on); });
  });
}

std::vector<Case> unary_cases() {
  return {
      {"map", unary<[](const auto& x) { return k::map(HalfSquare{}, x); }, [](double x) { return x * x / 2; }>},
      {"relu", unary<[](const auto& x) { return k::relu(x); }, [](double x) { return std::max(x, 0.0); }>},
      {"sigmoid", unary<[](const auto& x) { return k::sigmoid(x); }, sigmoid>},
      {"silu", unary<[](const auto& x) { return k::silu(x); }, [](double x) { return x * sigmoid(x); }>},
      {"gelu", unary<[](const auto& x) { return k::gelu(x); }, gelu>},
      {"gelu_tanh", unary<[](const auto& x) { return k::gelu_tanh(x); }, gelu_tanh>},
  };
}

std::vector<Case> binary_cases() {
  return {
      {"add",
       binary<[](const auto& x, const auto& y) { return k::add(x, y); }, [](double x, double y) { return x + y; }>},
      {"sub",
       binary<[](const auto& x, const auto& y) { return k::sub(x, y); }, [](double x, double y) { return x - y; }>},
      {"mul",
       binary<[](const auto& x, const auto& y) { return k::mul(x, y); }, [](double x, double y) { return x * y; }>},
      {"div",
       binary<[](const auto& x, const auto& y) { return k::div(x, y); }, [](double x, double y) { return x / y; }>},
      {"maximum", binary<[](const auto& x, const auto& y) { return k::maximum(x, y); },
                         [](double x, double y) { return std::max(x, y); }>},
      {"minimum", binary<[](const auto& x, const auto& y) { return k::minimum(x, y); },
                         [](double x, double y) { return std::min(x, y); }>},
      {"silu_mul", binary<[](const auto& x, const auto& y) { return k::silu_mul(x, y); },
                          [](double x, double y) { return x * sigmoid(x) * y; }>},
      {"gelu_mul", binary<[](const auto& x, const auto& y) { return k::gelu_mul(x, y); },
                          [](double x, double y) { return gelu(x) * y; }>},
  };
}

}  // namespace

std::vector<Case> elementwise_cases() {
  std::vector<Case> all{{"map_in_place", map_in_place_case}, {"saxpy", saxpy_case}, {"dropout", dropout_case}};
  for (const auto& some : {unary_cases(), binary_cases()}) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace compare
