// Shared by the tuning spaces of matrix products: operands, and the names of a table's rows.
#pragma once
#include <stdexcept>
#include <string>

#include "tessera/base/format.hpp"
#include "tessera/kernels/gemm_table.hpp"
#include "tune_cases.hpp"

namespace tessera {

/// "row 3". Candidates store the pointer, so the text must be static.
template <int Row>
const char* row_name() {
  static const std::string name = concat("row ", Row);
  return name.c_str();
}

/// a of [m, k] and b of [k, n], by the arguments m, n, k and layout: NN, or one of them transposed.
template <class T>
struct Factors {
  std::int64_t m, n, k;
  Tensor<T, 2> stored_a, stored_b;
  View<T, 2> a, b;

  Factors(const measure::Args& args, const TuneOptions& o, std::int64_t m0, std::int64_t n0, std::int64_t k0)
      : Factors(args.number("m", m0), args.number("n", n0), args.number("k", k0), args.text("layout", "NT"), o) {}

 private:
  Factors(std::int64_t rows, std::int64_t columns, std::int64_t depth, const std::string& layout, const TuneOptions& o)
      : m(rows),
        n(columns),
        k(depth),
        stored_a(tune_input<T>(o, turned(layout, "TN") ? Dims<2>(k, m) : Dims<2>(m, k), 1)),
        stored_b(tune_input<T>(o, turned(layout, "NT") ? Dims<2>(n, k) : Dims<2>(k, n), 2)),
        a(turned(layout, "TN") ? stored_a.template permute<1, 0>() : stored_a.view()),
        b(turned(layout, "NT") ? stored_b.template permute<1, 0>() : stored_b.view()) {}
  static bool turned(const std::string& layout, const char* by) {
    if (layout != "NN" && layout != "NT" && layout != "TN")
      throw std::runtime_error("layout must be NN, NT or TN, found " + layout);
    return layout == by;
  }
};

}  // namespace tessera
