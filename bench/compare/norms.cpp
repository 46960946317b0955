// RMS norm and layer norm, alone and with the addition of a residual, which is written in place.
#include "case.hpp"
#include "generality/row_references.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/rms_norm.hpp"

namespace compare {
namespace {

using generality::kRowEps;

template <bool Layer>
Ready norm_case(const Args& args) {
  return by_type<bf16, f16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto x = normal<T>(seed_of(args, 1), rows, columns);
    const auto weight = normal<T>(seed_of(args, 2), columns), bias = normal<T>(seed_of(args, 3), columns);
    const Cost cost{2 * bytes_of<T>(rows * columns)};
    if constexpr (Layer)
      return ready(args, cost, outputs(generality::scaled_rows(x, weight, true, bias)), inputs(x, weight, bias),
                   [](const Stream& on, auto& y, const auto& from, const auto& w, const auto& b) {
                     y = kernels::layer_norm(from, w, b, kRowEps).on(on);
                   });
    else
      return ready(args, cost, outputs(generality::scaled_rows(x, weight, false)), inputs(x, weight),
                   [](const Stream& on, auto& y, const auto& from, const auto& w) {
                     y = kernels::rms_norm(from, w, kRowEps).on(on);
                   });
  });
}

/// The residual before the first launch: what Output::make() fills it with.
template <class T>
std::vector<double> row_of_sums(const Input<T, 2>& x, Size i) {
  auto row = generality::row_of(x, i);
  const Size n = x.dims[1];
  for (Size j = 0; j < n; ++j) row[static_cast<std::size_t>(j)] += gpu_bench::normal_input<T>(0xBAD, i * n + j);
  return row;
}

template <bool Layer>
Ready add_norm_case(const Args& args) {
  using T = bf16;
  const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
  const auto x = normal<T>(seed_of(args, 1), rows, columns);
  const auto weight = normal<T>(seed_of(args, 2), columns), bias = normal<T>(seed_of(args, 3), columns);
  const auto normed = [=](Size i) {
    auto v = generality::normed_of(row_of_sums(x, i), Layer);
    for (std::size_t j = 0; j < v.size(); ++j)
      v[j] = v[j] * weight(static_cast<Size>(j)) + (Layer ? bias(static_cast<Size>(j)) : 0.0);
    return v;
  };
  const auto sums = [=](Size i) { return row_of_sums(x, i); };
  const Cost cost{4 * bytes_of<T>(rows * columns)};
  // The norm may be of the sum before or after its rounding.
  const auto ys =
      outputs(generality::by_line<T>(normed, rows, columns).within(8e-3), generality::by_line<T>(sums, rows, columns));
  if constexpr (Layer)
    return ready(args, cost, ys, inputs(x, weight, bias),
                 [](const Stream& on, auto& y, auto& residual, const auto& from, const auto& w, const auto& b) {
                   std::tie(y, residual) = kernels::add_layer_norm(from, std::move(residual), w, b, kRowEps).on(on);
                 });
  else
    return ready(args, cost, ys, inputs(x, weight),
                 [](const Stream& on, auto& y, auto& residual, const auto& from, const auto& w) {
                   std::tie(y, residual) = kernels::add_rms_norm(from, std::move(residual), w, kRowEps).on(on);
                 });
}

}  // namespace

std::vector<Case> norm_cases() {
  return {{"rms_norm", norm_case<false>},
          {"layer_norm", norm_case<true>},
          {"add_rms_norm", add_norm_case<false>},
          {"add_layer_norm", add_norm_case<true>}};
}

}  // namespace compare
