// A matrix, a batch of them, or a sparse one, times a vector.
#include "cases.hpp"

namespace generality {
namespace {

constexpr int kNeighbours = 27;  // elements of a sparse row

template <int R, int C>
void matrix_vector(Mut<f32, R> y, In<bf16, dyn, dyn> a, In<bf16, dyn> x) {
  auto A = a.tiles(shape<R, C>);
  auto X = x.tiles(shape<C>);
  auto [i] = y.index();
  auto acc = zeros<f32, R, C>();
  for (auto k : range(A.count(1))) acc += cast<f32>(A.load(i, k)) * cast<f32>(reshape(X.load(k), shape<1, C>));
  y.store(reshape(sum(acc, axis<1>), shape<R>));
}

template <int R, int C>
void batched_matrix_vector(Mut<f32, 1, R> y, In<bf16, dyn, dyn, dyn> a, In<bf16, dyn, dyn> x) {
  auto A = a.tiles(shape<1, R, C>);
  auto X = x.tiles(shape<1, C>);
  auto [b, i] = y.index();
  auto acc = zeros<f32, R, C>();
  for (auto k : range(A.count(2))) acc += cast<f32>(reshape(A.load(b, i, k), shape<R, C>)) * cast<f32>(X.load(b, k));
  y.store(reshape(sum(acc, axis<1>), shape<1, R>));
}

/// Rows with few elements, each with its column; y = A x.
template <int B>
void sparse_product(Mut<f32, B> y, In<i32, dyn, kNeighbours> columns, In<f32, dyn, kNeighbours> values,
                    In<f32, dyn> x) {
  auto [i] = y.index();
  auto column = columns.tiles(shape<B, 32>, pad(-1)).load(i, 0);
  auto value = values.tiles(shape<B, 32>).load(i, 0);
  y.store(reshape(sum(value * x.gather(column), axis<1>), shape<B>));
}

Plan matrix_vector_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), k = size_of_case(args, "k");
  const auto a = normal<bf16>(1, n, k);
  const auto x = normal<bf16>(2, k);
  const auto wanted = [=](Size i) {
    double s = 0;
    for (Size l = 0; l < k; ++l) s += a(i, l) * x(l);
    return s;
  };
  return plan(
      {bytes_of<bf16>(n * k)}, outputs(by_offset<f32>(wanted, n)), inputs(a, x),
      [](const Stream& on, auto& y, const auto&... in) { kernel<matrix_vector<16, 256>>(mut(y), in...).on(on); });
}

Plan batched_matrix_vector_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), n = size_of_case(args, "n"), k = size_of_case(args, "k");
  const auto a = normal<bf16>(1, batch, n, k);
  const auto x = normal<bf16>(2, batch, k);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size l = 0; l < k; ++l) s += a(at / n, at % n, l) * x(at / n, l);
    return s;
  };
  return plan({bytes_of<bf16>(batch * n * k)}, outputs(by_offset<f32>(wanted, batch, n)), inputs(a, x),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<batched_matrix_vector<16, 256>>(mut(y), in...).on(on);
              });
}

Plan sparse_product_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto columns = whole<i32>(1, 0, n, n, kNeighbours);
  const auto values = normal<f32>(2, n, kNeighbours);
  const auto x = normal<f32>(3, n);
  const auto wanted = [=](Size i) {
    double s = 0;
    for (Size k = 0; k < kNeighbours; ++k) s += values(i, k) * x(static_cast<Size>(columns(i, k)));
    return s;
  };
  return plan({bytes_of<f32>(2 * n * (kNeighbours + 1))}, outputs(by_offset<f32>(wanted, n)),
              inputs(columns, values, x),
              [](const Stream& on, auto& y, const auto&... in) { kernel<sparse_product<64>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> vector_entries() {
  return {entry<matrix_vector_plan>("matrix_vector", "matrix_vectors",
                                    "n=16384 k=16384; n=9001 k=20003; n=100003 k=1501", "n=64 k=512; n=50 k=300"),
          entry<batched_matrix_vector_plan>("batched_matrix_vector", "matrix_vectors",
                                            "batch=512 n=512 k=1024; batch=300 n=501 k=1203; batch=5001 n=133 k=333",
                                            "batch=2 n=64 k=512; batch=2 n=50 k=300"),
          entry<sparse_product_plan>("sparse_product", "graphs", "n=2000000; n=1500001; n=300007", "n=640; n=501")};
}

}  // namespace generality
