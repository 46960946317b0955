// Softmax, and what is selected from rows.
#include <cmath>
#include <numeric>

#include "case.hpp"
#include "generality/row_references.hpp"
#include "tessera/kernels/argmax.hpp"
#include "tessera/kernels/softmax.hpp"
#include "tessera/kernels/top_k.hpp"

namespace compare {
namespace {

template <bool Log>
Ready softmax_case(const Args& args) {
  return by_type<bf16, f16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto x = normal<T>(seed_of(args, 1), rows, columns);
    const auto wanted = generality::by_line<T>(
        [=](Size i) {
          auto v = generality::softmax_of(generality::row_of(x, i));
          if constexpr (Log) {
            for (double& t : v) t = std::log(t);
          }
          return v;
        },
        rows, columns);
    return ready(args, {2 * bytes_of<T>(rows * columns)}, outputs(wanted), inputs(x),
                 [](const Stream& on, auto& y, const auto& from) {
                   if constexpr (Log)
                     y = kernels::log_softmax(from).on(on);
                   else
                     y = kernels::softmax(from).on(on);
                 });
  });
}

/// The columns of a row by falling value, equal ones in their order.
std::vector<Size> ranked(const std::vector<double>& row, Size some) {
  std::vector<Size> order(row.size());
  std::iota(order.begin(), order.end(), Size{0});
  std::partial_sort(order.begin(), order.begin() + some, order.end(), [&](Size a, Size b) {
    const double x = row[static_cast<std::size_t>(a)], y = row[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  order.resize(static_cast<std::size_t>(some));
  return order;
}
template <class T>
auto ranked_values(const Input<T, 2>& x, Size k) {
  return [=](Size i) {
    const auto row = generality::row_of(x, i);
    std::vector<double> values;
    for (const Size c : ranked(row, k)) values.push_back(row[static_cast<std::size_t>(c)]);
    return values;
  };
}
template <class T>
auto ranked_columns(const Input<T, 2>& x, Size k) {
  return [=](Size i) {
    const auto order = ranked(generality::row_of(x, i), k);
    return std::vector<double>(order.begin(), order.end());
  };
}

Ready argmax_case(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns");
    const auto x = normal<T>(seed_of(args, 1), rows, columns);
    const auto first = [](auto of) { return [of](Size i) { return of(i)[0]; }; };
    return ready(args, {bytes_of<T>(rows * columns)},
                 outputs(generality::by_offset<T>(first(ranked_values(x, 1)), rows),
                         generality::by_offset<i32>(first(ranked_columns(x, 1)), rows)),
                 inputs(x), [](const Stream& on, auto& value, auto& index, const auto& from) {
                   std::tie(value, index) = kernels::argmax(from).on(on);
                 });
  });
}

Ready top_k_case(const Args& args) {
  return by_type<bf16, f32>(args, [&]<class T>(std::type_identity<T>) {
    const Size rows = size_of(args, "rows"), columns = size_of(args, "columns"), k = size_of(args, "k");
    const auto x = normal<T>(seed_of(args, 1), rows, columns);
    return ready(args, {bytes_of<T>(rows * columns)},
                 outputs(generality::by_line<T>(ranked_values(x, k), rows, k),
                         generality::by_line<i32>(ranked_columns(x, k), rows, k)),
                 inputs(x), [=](const Stream& on, auto& value, auto& index, const auto& from) {
                   std::tie(value, index) = kernels::top_k(from, k).on(on);
                 });
  });
}

}  // namespace

std::vector<Case> row_cases() {
  return {{"softmax", softmax_case<false>},
          {"log_softmax", softmax_case<true>},
          {"argmax", argmax_case},
          {"top_k", top_k_case}};
}

}  // namespace compare
