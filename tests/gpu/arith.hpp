// Arithmetic, comparisons and bits of one element type: bundles of operations, one row each. All of it is exact by
// docs/semantics.md.
#pragma once
#include "gpu/gpu_test.hpp"

namespace gpu_test {

using namespace tessera;

template <class T, int B>
void arith_bundle(Mut<T, 32, B> y, In<T, dyn> a, In<T, dyn> b) {
  auto x = a.load_like(y, axes<1>), z = b.load_like(y, axes<1>);
  RowWriter put(y.sub(shape<1, B>));
  put(x + z);
  put(x - z);
  put(x * z);
  put(x / z);
  put(x % z);
  put(min(x, z));
  put(max(x, z));
  put(-x);
  put(abs(x));
  put(x + 3);
  put(7 - x);
  put(x * 2);
  put(clamp(x, 1, 5));
  put(cast<T>(x < z));
  put(cast<T>(x <= z));
  put(cast<T>(x > z));
  put(cast<T>(x >= z));
  put(cast<T>(x == z));
  put(cast<T>(x != z));
  put(where(x < z, x, z));
  put(where(x < z && x != 2, x, 3));
  auto v = x;
  v += z;
  ++v;
  put(v);
}
inline constexpr Row kArithRows[] = {
    {"x + z"},     {"x - z"}, {"x * z"},  {"x / z"},  {"x % z"},  {"min"},   {"max"},
    {"-x"},        {"abs"},   {"x + 3"},  {"7 - x"},  {"x * 2"},  {"clamp"}, {"x < z"},
    {"x <= z"},    {"x > z"}, {"x >= z"}, {"x == z"}, {"x != z"}, {"where"}, {"where with a number"},
    {"+= and ++"},
};

template <class T, int B>
void bits_bundle(Mut<T, 16, B> y, In<T, dyn> a, In<T, dyn> b) {
  auto x = a.load_like(y, axes<1>), z = b.load_like(y, axes<1>);
  auto amount = z & static_cast<int>(sizeof(T) * 8 - 1);
  RowWriter put(y.sub(shape<1, B>));
  put(x & z);
  put(x | z);
  put(x ^ z);
  put(~x);
  put(x << amount);
  put(x >> amount);
  put(x << z);  // amounts of the type's bits and more, too
  put(x >> z);
  put(x << iota<T, 1, B>(axis<1>));
  put(x >> iota<T, 1, B>(axis<1>));
  put(x << 1);
  put(x >> 3);
  put(x & 5);
}
inline constexpr Row kBitsRows[] = {{"x & z"},      {"x | z"},  {"x ^ z"},  {"~x"},        {"x << z & 7"},
                                    {"x >> z & 7"}, {"x << z"}, {"x >> z"}, {"x << iota"}, {"x >> iota"},
                                    {"x << 1"},     {"x >> 3"}, {"x & 5"}};

/// Runs a bundle of `Rows` rows over n columns.
template <auto Kernel, class T, std::size_t Rows>
void run_bundle(const Row (&rows)[Rows], const std::vector<T>& a, const std::vector<T>& b, Placement placement) {
  const auto n = static_cast<std::int64_t>(a.size());
  const auto both = on_both(placement, [&](const Side& side) {
    auto x = side.input(a, {n}), z = side.input(b, {n});
    auto y = side.template output<T>({static_cast<std::int64_t>(Rows), n});
    kernel<Kernel>(y.lend(), x.view(), z.view()).sync();
    return y.take();
  });
  expect_rows<T>(rows, both, type_name<T>());
}

template <class T>
void check_arith() {
  auto a = mixed_values<T>(1000, 1), b = mixed_values<T>(1000, 2);
  for (std::size_t i = 0; i < 1000; i += 10) b[i] = a[i];  // equal ones
  b[3] = T(0);                                             // x / 0
  run_bundle<arith_bundle<T, 128>>(kArithRows, a, b, Placement::Aligned);
  a.resize(37), b.resize(37);
  run_bundle<arith_bundle<T, 128>>(kArithRows, a, b, Placement::Shifted);
}
template <class T>
void check_bits() {
  run_bundle<bits_bundle<T, 128>>(kBitsRows, any_values<T>(1000, 3), any_values<T>(1000, 4), Placement::Aligned);
}

}  // namespace gpu_test
