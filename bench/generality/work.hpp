// A case of this benchmark: inputs (inputs.hpp), outputs with a reference in f64, the work of one launch, and the
// launch itself. The table of all cases is cases.hpp.
#pragma once
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "inputs.hpp"

namespace generality {

using namespace tessera;
using measure::Accuracy;
using measure::Args;
using measure::Prepared;

/// A size of the case; every driver passes all of them (generality_bench --list).
inline Size size_of_case(const Args& args, const char* key) {
  const Size n = args.number(key, 0);
  if (n <= 0)
    throw std::runtime_error(std::string("expected ") + key + "=N with N above 0: --list has every case's sizes");
  return n;
}

// -- outputs ----------------------------------------------------------------------------------------------------------

/// The elements of one line of an output (along its last axis), by their place in it.
using Line = std::function<double(Size)>;

/// An output: its extents, how far it may be from the reference, and the reference: line i in f64, lines counted over
/// all axes but the last.
template <class T, int R>
struct Output {
  std::array<Size, R> dims{};
  double tolerance = 0;
  std::function<Line(Size)> line;

  /// With another tolerance: where inner results are rounded too.
  Output within(double relative) const { return {dims, relative, line}; }
  /// Every element is wrong until it is written.
  Tensor<T, R> make() const {
    if constexpr (element_class<T> == ElementClass::Float)
      return Input<T, R>{dims, Fill::Normal, 0xBAD}.make();
    else
      return Input<T, R>{dims, Fill::Whole, 0xBAD, 100, 120}.make();
  }
  Size length() const { return dims[R - 1]; }
  Size lines() const {
    Size n = 1;
    for (int a = 0; a + 1 < R; ++a) n *= dims[static_cast<std::size_t>(a)];
    return n;
  }
};

/// The tolerance of results: the rounding of the stored type, as a relative norm, with a margin. Integers are exact.
template <class T>
constexpr double rounding_of = element_class<T> != ElementClass::Float ? 0
                               : sizeof(T) == 2                        ? 4e-3
                               : sizeof(T) == 4                        ? 2e-5
                                                                       : 1e-12;

/// `line(i)` gives the elements of line i: a function of the place in it.
template <class T, class F, class... D>
auto output(F line, D... dims) {
  return Output<T, sizeof...(D)>{{static_cast<Size>(dims)...}, rounding_of<T>, line};
}

/// Each element by itself: f(row-major offset).
template <class T, class F, class... D>
auto by_offset(F f, D... dims) {
  const Size length = std::array<Size, sizeof...(D)>{static_cast<Size>(dims)...}.back();
  return output<T>([=](Size i) -> Line { return [=](Size j) { return f(i * length + j); }; }, dims...);
}
/// A line at a time: f(i) gives its elements as a vector.
template <class T, class F, class... D>
auto by_line(F f, D... dims) {
  return output<T>(
      [=](Size i) -> Line {
        return [line = std::make_shared<std::vector<double>>(f(i))](Size j) {
          return (*line)[static_cast<std::size_t>(j)];
        };
      },
      dims...);
}

/// f(0) + ... + f(n - 1).
template <class F>
double sum_over(Size n, F f) {
  double s = 0;
  for (Size i = 0; i < n; ++i) s += f(i);
  return s;
}

/// Row i of a matrix.
template <class T>
std::vector<double> row_of(const Input<T, 2>& x, Size i) {
  std::vector<double> row;
  for (Size j = 0; j < x.dims[1]; ++j) row.push_back(x(i, j));
  return row;
}

/// The distance between what was found and the reference: the relative norm, and the worst element by the root of the
/// mean square, which may be 16 times as far: no single wrong element hides among many right ones.
class Distance {
 public:
  void add(double found, double wanted);
  double value() const;

 private:
  measure::Norm norm_;
  double worst_ = 0, squares_ = 0;
  Size count_ = 0;
};

/// Calls `visit(line, from, count)` with all lines of an output, or with a sample of them.
void visit_lines(Size lines, Size length, bool all, const std::function<void(Size, Size, Size)>& visit);

/// The distance of a tensor from the reference of its output.
template <class T, int R>
Accuracy compared(const Tensor<T, R>& found, const Output<T, R>& wanted, bool all) {
  Distance distance;
  const Size lines = wanted.lines(), length = wanted.length();
  const auto flat = found.view().reshape({lines * length});
  const auto everything = all ? gpu_bench::values(flat) : std::vector<double>();
  Size known = -1;
  Line line;
  visit_lines(lines, length, all, [&](Size i, Size from, Size count) {
    if (i != known) line = wanted.line(known = i);
    const Size start = i * length + from;
    const auto some = all ? std::vector<double>() : gpu_bench::values(flat.template slice<0>(start, start + count));
    for (Size j = 0; j < count; ++j) {
      const double value = all ? everything[static_cast<std::size_t>(start + j)] : some[static_cast<std::size_t>(j)];
      distance.add(value, line(from + j));
    }
  });
  return {distance.value(), wanted.tolerance};
}

// -- a case -----------------------------------------------------------------------------------------------------------

/// The least traffic and arithmetic of one launch.
struct Cost {
  double bytes = 0;
  double flops = 0;            ///< 0: the figure is GB/s
  const char* math = nullptr;  ///< as in measure::Prepared
};

/// A tensor of a case, for peers that make their own.
struct TensorText {
  std::string type;
  std::vector<Size> dims;
  Fill fill = Fill::Normal;
  double low = 0, high = 1;
};

/// A case with its tensors; `save(folder)` writes those of set 0 as x0.npy, x1.npy ... and y0.npy ...
struct Ready {
  Prepared prepared;
  std::function<void(const std::string&)> save;
};

/// A case of known sizes, before anything is allocated.
struct Plan {
  std::vector<TensorText> inputs, outputs;
  Cost cost;
  std::function<Ready(const Args&)> ready;
};

template <class T, int R>
void save_as(const std::string& path, const Tensor<T, R>& x) {
  if constexpr (std::is_same_v<T, bf16>)
    save_npy(path, cast<f32>(x).sync());
  else
    save_npy(path, x);
}

template <class Outputs, class Inputs>
struct Tensors {  ///< one set of them
  Outputs y;
  Inputs x;
  /// f(y..., x...)
  template <class F>
  void with(F&& f) {
    std::apply([&](auto&... outs) { std::apply([&](const auto&... ins) { f(outs..., ins...); }, x); }, y);
  }
};

template <class S>
TensorText text_of(const S& spec) {
  TensorText text;
  const auto made = [&]<class T, int R>(const Input<T, R>& x) {
    text = {info(element_type<T>).name, {x.dims.begin(), x.dims.end()}, x.fill, x.low, x.high};
  };
  const auto stored = [&]<class T, int R>(const Output<T, R>& y) {
    text = {info(element_type<T>).name, {y.dims.begin(), y.dims.end()}};
  };
  if constexpr (requires { spec.seed; })
    made(spec);
  else
    stored(spec);
  return text;
}

template <class... Y>
std::tuple<Y...> outputs(Y... y) {
  return {y...};
}
template <class... X>
std::tuple<X...> inputs(X... x) {
  return {x...};
}

/// The case whose launch is `launch(stream, outputs..., inputs...)`.
template <class... Y, class... X, class F>
Plan plan(const Cost& cost, const std::tuple<Y...>& ys, const std::tuple<X...>& xs, F launch) {
  Plan p;
  std::apply([&](const auto&... y) { (p.outputs.push_back(text_of(y)), ...); }, ys);
  std::apply([&](const auto&... x) { (p.inputs.push_back(text_of(x)), ...); }, xs);
  p.cost = cost;
  p.ready = [=](const Args& args) {
    const auto make = [](const auto&... spec) { return std::make_tuple(spec.make()...); };
    using Set = Tensors<decltype(std::apply(make, ys)), decltype(std::apply(make, xs))>;
    Ready r;
    r.prepared.bytes = cost.bytes;
    r.prepared.flops = cost.flops;
    r.prepared.math = cost.math;
    r.prepared.sets = measure::sets_for(args, cost.bytes);
    auto sets = std::make_shared<std::vector<Set>>();
    for (int s = 0; s < r.prepared.sets; ++s) sets->push_back(Set{std::apply(make, ys), std::apply(make, xs)});
    r.prepared.launch = [=](int s, const Stream& on) {
      (*sets)[static_cast<std::size_t>(s)].with([&](auto&... tensors) { launch(on, tensors...); });
    };
    const bool all = args.number("all", 0) != 0;
    r.prepared.check = [=] {
      Accuracy worst{-1, 0};
      const auto judge = [&](const Accuracy& a) {
        const bool wrong = a.error > a.tolerance, known_wrong = worst.error > worst.tolerance;
        if (worst.error < 0 || wrong || (!known_wrong && a.error > worst.error)) worst = a;
      };
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (judge(compared(std::get<I>((*sets)[0].y), std::get<I>(ys), all)), ...);
      }(std::index_sequence_for<Y...>{});
      return worst;
    };
    r.save = [=](const std::string& folder) {
      int y = 0, x = 0;
      std::apply([&](const auto&... t) { (save_as(folder + "/y" + std::to_string(y++) + ".npy", t), ...); },
                 (*sets)[0].y);
      std::apply([&](const auto&... t) { (save_as(folder + "/x" + std::to_string(x++) + ".npy", t), ...); },
                 (*sets)[0].x);
    };
    return r;
  };
  return p;
}

/// Bytes of n elements.
template <class T>
double bytes_of(Size n) {
  return static_cast<double>(sizeof(T)) * static_cast<double>(n);
}

}  // namespace generality
