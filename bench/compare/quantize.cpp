// Conversions, and scales by row and by block.
#include <cmath>

#include "case.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"
#include "tessera/kernels/quantize.hpp"

namespace compare {
namespace {

constexpr double kLargest = 448;  // of f8e4m3

Ready convert_case(const Args& args) {
  const Size n = size_of(args, "n");
  const auto x = normal<f32>(seed_of(args, 1), n);
  return ready(args, {bytes_of<f32>(n) + bytes_of<bf16>(n)},
               outputs(generality::by_offset<bf16>([=](Size at) { return x.at(at); }, n)), inputs(x),
               [](const Stream& on, auto& y, const auto& from) { y = kernels::convert<bf16>(from).on(on); });
}

/// The largest magnitude in a rectangle of x.
double top_of(const Input<bf16, 2>& x, Size row, Size rows, Size column, Size columns) {
  double top = 0;
  for (Size i = row; i < std::min(row + rows, x.dims[0]); ++i) {
    for (Size j = column; j < std::min(column + columns, x.dims[1]); ++j) top = std::max(top, std::abs(x(i, j)));
  }
  return top;
}

/// f8 numbers have 3 bits after the first: a relative norm of some hundredths.
template <Size Rows, Size Columns>
auto quantized(const Input<bf16, 2>& x) {
  const Size columns = Columns == 0 ? x.dims[1] : Columns;
  const auto scale = [=](Size i, Size j) {
    const double top = top_of(x, i * Rows, Rows, j * columns, columns);
    return top > 0 ? top / kLargest : 1;
  };
  const auto line = [=](Size i) -> Line {
    std::vector<double> scales;
    for (Size j = 0; j * columns < x.dims[1]; ++j) scales.push_back(scale(i / Rows, j));
    return [=](Size j) { return x(i, j) / scales[static_cast<std::size_t>(j / columns)]; };
  };
  return std::make_pair(output<f8e4m3>(line, x.dims[0], x.dims[1]).within(4e-2), scale);
}

Ready quantize_rows_case(const Args& args) {
  const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
  const auto x = normal<bf16>(seed_of(args, 1), rows, columns);
  const auto [q, scale] = quantized<1, 0>(x);
  const auto of_row = [scale = scale](Size i) { return scale(i, 0); };
  return ready(args, {bytes_of<bf16>(rows * columns) + bytes_of<i8>(rows * columns)},
               outputs(q, generality::by_offset<f32>(of_row, rows)), inputs(x),
               [](const Stream& on, auto& y, auto& s, const auto& from) {
                 std::tie(y, s) = kernels::quantize_rows<f8e4m3>(from).on(on);
               });
}

Ready dequantize_rows_case(const Args& args) {
  const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
  const auto q = normal<f8e4m3>(seed_of(args, 1), rows, columns);
  const auto scale = uniform<f32>(seed_of(args, 2), 0.5, 2, rows);
  const auto wanted = [=](Size at) { return q.at(at) * scale(at / columns); };
  return ready(args, {bytes_of<bf16>(rows * columns) + bytes_of<i8>(rows * columns)},
               outputs(generality::by_offset<bf16>(wanted, rows, columns)), inputs(q, scale),
               [](const Stream& on, auto& y, const auto& from, const auto& s) {
                 y = kernels::dequantize_rows<bf16>(from, s).on(on);
               });
}

Ready quantize_blocks_case(const Args& args) {
  const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
  const auto x = normal<bf16>(seed_of(args, 1), rows, columns);
  const auto [q, scale] = quantized<1, 128>(x);
  const auto line = [scale = scale](Size i) -> Line { return [=](Size j) { return scale(i, j); }; };
  return ready(args, {bytes_of<bf16>(rows * columns) + bytes_of<i8>(rows * columns)},
               outputs(q, output<f32>(line, rows, (columns + 127) / 128)), inputs(x),
               [](const Stream& on, auto& y, auto& s, const auto& from) {
                 std::tie(y, s) = kernels::quantize_blocks<f8e4m3, 1>(from).on(on);
               });
}

}  // namespace

std::vector<Case> quantize_cases() {
  return {{"convert", convert_case},
          {"quantize_rows", quantize_rows_case},
          {"dequantize_rows", dequantize_rows_case},
          {"quantize_blocks", quantize_blocks_case}};
}

}  // namespace compare
