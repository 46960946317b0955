// Kernels bound by memory.
#include <stdexcept>

#include "library_cases.hpp"
#include "tessera/base/format.hpp"
#include "tessera/kernels/elementwise.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/reduce.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera {
namespace {

using measure::Args;
using measure::Prepared;

/// f(T()) with the element type of dtype=.
template <class F>
Prepared by_type(const Args& args, F f) {
  const std::string name = args.text("dtype", "f32");
  if (name == "f32") return f(f32());
  if (name == "f16") return f(f16());
  if (name == "bf16") return f(bf16());
  throw std::runtime_error(concat("dtype must be f32, f16 or bf16, found ", name));
}

/// `run(x, y)` on tensors of n elements; `tensors` of them are read or written.
template <class T, class F>
Prepared line_case(const Args& args, int tensors, F run) {
  const std::int64_t n = args.number("n", 1 << 20);
  Prepared p;
  p.bytes = static_cast<double>(tensors) * sizeof(T) * static_cast<double>(n);
  p.sets = measure::sets_for(args, p.bytes);
  struct Line {
    Tensor<T, 1> x, y;
  };
  auto lines = std::make_shared<std::vector<Line>>();
  for (int s = 0; s < p.sets; ++s) {
    lines->push_back({random::normal<T>({n}, 1).sync(), random::normal<T>({n}, 2).sync()});
  }
  p.launch = [lines, run](int s, const Stream& on) {
    Line& l = (*lines)[static_cast<std::size_t>(s)];
    [[maybe_unused]] const auto y = run(l.x, l.y).on(on);
  };
  return p;
}

Prepared add_case(const Args& args) {
  return by_type(args, [&]<class T>(T) {
    return line_case<T>(args, 3, [](const auto& x, const auto& y) { return kernels::add(x, y); });
  });
}
Prepared silu_case(const Args& args) {
  return by_type(args, [&]<class T>(T) {
    return line_case<T>(args, 2, [](const auto& x, const auto&) { return kernels::silu(x); });
  });
}

/// `run(x, weight, bias)` on a matrix; `outputs` elements are written per row.
template <class T, class F>
Prepared matrix_case(const Args& args, bool reduces, F run) {
  const std::int64_t columns = args.number("columns", 1024), rows = args.number("rows", 4096);
  const double elements = static_cast<double>(rows) * static_cast<double>(columns);
  Prepared p;
  p.bytes = sizeof(T) * elements + (reduces ? sizeof(f32) * static_cast<double>(rows) : sizeof(T) * elements);
  p.sets = measure::sets_for(args, p.bytes);
  struct Operands {
    std::vector<Tensor<T, 2>> x;
    Tensor<T, 1> weight, bias;
  };
  auto o = std::make_shared<Operands>();
  for (int s = 0; s < p.sets; ++s) o->x.push_back(random::normal<T>({rows, columns}, 1).sync());
  o->weight = random::normal<T>({columns}, 2).sync();
  o->bias = random::normal<T>({columns}, 3).sync();
  p.launch = [o, run](int s, const Stream& on) {
    [[maybe_unused]] const auto y = run(o->x[static_cast<std::size_t>(s)], o->weight, o->bias).on(on);
  };
  return p;
}

#define TESSERA_ROW_CASE(name, reduces, ...)                                                   \
  Prepared name##_case(const Args& args) {                                                     \
    return by_type(args, [&]<class T>(T) {                                                     \
      return matrix_case<T>(args, reduces,                                                     \
                            []([[maybe_unused]] const auto& x, [[maybe_unused]] const auto& w, \
                               [[maybe_unused]] const auto& b) { return __VA_ARGS__; });       \
    });                                                                                        \
  }
TESSERA_ROW_CASE(softmax, false, kernels::softmax(x))
TESSERA_ROW_CASE(rms_norm, false, kernels::rms_norm(x, w))
TESSERA_ROW_CASE(layer_norm, false, kernels::layer_norm(x, w, b))
TESSERA_ROW_CASE(row_sum, true, kernels::row_sum(x))
TESSERA_ROW_CASE(transpose, false, kernels::transpose(x))
#undef TESSERA_ROW_CASE

}  // namespace

std::vector<measure::Case> library_row_cases() {
  constexpr const char* kLine = "n=65536..268435456 dtype=f32,f16";
  constexpr const char* kRows = "rows=8192 columns=256..16384 dtype=bf16,f32";
  return {{"add", kLine, add_case},
          {"silu", kLine, silu_case},
          {"softmax", kRows, softmax_case},
          {"rms_norm", kRows, rms_norm_case},
          {"layer_norm", kRows, layer_norm_case},
          {"row_sum", kRows, row_sum_case},
          {"transpose", "rows=8192 columns=256..16384 dtype=f32,bf16", transpose_case}};
}

}  // namespace tessera
