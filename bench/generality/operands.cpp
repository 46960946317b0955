// Products of several element types, whose operands are transposed or not, and whose results may be wider.
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

/// c = a b; with a transposed operand the tensor is that of the transposed matrix. M is what is multiplied.
template <class U, class T, class M, bool TurnA, bool TurnB, int BM, int BN, int BK>
void product_of_views(MutTiles<U, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto view = [](auto turned, const auto& x) {
    if constexpr (turned.value)
      return x.permuted(order<1, 0>);
    else
      return x;
  };
  auto A = view(std::bool_constant<TurnA>{}, a).tiles(shape<BM, BK>);
  auto B = view(std::bool_constant<TurnB>{}, b).tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<acc_t<M>, BM, BN>();
    for (auto k : range(A.count(1))) {
      if constexpr (std::is_same_v<T, M>)
        acc = mma(A.load(i, k), B.load(k, j), acc);
      else
        acc = mma(cast<M>(A.load(i, k)), cast<M>(B.load(k, j)), acc);
    }
    out.store(cast<U>(acc));
  }
}

/// x times its transpose, of f64.
template <int B, int BK>
void gram_rows(Mut<f64, B, B> c, In<f64, dyn, dyn> x) {
  auto X = x.tiles(shape<B, BK>);
  auto [i, j] = c.index();
  auto acc = zeros<f64, B, B>();
  for (auto k : range(X.count(1))) acc = mma(X.load(i, k), transpose(X.load(j, k)), acc);
  c.store(acc);
}

/// For each of the batch the transposed a times b.
template <int BM, int BN, int BK>
void batched_transposed(Mut<f32, 1, BM, BN> c, In<f16, dyn, dyn, dyn> a, In<f16, dyn, dyn, dyn> b) {
  auto A = a.tiles(shape<1, BK, BM>);
  auto B = b.tiles(shape<1, BK, BN>);
  auto [batch, i, j] = c.index();
  auto acc = zeros<f32, 1, BM, BN>();
  for (auto k : range(A.count(1))) acc = mma(transpose(A.load(batch, k, i)), B.load(batch, k, j), acc);
  c.store(acc);
}

/// The transposed matrix times a vector: each block goes down some columns.
template <int R, int C>
void transposed_matrix_vector(Mut<f32, C> y, In<f32, dyn, dyn> a, In<f32, dyn> x) {
  auto A = a.tiles(shape<R, C>);
  auto X = x.tiles(shape<R>);
  auto [column] = y.index();
  auto total = zeros<f32, 1, C>();
  for (auto k : range(A.count(0))) total += sum(A.load(k, column) * reshape(X.load(k), shape<R, 1>), axis<0>);
  y.store(reshape(total, shape<C>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

template <class U, class T, class M, bool TurnA, bool TurnB, int BM, int BN, int BK>
Plan product_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto made = [](std::uint64_t seed, Size rows, Size columns) {
    if constexpr (element_class<T> == ElementClass::Float)
      return normal<T>(seed, rows, columns);
    else
      return whole<T>(seed, -100, 100, rows, columns);
  };
  const auto a = TurnA ? made(1, inner, m) : made(1, m, inner), b = TurnB ? made(2, n, inner) : made(2, inner, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n;
    return sum_over(inner, [=](Size k) { return (TurnA ? a(k, i) : a(i, k)) * (TurnB ? b(j, k) : b(k, j)); });
  };
  // tf32 has 11 bits; sums of f32 grow with the square root of their length.
  constexpr double kAllowed = std::is_same_v<M, tf32> ? 2e-3 : sizeof(U) == 4 ? 1e-4 : rounding_of<U>;
  return plan({bytes_of<T>(m * inner + inner * n) + bytes_of<U>(m * n),
               2.0 * static_cast<double>(m * n) * static_cast<double>(inner), info(element_type<M>).name},
              outputs(by_offset<U>(wanted, m, n).within(element_class<U> == ElementClass::Float ? kAllowed : 0)),
              inputs(a, b), [](const Stream& on, auto& c, const auto&... in) {
                kernel<product_of_views<U, T, M, TurnA, TurnB, BM, BN, BK>>(mut(c), in...).on(on);
              });
}

Plan gram_rows_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto x = normal<f64>(1, n, inner);
  const auto wanted = [=](Size at) { return sum_over(inner, [=](Size k) { return x(at / n, k) * x(at % n, k); }); };
  return plan({bytes_of<f64>(n * (inner + n)), 2.0 * static_cast<double>(n * n) * static_cast<double>(inner), "f64"},
              outputs(by_offset<f64>(wanted, n, n)), inputs(x),
              [](const Stream& on, auto& c, const auto& from) { kernel<gram_rows<64, 32>>(mut(c), from).on(on); });
}

Plan batched_transposed_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), m = size_of_case(args, "m"), n = size_of_case(args, "n"),
             inner = size_of_case(args, "k");
  const auto a = normal<f16>(1, batch, inner, m), b = normal<f16>(2, batch, inner, n);
  const auto wanted = [=](Size at) {
    const Size z = at / (m * n), i = at / n % m;
    return sum_over(inner, [=](Size k) { return a(z, k, i) * b(z, k, at % n); });
  };
  return plan({bytes_of<f16>(batch * inner * (m + n)) + bytes_of<f32>(batch * m * n),
               2.0 * static_cast<double>(batch * m * n) * static_cast<double>(inner), "f16"},
              outputs(by_offset<f32>(wanted, batch, m, n).within(1e-4)), inputs(a, b),
              [](const Stream& on, auto& c, const auto&... in) {
                kernel<batched_transposed<64, 64, 32>>(mut(c), in...).on(on);
              });
}

Plan transposed_matrix_vector_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto a = normal<f32>(1, m, n);
  const auto x = normal<f32>(2, m);
  const auto wanted = [=](Size j) { return sum_over(m, [=](Size i) { return a(i, j) * x(i); }); };
  return plan({bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, n).within(1e-4)), inputs(a, x),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<transposed_matrix_vector<32, 128>>(mut(y), in...).on(on);
              });
}

}  // namespace

std::vector<Entry> operand_entries() {
  const char *large = "m=4096 n=4096 k=2048; m=3001 n=2504 k=1503; m=1001 n=9001 k=1100",
             *precise = "m=2048 n=2048 k=1024; m=1501 n=1304 k=1003; m=3001 n=777 k=1601",
             *small = "m=128 n=128 k=64; m=77 n=99 k=41";
  return {entry<product_plan<f32, f32, tf32, false, false, 128, 128, 32>>("tf32_product", "products", large, small),
          entry<product_plan<f32, f32, tf32, true, false, 128, 128, 32>>("tf32_product_tn", "products", large, small),
          entry<product_plan<f32, f32, tf32, false, true, 64, 128, 32>>("tf32_product_nt", "products", large, small),
          entry<product_plan<f32, f32, f32, true, true, 64, 64, 16>>("f32_product_tt", "products", precise, small),
          entry<product_plan<f64, f64, f64, false, false, 64, 64, 16>>("f64_product", "products", precise, small),
          entry<product_plan<f64, f64, f64, false, true, 64, 64, 16>>("f64_product_nt", "products", precise, small),
          entry<product_plan<f16, f16, f16, true, true, 128, 128, 64>>("f16_product_tt", "products", large, small),
          entry<product_plan<f32, bf16, bf16, true, false, 128, 128, 64>>("bf16_product_tn", "products", large, small),
          entry<product_plan<i32, i8, i8, false, false, 128, 128, 64>>("i8_product_nn", "products", large, small),
          entry<gram_rows_plan>("f64_gram", "products", "n=2048 k=1024; n=1501 k=1003; n=2777 k=501",
                                "n=64 k=64; n=77 k=41"),
          entry<batched_transposed_plan>(
              "batched_transposed", "products",
              "batch=512 m=256 n=256 k=128; batch=333 m=200 n=301 k=133; batch=3001 m=77 n=136 k=57",
              "batch=2 m=64 n=64 k=64; batch=3 m=45 n=37 k=21"),
          entry<transposed_matrix_vector_plan>("transposed_matrix_vector", "matrix_vectors",
                                               "m=16384 n=16384; m=50001 n=3001; m=3001 n=50001",
                                               "m=64 n=256; m=77 n=201")};
}

}  // namespace generality
