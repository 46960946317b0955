// Convolutions of any kind as the tests describe them: their extents, their result in f64 by the definition, and the
// comparison.
#pragma once
#include "kernels/support.hpp"
#include "tessera/kernels/convolution.hpp"

namespace tessera::kernels {

using Values = std::vector<double>;

/// A convolution of any kind over S axes.
template <int S>
struct Problem {
  std::int64_t images = 1, groups = 1, channels = 1, outputs = 1;  ///< of one group
  std::array<std::int64_t, S> in{}, filter{}, stride{}, padding{}, dilation{}, more{};
  bool transposed = false;

  std::int64_t out(int a) const {
    const auto i = static_cast<std::size_t>(a);
    const std::int64_t window = (filter[i] - 1) * dilation[i] + 1;
    return transposed ? (in[i] - 1) * stride[i] - 2 * padding[i] + window + more[i]
                      : (in[i] + 2 * padding[i] - window) / stride[i] + 1;
  }
  bool possible() const {
    for (int a = 0; a < S; ++a) {
      const auto i = static_cast<std::size_t>(a);
      if (!transposed && in[i] + 2 * padding[i] < (filter[i] - 1) * dilation[i] + 1) return false;
      if (out(a) < 1) return false;
    }
    return true;
  }
  static Dims<S + 2> dims(std::int64_t first, const std::array<std::int64_t, S>& space, std::int64_t last) {
    std::array<std::int64_t, S + 2> d{};
    d[0] = first, d[S + 1] = last;
    std::copy(space.begin(), space.end(), d.begin() + 1);
    return Dims<S + 2>::from(d);
  }
  Dims<S + 2> x_dims() const { return dims(images, in, groups * channels); }
  Dims<S + 2> w_dims() const {
    return transposed ? dims(groups * channels, filter, outputs) : dims(groups * outputs, filter, channels);
  }
  Dims<S + 2> y_dims() const {
    std::array<std::int64_t, S> space{};
    for (int a = 0; a < S; ++a) space[static_cast<std::size_t>(a)] = out(a);
    return dims(images, space, groups * outputs);
  }
  std::string text() const {
    return concat(transposed ? "transposed " : "", x_dims().to_string(), " * ", w_dims().to_string(), " groups ",
                  groups, " stride ", stride[S - 1], " padding ", padding[S - 1], " dilation ", dilation[S - 1],
                  " more ", more[S - 1]);
  }
  /// f(index, offset) for all indices inside `extents`.
  template <class F>
  static void each(const std::array<std::int64_t, S>& extents, F f) {
    std::int64_t count = 1;
    for (const auto e : extents) count *= e;
    for (std::int64_t n = 0; n < count; ++n) {
      std::array<std::int64_t, S> at{};
      std::int64_t rest = n;
      for (int a = S - 1; a >= 0; --a) {
        const auto i = static_cast<std::size_t>(a);
        at[i] = rest % extents[i], rest /= extents[i];
      }
      f(at, n);
    }
  }
  /// By the definition: each input element adds to the outputs whose windows contain it.
  Values reference(const Values& x, const Values& w) const {
    std::array<std::int64_t, S> outs{};
    for (int a = 0; a < S; ++a) outs[static_cast<std::size_t>(a)] = out(a);
    std::int64_t in_count = 1, out_count = 1, filter_count = 1;
    for (int a = 0; a < S; ++a) {
      const auto i = static_cast<std::size_t>(a);
      in_count *= in[i], out_count *= outs[i], filter_count *= filter[i];
    }
    Values y(static_cast<std::size_t>(images * out_count * groups * outputs), 0.0);
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    // The small side of the windows: the output of a convolution, the input of a transposed one.
    each(transposed ? in : outs, [&](const auto& small, std::int64_t small_offset) {
      each(filter, [&](const auto& f, std::int64_t f_offset) {
        std::int64_t large_offset = 0;
        for (int a = 0; a < S; ++a) {
          const auto i = at(a);
          const std::int64_t p = small[i] * stride[i] - padding[i] + f[i] * dilation[i];
          const std::int64_t extent = transposed ? outs[i] : in[i];
          if (p < 0 || p >= extent) return;
          large_offset = large_offset * extent + p;
        }
        const std::int64_t x_offset = transposed ? small_offset : large_offset;
        const std::int64_t y_offset = transposed ? large_offset : small_offset;
        for (std::int64_t n = 0; n < images; ++n)
          for (std::int64_t g = 0; g < groups; ++g)
            for (std::int64_t c = 0; c < channels; ++c)
              for (std::int64_t k = 0; k < outputs; ++k) {
                const std::int64_t weight = transposed ? ((g * channels + c) * filter_count + f_offset) * outputs + k
                                                       : ((g * outputs + k) * filter_count + f_offset) * channels + c;
                y[at(((n * out_count + y_offset) * groups + g) * outputs + k)] +=
                    x[at(((n * in_count + x_offset) * groups + g) * channels + c)] * w[at(weight)];
              }
      });
    });
    return y;
  }
};

template <int S>
PerAxis<S> per_axis(const std::array<std::int64_t, S>& each) {
  PerAxis<S> p = 0;
  p.of = each;
  return p;
}
template <class T, class M, int S, class Epilogue = Fused<epilogues::Plain>>
auto run_convolution(const Problem<S>& p, const Tensor<T, S + 2>& x, const Tensor<T, S + 2>& w,
                     const Epilogue& epilogue = {}) {
  return convolution<T, M>(x, w, {per_axis<S>(p.stride), per_axis<S>(p.padding), per_axis<S>(p.dilation), p.groups},
                           epilogue)
      .sync();
}
template <class T, class M, int S, class Epilogue = Fused<epilogues::Plain>>
auto run_transposed(const Problem<S>& p, const Tensor<T, S + 2>& x, const Tensor<T, S + 2>& w,
                    const Epilogue& epilogue = {}) {
  return convolution_transposed<T, M>(
             x, w,
             {per_axis<S>(p.stride), per_axis<S>(p.padding), per_axis<S>(p.more), per_axis<S>(p.dilation), p.groups},
             epilogue)
      .sync();
}
/// run(p, x, w) has the result of the definition.
template <class T, class M, int S, class F>
void check_problem(const Problem<S>& p, F run) {
  SCOPED_TRACE(p.text());
  const auto x = random_tensor<T>(p.x_dims(), 1), w = random_tensor<T>(p.w_dims(), 2);
  const auto y = run(p, x, w);
  ASSERT_EQ(y.dims(), p.y_dims());
  const double allowed = std::is_same_v<M, tf32> ? 1e-3 : tolerance<T>(4);
  EXPECT_LE(relative_error(doubles(y), p.reference(doubles(x), doubles(w))), allowed);
}
template <class T, class M = T, int S>
void check_convolution(const Problem<S>& p) {
  check_problem<T, M>(p, [](const auto&... a) { return run_convolution<T, M>(a...); });
}
template <class T, class M = T, int S>
void check_transposed(Problem<S> p) {
  p.transposed = true;
  check_problem<T, M>(p, [](const auto&... a) { return run_transposed<T, M>(a...); });
}

}  // namespace tessera::kernels
