// Lookups: elements of a row by their indices, places in a sorted table.
#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kLimits = 1000, kLimitStep = 1000;  // of bucketize

template <int N>
void take_along(Mut<f32, 1, N> y, In<f32, dyn, dyn> x, In<i32, dyn, dyn> ids) {
  auto [row, column] = y.index();
  y.store(x.gather(row, ids.load_like(y)));
}

/// How many limits are not above each number: a binary search.
template <int B>
void bucketize(Mut<i32, B> y, In<i32, dyn> x, In<i32, dyn> limits) {
  auto t = x.load_like(y);
  auto low = zeros<i32, B>(), high = full<i32, B>(limits.dim(0));
  tile_while(any(low < high)) {
    auto middle = (low + high) / 2;
    auto above = low < high && limits.gather(middle) <= t;
    high = where(above, high, middle);
    low = where(above, middle + 1, low);
  }
  y.store(low);
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan take_along_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns"), taken = columns / 4;
  const auto x = normal<f32>(1, rows, columns);
  const auto ids = whole<i32>(2, 0, columns, rows, taken);
  const auto wanted = [=](Size at) { return x(at / taken, static_cast<Size>(ids.at(at))); };
  return plan({bytes_of<f32>(rows * columns) + 2 * bytes_of<f32>(rows * taken)},
              outputs(by_offset<f32>(wanted, rows, taken).within(0)), inputs(x, ids),
              [](const Stream& on, auto& y, const auto&... in) { kernel<take_along<512>>(mut(y), in...).on(on); });
}

Plan bucketize_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<i32>(1, 0, kLimits * kLimitStep, n);
  const auto limits = steps(2, kLimitStep, kLimits);
  const auto wanted = [=](Size i) {
    Size count = 0;
    while (count < kLimits && limits(count) <= x.at(i)) ++count;
    return static_cast<double>(count);
  };
  return plan({2 * bytes_of<i32>(n)}, outputs(by_offset<i32>(wanted, n)), inputs(x, limits),
              [](const Stream& on, auto& y, const auto&... in) { kernel<bucketize<kPiece>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> lookup_entries() {
  return {entry<take_along_plan>("take_along", "gathers",
                                 "rows=50000 columns=2000; rows=90001 columns=1001; rows=300001 columns=133",
                                 "rows=8 columns=2000; rows=3 columns=333"),
          entry<bucketize_plan>("bucketize", "gathers", "n=67108864; n=50000003; n=20000001", "n=8192; n=5001")};
}

}  // namespace generality
