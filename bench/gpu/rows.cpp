// softmax, RMS norm, layer norm and sums of bf16 rows: one row per piece, of the next power of two; rows longer than
// one tile are processed in chunks.
#include <algorithm>

#include "harness.hpp"
#include "kernels.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"
#include "unsafe_kernels.hpp"

namespace gpu_bench {
namespace {

constexpr int kChunk = 4096;
constexpr float kEps = 1e-6f;

struct Rows {
  std::int64_t rows, columns;
  std::vector<Tensor<bf16, 2>> x, y;
  std::vector<Tensor<f32, 1>> sums;
  Tensor<bf16, 1> weight, bias;

  explicit Rows(const Args& args, int* sets) {
    columns = args.number("columns", 1000);
    rows = args.number("rows", 16);
    const double bytes = 4.0 * static_cast<double>(rows) * static_cast<double>(columns);
    *sets = sets_for(args, bytes);
    for (int s = 0; s < *sets; ++s) {
      x.push_back(normal<bf16>(Dims<2>({rows, columns}), 1));
      y.push_back(poisoned<bf16>(Dims<2>({rows, columns})));
      sums.push_back(poisoned<f32>(Dims<1>({rows})));
    }
    weight = normal<bf16>(Dims<1>({columns}), 2);
    bias = normal<bf16>(Dims<1>({columns}), 3);
  }
  std::vector<double> input(std::int64_t row) const {
    std::vector<double> v;
    for (std::int64_t c = 0; c < columns; ++c) v.push_back(normal_input<bf16>(1, row * columns + c));
    return v;
  }
};

/// Compares three rows with `reference`, which maps an input row to an output row.
template <class F>
Accuracy check_rows(const Rows& r, F reference) {
  Norm norm;
  for (const std::int64_t row : {std::int64_t{0}, r.rows / 2, r.rows - 1}) {
    const auto wanted = reference(r.input(row));
    const auto found = values(r.y[0].slice<0>(row, row + 1));
    for (std::size_t c = 0; c < found.size(); ++c) norm.add(found[c], wanted[c]);
  }
  return {norm.relative(), 4e-3};  // bf16 rounding is 1.7e-3
}

std::vector<double> softmax_of(std::vector<double> v) {
  double top = -1e300, total = 0;
  for (const double x : v) top = std::max(top, x);
  for (double& x : v) total += x = std::exp(x - top);
  for (double& x : v) x /= total;
  return v;
}
std::vector<double> normed(std::vector<double> v, bool layer) {
  const double n = static_cast<double>(v.size());
  double mean = 0, square = 0;
  if (layer) {
    for (const double x : v) mean += x / n;
  }
  for (const double x : v) square += (x - mean) * (x - mean) / n;
  const double scale = 1 / std::sqrt(square + static_cast<double>(kEps));
  for (std::size_t c = 0; c < v.size(); ++c) {
    const auto at = static_cast<std::int64_t>(c);
    v[c] = (v[c] - mean) * scale * normal_input<bf16>(2, at) + (layer ? normal_input<bf16>(3, at) : 0.0);
  }
  return v;
}

/// Calls `f` with the piece's extent as a constant; 0 where a row needs chunks.
template <class F>
Prepared with_extent(std::int64_t columns, F f) {
  if (columns <= 512) return f(std::integral_constant<int, 512>{});
  if (columns <= 1024) return f(std::integral_constant<int, 1024>{});
  if (columns <= 4096) return f(std::integral_constant<int, 4096>{});
  if (columns <= 8192) return f(std::integral_constant<int, 8192>{});
  if (columns <= 16384) return f(std::integral_constant<int, 16384>{});
  if (columns <= 65536) return f(std::integral_constant<int, 0>{});
  throw std::runtime_error("columns must be at most 65536");
}

std::shared_ptr<Rows> begin(const Args& args, Prepared& p) {
  auto r = std::make_shared<Rows>(args, &p.sets);
  p.bytes = 4.0 * static_cast<double>(r->rows) * static_cast<double>(r->columns);
  return r;
}

/// impl=library: the library's functions instead of the naive kernels of kernels.hpp.
bool from_library(const Args& args) { return args.text("impl", "naive") == "library"; }

Prepared library_softmax(const Args& args) {
  Prepared p;
  auto r = begin(args, p);
  p.launch = [r](int s, const Stream& on) { r->y[s] = kernels::softmax(r->x[s]).on(on); };
  p.check = [r] { return check_rows(*r, softmax_of); };
  return p;
}
Prepared library_norm(const Args& args, bool layer) {
  Prepared p;
  auto r = begin(args, p);
  p.launch = [r, layer](int s, const Stream& on) {
    if (layer)
      r->y[s] = kernels::layer_norm(r->x[s], r->weight, r->bias, kEps).on(on);
    else
      r->y[s] = kernels::rms_norm(r->x[s], r->weight, kEps).on(on);
  };
  p.check = [r, layer] { return check_rows(*r, [layer](auto v) { return normed(std::move(v), layer); }); };
  return p;
}

Prepared softmax_case(const Args& args) {
  if (from_library(args)) return library_softmax(args);
  return with_extent(args.number("columns", 1000), [&]<int N>(std::integral_constant<int, N>) {
    Prepared p;
    auto r = begin(args, p);
    p.launch = [r](int s, const Stream& on) {
      if constexpr (N > 0)
        kernel<softmax<N>>(mut(r->y[s]), r->x[s]).on(on);
      else
        kernel<softmax_chunks<65536, kChunk>>(mut(r->y[s]), r->x[s]).on(on);
    };
    p.check = [r] { return check_rows(*r, softmax_of); };
    return p;
  });
}

Prepared unsafe_softmax_case(const Args& args) {
  return with_extent(args.number("columns", 1024), [&]<int N>(std::integral_constant<int, N>) {
    Prepared p;
    auto r = begin(args, p);
    if (N != r->columns) throw std::runtime_error("the unsafe twin takes rows of 512, 1024, 4096, 8192 or 16384");
    p.launch = [r](int s, const Stream& on) {
      if constexpr (N > 0) kernel<unsafe_softmax<N>>(mut(r->y[s]), r->x[s]).on(on);
    };
    p.check = [r] { return check_rows(*r, softmax_of); };
    return p;
  });
}

Prepared rms_norm_case(const Args& args) {
  if (from_library(args)) return library_norm(args, false);
  return with_extent(args.number("columns", 1000), [&]<int N>(std::integral_constant<int, N>) {
    Prepared p;
    auto r = begin(args, p);
    p.launch = [r](int s, const Stream& on) {
      if constexpr (N > 0)
        kernel<rms_norm<N>>(mut(r->y[s]), r->x[s], r->weight, kEps).on(on);
      else
        kernel<rms_norm_chunks<65536, kChunk>>(mut(r->y[s]), r->x[s], r->weight, kEps).on(on);
    };
    p.check = [r] { return check_rows(*r, [](auto v) { return normed(std::move(v), false); }); };
    return p;
  });
}

Prepared layer_norm_case(const Args& args) {
  if (from_library(args)) return library_norm(args, true);
  return with_extent(args.number("columns", 1000), [&]<int N>(std::integral_constant<int, N>) {
    Prepared p;
    auto r = begin(args, p);
    p.launch = [r](int s, const Stream& on) {
      if constexpr (N > 0)
        kernel<layer_norm<N>>(mut(r->y[s]), r->x[s], r->weight, r->bias, kEps).on(on);
      else
        kernel<layer_norm_chunks<65536, kChunk>>(mut(r->y[s]), r->x[s], r->weight, r->bias, kEps).on(on);
    };
    p.check = [r] { return check_rows(*r, [](auto v) { return normed(std::move(v), true); }); };
    return p;
  });
}

Prepared row_sum_case(const Args& args) {
  return with_extent(args.number("columns", 1024), [&]<int N>(std::integral_constant<int, N>) {
    if (N == 0) throw std::runtime_error("sums take rows of at most 16384");
    Prepared p;
    auto r = begin(args, p);
    p.bytes = 2.0 * static_cast<double>(r->rows) * static_cast<double>(r->columns) + 4.0 * static_cast<double>(r->rows);
    p.launch = [r](int s, const Stream& on) {
      if constexpr (N > 0) kernel<row_sum<std::max(1, 4096 / N), N>>(mut(r->sums[s]), r->x[s]).on(on);
    };
    p.check = [r] {
      Norm norm;
      for (const std::int64_t row : {std::int64_t{0}, r->rows / 2, r->rows - 1}) {
        double total = 0;
        for (const double v : r->input(row)) total += v;
        norm.add(values(r->sums[0].slice<0>(row, row + 1))[0], total);
      }
      return Accuracy{norm.relative(), 1e-4};
    };
    return p;
  });
}

}  // namespace

std::vector<Case> row_cases() {
  return {{"softmax", "rows columns impl=naive|library", softmax_case},
          {"softmax_unsafe", "rows columns", unsafe_softmax_case},
          {"rms_norm", "rows columns impl=naive|library", rms_norm_case},
          {"layer_norm", "rows columns impl=naive|library", layer_norm_case},
          {"row_sum", "rows columns", row_sum_case}};
}

}  // namespace gpu_bench
