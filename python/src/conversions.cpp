// A transposed copy, and matrices with 8 bits an element and one scale per row.
#include "call.hpp"
#include "tessera/kernels/quantize.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::python {

namespace {

template <class Q>
constexpr Function quantize(const char* name) {
  return row(
      Floats(), name, "x", 1, 1, "", {result_of<Q>(Extents::Same), result_of<f32>(Extents::WithoutLast)},
      []<class T>(Call& c) { c.put(kernels::quantize_rows<Q>(c.view<T, 2>(0), kNowhere), c.dims(0), c.dims(0, 1)); });
}
template <class U>
constexpr Function dequantize(const char* name) {
  return row(Types<f8e4m3, f8e5m2, i8>(), name, "q, scale", 2, 2, "", result_of<U>(Extents::Same),
             []<class Q>(Call& c) {
               c.put(kernels::dequantize_rows<U>(c.view<Q, 2>(0), c.view<f32, 1>(1), kNowhere), c.dims(0));
             });
}
template <class U>
constexpr Function convert(const char* name) {
  return row(Types<f64, f32, bf16, f16, f8e4m3, f8e5m2, i32, i8>(), name, "x", 1, 1, "", result_of<U>(Extents::Same),
             []<class T>(Call& c) {
               c.join_axes();
               c.put(kernels::convert<U>(c.joined<T>(0), kNowhere), c.broadcast_dims());
             });
}

constexpr Function kFunctions[] = {
    row(Types<f64, f32, bf16, f16, i32>(), "transpose", "x", 1, 1, "", {Extents::Transposed},
        []<class T>(Call& c) {
          const std::vector<std::int64_t> d = c.dims(0);
          const auto x = c.view<T, 2>(0);
          c.put(kernels::transpose(x, kNowhere), std::array{d[1], d[0]});
        }),
    quantize<i8>("quantize_rows_i8"),
    quantize<f8e4m3>("quantize_rows_f8e4m3"),
    quantize<f8e5m2>("quantize_rows_f8e5m2"),
    dequantize<f32>("dequantize_rows_f32"),
    dequantize<bf16>("dequantize_rows_bf16"),
    dequantize<f16>("dequantize_rows_f16"),
    convert<f64>("convert_f64"),
    convert<f32>("convert_f32"),
    convert<bf16>("convert_bf16"),
    convert<f16>("convert_f16")};

}  // namespace

std::span<const Function> conversion_functions() { return kFunctions; }

}  // namespace tessera::python
