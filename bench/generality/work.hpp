// What a case of this benchmark is made of: inputs by seed, which a check can compute again at any place; outputs with
// a reference in f64; the work that one launch does; and the launch itself. The table of all cases is cases.hpp.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/harness.hpp"

namespace generality {

using namespace tessera;
using measure::Accuracy;
using measure::Args;
using measure::Prepared;
using Size = std::int64_t;

/// A size of the case; every driver passes all of them (generality_bench --list).
inline Size size_of_case(const Args& args, const char* key) {
  const Size n = args.number(key, 0);
  if (n <= 0)
    throw std::runtime_error(std::string("expected ") + key + "=N with N above 0: --list has every case's sizes");
  return n;
}

// -- inputs -----------------------------------------------------------------------------------------------------------

/// Steps: number i lies in [i * high, (i + 1) * high), so that they never fall: the limits of segments.
enum class Fill { Normal, Uniform, Whole, Steps };

/// The bits that whole-number inputs are made of (the finalizer of MurmurHash3, 32 bits): cheap enough for the host to
/// compute half a billion of them.
constexpr std::uint32_t mixed(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

template <class T, int B>
void fill_uniform(Mut<T, B> y, Scalar<u64> seed, Scalar<f32> low, Scalar<f32> high) {
  auto t = low + (high - low) * random::uniform<f32>(seed, y.offsets());
  if constexpr (std::is_same_v<T, f32>)
    y.store(t);
  else
    y.store(cast<T>(t));
}

template <class T, int B>
void fill_whole(Mut<T, B> y, Scalar<u32> seed, Scalar<u32> low, Scalar<u32> count) {
  auto h = cast<u32>(y.offsets()) * 0x9E3779B1u + seed;
  h = h ^ (h >> 16u);
  h = h * 0x85EBCA6Bu;
  h = h ^ (h >> 13u);
  h = h * 0xC2B2AE35u;
  h = h ^ (h >> 16u);
  y.store(cast<T>(cast<i32>(low + h % count)));
}

template <class T, int B>
void fill_steps(Mut<T, B> y, Scalar<u32> seed, Scalar<i32> step) {
  auto at = y.offsets();
  auto h = cast<u32>(at) * 0x9E3779B1u + seed;
  y.store(cast<T>(cast<i32>(at) * step + cast<i32>((h ^ (h >> 15u)) % cast<u32>(step))));
}

/// An input: its extents, and how its elements follow from a seed and their offsets.
template <class T, int R>
struct Input {
  std::array<Size, R> dims{};
  Fill fill = Fill::Normal;
  std::uint64_t seed = 1;
  double low = 0, high = 1;  ///< of Uniform; of Whole, `high` excluded; Steps: `high`

  Tensor<T, R> make() const {
    Size count = 1;
    for (const Size d : dims) count *= d;
    auto line = empty<T>({count}).sync();
    constexpr int kPiece = 1024;
    if (fill == Fill::Whole) {
      const auto range = static_cast<u32>(static_cast<i32>(high) - static_cast<i32>(low));
      kernel<fill_whole<T, kPiece>>(mut(line), static_cast<u32>(seed), static_cast<u32>(static_cast<i32>(low)), range)
          .sync();
    } else if constexpr (std::is_same_v<T, i32>) {
      kernel<fill_steps<T, kPiece>>(mut(line), static_cast<u32>(seed), static_cast<i32>(high)).sync();
    } else if constexpr (element_class<T> == ElementClass::Float) {
      if (fill == Fill::Normal)
        kernel<gpu_bench::fill_normal<T, kPiece>>(mut(line), seed).sync();
      else
        kernel<fill_uniform<T, kPiece>>(mut(line), seed, static_cast<float>(low), static_cast<float>(high)).sync();
    }
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::move(line).reshape({dims[I]...});
    }(std::make_index_sequence<static_cast<std::size_t>(R)>{});
  }

  /// The element at an offset, as the kernels see it.
  double at(Size offset) const {
    if (fill == Fill::Whole) {
      const auto range = static_cast<std::uint32_t>(static_cast<std::int32_t>(high) - static_cast<std::int32_t>(low));
      const std::uint32_t h =
          mixed(static_cast<std::uint32_t>(offset) * 0x9E3779B1u + static_cast<std::uint32_t>(seed));
      const auto value = static_cast<std::int32_t>(low) + static_cast<std::int32_t>(h % range);
      return std::is_same_v<T, bool> ? (value != 0 ? 1.0 : 0.0) : static_cast<double>(value);
    }
    if (fill == Fill::Steps) {
      const auto step = static_cast<std::uint32_t>(high);
      const std::uint32_t h = static_cast<std::uint32_t>(offset) * 0x9E3779B1u + static_cast<std::uint32_t>(seed);
      return static_cast<double>(offset * static_cast<Size>(step) + static_cast<Size>((h ^ (h >> 15)) % step));
    }
    if constexpr (element_class<T> == ElementClass::Float) {
      if (fill == Fill::Normal) return gpu_bench::normal_input<T>(seed, offset);
      const auto a = static_cast<float>(low), b = static_cast<float>(high);
      const float t = a + (b - a) * uniform_at<f32>(seed, static_cast<std::uint64_t>(offset));
      return static_cast<double>(T(t));
    } else {
      throw std::logic_error("integers are made as Fill::Whole");
    }
  }
  /// The element at an index; 0 outside.
  template <class... I>
    requires(sizeof...(I) == R)
  double operator()(I... index) const {
    const std::array<Size, R> at_index{static_cast<Size>(index)...};
    Size offset = 0;
    for (std::size_t a = 0; a < static_cast<std::size_t>(R); ++a) {
      if (at_index[a] < 0 || at_index[a] >= dims[a]) return 0;
      offset = offset * dims[a] + at_index[a];
    }
    return at(offset);
  }
};

template <class T, class... D>
auto normal(std::uint64_t seed, D... dims) {
  return Input<T, sizeof...(D)>{{static_cast<Size>(dims)...}, Fill::Normal, seed};
}
template <class T, class... D>
auto uniform(std::uint64_t seed, double low, double high, D... dims) {
  return Input<T, sizeof...(D)>{{static_cast<Size>(dims)...}, Fill::Uniform, seed, low, high};
}
/// Whole numbers from `low` on, below `high`.
template <class T, class... D>
auto whole(std::uint64_t seed, Size low, Size high, D... dims) {
  return Input<T, sizeof...(D)>{
      {static_cast<Size>(dims)...}, Fill::Whole, seed, static_cast<double>(low), static_cast<double>(high)};
}

/// n limits of segments of `step` elements on average.
inline Input<i32, 1> steps(std::uint64_t seed, Size step, Size n) {
  return {{n}, Fill::Steps, seed, 0, static_cast<double>(step)};
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

/// What the results may be off: the rounding of the type that is stored, as a relative norm, and then some. Integers
/// are exact.
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

/// What one launch moves and computes at least.
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
