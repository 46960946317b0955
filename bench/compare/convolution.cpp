// Convolutions over one to three axes in space, channels last.
#include <array>

#include "case.hpp"
#if __has_include("tessera/kernels/convolution.hpp")
#include "tessera/kernels/convolution.hpp"
#define COMPARE_HAS_CONVOLUTION 1
#else
#define COMPARE_HAS_CONVOLUTION 0  // the library of an older commit
#endif

namespace compare {
namespace {

#if COMPARE_HAS_CONVOLUTION
/// Extents along three axes in space; those that a case lacks are 1.
using Axes = std::array<Size, 3>;
Axes axes_of(const Args& args, const char* key, Size otherwise) {
  constexpr const char* kSuffix[] = {"_d", "_h", "_w"};
  Axes all{};
  for (std::size_t a = 0; a < 3; ++a) all[a] = args.number(std::string(key) + kSuffix[a], otherwise);
  return all;
}
template <std::size_t R>
std::array<Size, R> with_space(Size first, const Axes& space, Size last) {
  std::array<Size, R> d{};
  d[0] = first, d[R - 1] = last;
  for (std::size_t a = 0; a + 2 < R; ++a) d[a + 1] = space[5 - R + a];
  return d;
}
template <int S>
kernels::PerAxis<S> last_axes(const Axes& a) {
  kernels::PerAxis<S> p = 0;
  std::copy(a.end() - S, a.end(), p.of.begin());
  return p;
}

template <class T, int S>
Ready of_axes(const Args& args) {
  constexpr int R = S + 2;
  const Size images = size_of(args, "images"), channels = size_of(args, "channels"), outputs = size_of(args, "outputs"),
             groups = args.number("groups", 1), stride = args.number("stride", 1),
             dilation = args.number("dilation", 1);
  const Axes in = axes_of(args, "in", 1), filter = axes_of(args, "filter", 1), padding = axes_of(args, "padding", 0);
  Axes out{}, step{1, 1, 1}, apart{1, 1, 1};
  Size positions = images, taps = 1, places = images;
  for (std::size_t a = 0; a < 3; ++a) {
    if (a + S >= 3) step[a] = stride, apart[a] = dilation;
    out[a] = (in[a] + 2 * padding[a] - apart[a] * (filter[a] - 1) - 1) / step[a] + 1;
    positions *= out[a], taps *= filter[a], places *= in[a];
  }
  const Size own = channels / groups;
  const Input<T, R> x{with_space<R>(images, in, channels), Fill::Normal, seed_of(args, 1)};
  const Input<T, R> w{with_space<R>(outputs, filter, own), Fill::Normal, seed_of(args, 2)};
  const auto line = [=](Size at) -> Line {
    const Size k = at % out[2], j = at / out[2] % out[1], i = at / out[2] / out[1] % out[0],
               image = at / out[2] / out[1] / out[0];
    return [=](Size output) {
      const Size group = output / (outputs / groups);
      double total = 0;
      for (Size f = 0; f < taps; ++f) {
        const Size z = i * step[0] - padding[0] + f / (filter[1] * filter[2]) * apart[0],
                   y = j * step[1] - padding[1] + f / filter[2] % filter[1] * apart[1],
                   c = k * step[2] - padding[2] + f % filter[2] * apart[2];
        if (z < 0 || z >= in[0] || y < 0 || y >= in[1] || c < 0 || c >= in[2]) continue;
        const Size pixel = ((image * in[0] + z) * in[1] + y) * in[2] + c;
        for (Size n = 0; n < own; ++n)
          total += x.at(pixel * channels + group * own + n) * w.at((output * taps + f) * own + n);
      }
      return total;
    };
  };
  const Cost cost{bytes_of<T>(places * channels + outputs * taps * own + positions * outputs),
                  2.0 * static_cast<double>(positions * outputs) * static_cast<double>(taps * own)};
  kernels::ConvolutionOptions<S> options;
  options.stride = last_axes<S>(step), options.dilation = last_axes<S>(apart), options.padding = last_axes<S>(padding);
  options.groups = groups;
  return ready(args, cost, compare::outputs(Output<T, R>{with_space<R>(images, out, outputs), 0, line}.within(8e-3)),
               inputs(x, w), [=](const Stream& on, auto& y, const auto& from, const auto& filters) {
                 y = kernels::convolution(from, filters, options).on(on);
               });
}

/// The case of a transposed convolution, whose input is the output of the convolution that has these options.
template <class T, int S>
Ready transposed_of_axes(const Args& args) {
  constexpr int R = S + 2;
  const Size images = size_of(args, "images"), channels = size_of(args, "channels"), outputs = size_of(args, "outputs"),
             stride = args.number("stride", 1);
  const Axes in = axes_of(args, "in", 1), filter = axes_of(args, "filter", 1), padding = axes_of(args, "padding", 0);
  Axes out{}, step{1, 1, 1};
  Size positions = images, taps = 1, places = images;
  for (std::size_t a = 0; a < 3; ++a) {
    if (a + S >= 3) step[a] = stride;
    out[a] = (in[a] - 1) * step[a] - 2 * padding[a] + filter[a];
    positions *= out[a], taps *= filter[a], places *= in[a];
  }
  const Input<T, R> x{with_space<R>(images, in, channels), Fill::Normal, seed_of(args, 1)};
  const Input<T, R> w{with_space<R>(channels, filter, outputs), Fill::Normal, seed_of(args, 2)};
  const auto line = [=](Size at) -> Line {
    const Axes o{at / out[2] / out[1] % out[0], at / out[2] % out[1], at % out[2]};
    const Size image = at / out[2] / out[1] / out[0];
    return [=](Size output) {
      double total = 0;
      for (Size f = 0; f < taps; ++f) {
        const Axes tap{f / (filter[1] * filter[2]), f / filter[2] % filter[1], f % filter[2]};
        Size pixel = image;
        bool inside = true;
        for (std::size_t a = 0; a < 3; ++a) {
          const Size p = o[a] + padding[a] - tap[a];
          inside = inside && p >= 0 && p % step[a] == 0 && p / step[a] < in[a];
          pixel = pixel * in[a] + p / step[a];
        }
        if (!inside) continue;
        for (Size c = 0; c < channels; ++c)
          total += x.at(pixel * channels + c) * w.at((c * taps + f) * outputs + output);
      }
      return total;
    };
  };
  const Cost cost{bytes_of<T>(places * channels + outputs * taps * channels + positions * outputs),
                  2.0 * static_cast<double>(places * outputs) * static_cast<double>(taps * channels)};
  kernels::TransposedConvolutionOptions<S> options;
  options.stride = last_axes<S>(step), options.padding = last_axes<S>(padding);
  return ready(args, cost, compare::outputs(Output<T, R>{with_space<R>(images, out, outputs), 0, line}.within(8e-3)),
               inputs(x, w), [=](const Stream& on, auto& y, const auto& from, const auto& filters) {
                 y = kernels::convolution_transposed(from, filters, options).on(on);
               });
}

Ready convolution_transposed_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    return args.number("axes", 2) == 2 ? transposed_of_axes<T, 2>(args) : transposed_of_axes<T, 1>(args);
  });
}

Ready convolution_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    switch (args.number("axes", 2)) {
      case 1: return of_axes<T, 1>(args);
      case 2: return of_axes<T, 2>(args);
      default: return of_axes<T, 3>(args);
    }
  });
}
#else
Ready convolution_case(const Args&) { throw std::runtime_error("this library has no convolutions"); }
Ready convolution_transposed_case(const Args& args) { return convolution_case(args); }
#endif

}  // namespace

std::vector<Case> convolution_cases() {
  return {{"convolution", convolution_case}, {"convolution_transposed", convolution_transposed_case}};
}

}  // namespace compare
