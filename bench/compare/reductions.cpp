// Reductions of rows and of whole tensors.
#include "case.hpp"
#include "tessera/kernels/reduce.hpp"

namespace compare {
namespace {

enum class Kind { Sum, Mean, Max, Min };

/// `at(i)` of `count` elements.
template <Kind K, class At>
double reduced(Size count, At at) {
  double v = K == Kind::Max ? -INFINITY : K == Kind::Min ? INFINITY : 0;
  for (Size i = 0; i < count; ++i)
    v = K == Kind::Max ? std::max(v, at(i)) : K == Kind::Min ? std::min(v, at(i)) : v + at(i);
  return K == Kind::Mean ? v / static_cast<double>(count) : v;
}

/// Numbers of one sign, so that a sum is not close to 0.
template <class T>
Input<T, 2> numbers(const Args& args, Size rows, Size columns) {
  return uniform<T>(seed_of(args, 1), 0.5, 1.5, rows, columns);
}

template <Kind K>
Ready row_case(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto x = numbers<T>(args, rows, columns);
    const auto wanted = [=](Size i) { return reduced<K>(columns, [&](Size j) { return x(i, j); }); };
    return ready(args, {bytes_of<T>(rows * columns)}, outputs(generality::by_offset<f32>(wanted, rows).within(1e-4)),
                 inputs(x), [](const Stream& on, auto& y, const auto& from) {
                   if constexpr (K == Kind::Sum) y = kernels::row_sum(from).on(on);
                   if constexpr (K == Kind::Mean) y = kernels::row_mean(from).on(on);
                   if constexpr (K == Kind::Max) y = kernels::row_max(from).on(on);
                   if constexpr (K == Kind::Min) y = kernels::row_min(from).on(on);
                 });
  });
}

template <Kind K>
Ready all_case(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto x = numbers<T>(args, rows, columns);
    const auto wanted = [=](Size) { return reduced<K>(rows * columns, [&](Size i) { return x.at(i); }); };
    return ready(args, {bytes_of<T>(rows * columns)}, outputs(generality::by_offset<f32>(wanted, 1).within(1e-4)),
                 inputs(x), [](const Stream& on, auto& y, const auto& from) {
                   if constexpr (K == Kind::Sum) y = kernels::sum_all(from).on(on);
                   if constexpr (K == Kind::Mean) y = kernels::mean_all(from).on(on);
                   if constexpr (K == Kind::Max) y = kernels::max_all(from).on(on);
                   if constexpr (K == Kind::Min) y = kernels::min_all(from).on(on);
                 });
  });
}

}  // namespace

std::vector<Case> reduction_cases() {
  return {{"row_sum", row_case<Kind::Sum>}, {"row_mean", row_case<Kind::Mean>}, {"row_max", row_case<Kind::Max>},
          {"row_min", row_case<Kind::Min>}, {"sum_all", all_case<Kind::Sum>},   {"mean_all", all_case<Kind::Mean>},
          {"max_all", all_case<Kind::Max>}, {"min_all", all_case<Kind::Min>}};
}

}  // namespace compare
