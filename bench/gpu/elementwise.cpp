// copy, add, saxpy, transpose: bound by memory.
#include "harness.hpp"
#include "kernels.hpp"

namespace gpu_bench {
namespace {

constexpr int kBlock = 1024;  // elements of a piece

template <class T>
struct Vectors {
  Vectors(std::int64_t n, int sets) {
    for (int s = 0; s < sets; ++s) {
      x.push_back(normal<T>(Dims<1>({n}), 1));
      y.push_back(normal<T>(Dims<1>({n}), 2));
      z.push_back(poisoned<T>(Dims<1>({n})));
    }
  }
  std::vector<Tensor<T, 1>> x, y, z;
};

/// Relative error of 257 elements of `tensor` against `wanted(offset)`.
template <class T, class F>
Accuracy sampled(const Tensor<T, 1>& tensor, double tolerance, F wanted) {
  const std::int64_t n = tensor.dim(0);
  Norm norm;
  for (int s = 0; s < 257; ++s) {
    const std::int64_t i = s < 256 ? n * s / 256 : n - 1;
    norm.add(values(tensor.template slice<0>(i, i + 1))[0], wanted(i));
  }
  return {norm.relative(), tolerance};
}

template <class T>
constexpr double rounding = sizeof(T) == 4 ? 1e-6 : 2e-3;

template <class T>
Prepared copy_of(const Args& args) {
  const std::int64_t n = args.number("n", 1 << 16);
  Prepared p;
  p.bytes = 2.0 * sizeof(T) * static_cast<double>(n);
  p.sets = sets_for(args, p.bytes);
  auto v = std::make_shared<Vectors<T>>(n, p.sets);
  p.launch = [v](int s, const Stream& on) { kernel<copy<T, kBlock>>(mut(v->z[s]), v->x[s]).on(on); };
  p.check = [v] { return sampled<T>(v->z[0], 0, [](std::int64_t i) { return normal_input<T>(1, i); }); };
  return p;
}

template <class T>
Prepared add_of(const Args& args) {
  const std::int64_t n = args.number("n", 1 << 16);
  Prepared p;
  p.bytes = 3.0 * sizeof(T) * static_cast<double>(n);
  p.sets = sets_for(args, p.bytes);
  auto v = std::make_shared<Vectors<T>>(n, p.sets);
  p.launch = [v](int s, const Stream& on) { kernel<add<T, kBlock>>(mut(v->z[s]), v->x[s], v->y[s]).on(on); };
  p.check = [v] {
    return sampled<T>(v->z[0], rounding<T>,
                      [](std::int64_t i) { return normal_input<T>(1, i) + normal_input<T>(2, i); });
  };
  return p;
}

// In place, so the check begins with fresh contents: y has been updated any number of times by then.
template <class T>
Prepared saxpy_of(const Args& args) {
  const std::int64_t n = args.number("n", 1 << 16);
  Prepared p;
  p.bytes = 3.0 * sizeof(T) * static_cast<double>(n);
  p.sets = sets_for(args, p.bytes);
  auto v = std::make_shared<Vectors<T>>(n, p.sets);
  p.launch = [v](int s, const Stream& on) { kernel<saxpy<T, kBlock>>(mut(v->y[s]), 0.5f, v->x[s]).on(on); };
  p.check = [v] {
    copy_into(mut(v->y[0]), v->z[0]).sync();
    kernel<saxpy<T, kBlock>>(mut(v->y[0]), 0.5f, v->x[0]).sync();
    return sampled<T>(v->y[0], rounding<T>,
                      [](std::int64_t i) { return 0.5 * normal_input<T>(1, i) + normal_input<T>(0xBAD, i); });
  };
  return p;
}

template <template <class> class F>
Prepared by_type(const Args& args) {
  const std::string type = args.text("dtype", "f32");
  if (type == "f32") return F<f32>::make(args);
  if (type == "f16") return F<f16>::make(args);
  throw std::runtime_error("dtype must be f32 or f16, found " + type);
}
template <class T>
struct Copy {
  static Prepared make(const Args& a) { return copy_of<T>(a); }
};
template <class T>
struct Add {
  static Prepared make(const Args& a) { return add_of<T>(a); }
};
template <class T>
struct Saxpy {
  static Prepared make(const Args& a) { return saxpy_of<T>(a); }
};

Prepared transpose_case(const Args& args) {
  const std::int64_t n = args.number("n", 256);
  Prepared p;
  p.bytes = 8.0 * static_cast<double>(n) * static_cast<double>(n);
  struct State {
    Tensor<f32, 2> x, y;
  };
  auto v = std::make_shared<State>(State{normal<f32>(Dims<2>({n, n}), 1), poisoned<f32>(Dims<2>({n, n}))});
  p.launch = [v](int, const Stream& on) { kernel<transposed<64>>(mut(v->y), v->x).on(on); };
  p.check = [v, n] {
    Norm norm;
    for (std::int64_t s = 0; s < 64; ++s) {
      const std::int64_t i = n * s / 64, j = (s * 7919) % n;
      norm.add(values(v->y.slice<0>(i, i + 1).slice<1>(j, j + 1))[0], normal_input<f32>(1, j * n + i));
    }
    return Accuracy{norm.relative(), 0};
  };
  return p;
}

}  // namespace

std::vector<Case> elementwise_cases() {
  return {{"copy", "n dtype=f32|f16", by_type<Copy>},
          {"add", "n dtype=f32|f16", by_type<Add>},
          {"saxpy", "n dtype=f32|f16", by_type<Saxpy>},
          {"transpose", "n (f32, square)", transpose_case}};
}

}  // namespace gpu_bench
