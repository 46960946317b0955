// Matrix products: operands in either layout, and the reference. One source file for each group of functions, because
// each of them compiles every row of its table.
#pragma once
#include "case.hpp"
#include "tessera/kernels/epilogue.hpp"

namespace compare {

template <class T>
Input<T, 2> operand(const Args& args, int number, Size rows, Size columns) {
  if constexpr (element_class<T> == ElementClass::Float)
    return normal<T>(seed_of(args, number), rows, columns);
  else
    return whole<T>(seed_of(args, number), -9, 10, rows, columns);
}

/// What is added to a product, and what follows: `after(sum, i, j)`.
struct Plain {
  double operator()(double sum, Size, Size) const { return sum; }
};

/// The relative error of a product of T into C.
template <class T, class C>
constexpr double product_tolerance(bool tf32) {
  if (element_class<C> != ElementClass::Float) return 0;
  if (sizeof(T) == 1) return 2e-2;  // fp8: accumulated with fewer bits
  if (tf32) return 1e-3;
  return sizeof(C) == 8 ? 1e-12 : sizeof(C) == 4 ? 2e-5 : 4e-3;
}

/// The operands of a product [m, k] [k, n], in memory as `layout` says: NN, NT (b's columns are contiguous), TN, TT.
template <class T>
struct Operands {
  Size m, n, k;
  bool left, right;  ///< stored transposed
  Input<T, 2> a, b;

  explicit Operands(const Args& args)
      : m(size_of(args, "m")),
        n(size_of(args, "n")),
        k(size_of(args, "k")),
        left(args.text("layout", "NN").front() == 'T'),
        right(args.text("layout", "NN").back() == 'T'),
        a(left ? operand<T>(args, 1, k, m) : operand<T>(args, 1, m, k)),
        b(right ? operand<T>(args, 2, n, k) : operand<T>(args, 2, k, n)) {}

  /// Row i of the product; `after(sum, i, j)` is what the epilogue makes of it.
  template <class After = Plain>
  auto line(After after = {}) const {
    return [self = *this, after](Size i) -> Line {
      std::vector<double> row;
      for (Size l = 0; l < self.k; ++l) row.push_back(self.left ? self.a(l, i) : self.a(i, l));
      return [=](Size j) {
        double sum = 0;
        for (Size l = 0; l < self.k; ++l)
          sum += row[static_cast<std::size_t>(l)] * (self.right ? self.b(j, l) : self.b(l, j));
        return after(sum, i, j);
      };
    };
  }
  template <class C>
  Cost cost() const {
    return {bytes_of<T>(m * k + k * n) + bytes_of<C>(m * n), 2.0 * static_cast<double>(m * n) * static_cast<double>(k)};
  }
};

/// Both operands as matrices [m, k] and [k, n], whatever their layout.
template <class T, class F>
auto with_views(bool left, bool right, const Tensor<T, 2>& a, const Tensor<T, 2>& b, F call) {
  const View<T, 2> x = left ? a.view().template permute<1, 0>() : a.view();
  const View<T, 2> y = right ? b.view().template permute<1, 0>() : b.view();
  return call(x, y);
}

/// `call(a, b)` is an operation with the result [m, n] of type C.
template <class T, class C, class F>
Ready product(const Args& args, F call, bool tf32 = false) {
  const Operands<T> o(args);
  return ready(args, o.template cost<C>(), outputs(output<C>(o.line(), o.m, o.n).within(product_tolerance<T, C>(tf32))),
               inputs(o.a, o.b),
               [=, left = o.left, right = o.right](const Stream& on, auto& c, const auto& a, const auto& b) {
                 c = with_views(left, right, a, b, call).on(on);
               });
}

/// gemm of element types other than bf16 (product_types.cpp).
Ready gemm_of_other_types(const Args& args, const std::string& type);

}  // namespace compare
