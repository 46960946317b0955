// The library's softmax and RMS norm, as a program calls them.
#include "cases.hpp"
#include "row_references.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"

namespace generality {
namespace {

Plan library_softmax_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  return plan({2 * bytes_of<bf16>(rows * columns)},
              outputs(by_line<bf16>([=](Size i) { return softmax_of(row_of(x, i)); }, rows, columns)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { y = kernels::softmax(from).on(on); });
}

Plan library_rms_norm_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns);
  const auto weight = normal<bf16>(2, columns);
  return plan({2 * bytes_of<bf16>(rows * columns)}, outputs(scaled_rows(x, weight, false)), inputs(x, weight),
              [](const Stream& on, auto& y, const auto& from, const auto& w) {
                y = kernels::rms_norm(from, w, kRowEps).on(on);
              });
}

}  // namespace

std::vector<Entry> library_row_entries() {
  return {entry<library_softmax_plan>("library_softmax_96", "softmax",
                                      "rows=1000000 columns=96; rows=900001 columns=81; rows=200003 columns=200",
                                      "rows=64 columns=96; rows=3 columns=81"),
          entry<library_rms_norm_plan>("library_rms_norm_128", "norms",
                                       "rows=1000000 columns=128; rows=900001 columns=109; rows=300007 columns=72",
                                       "rows=64 columns=128; rows=3 columns=109"),
          entry<library_rms_norm_plan>("library_rms_norm_640", "norms",
                                       "rows=419430 columns=640; rows=300001 columns=557; rows=50001 columns=1000",
                                       "rows=6 columns=640; rows=3 columns=557"),
          entry<library_rms_norm_plan>("library_rms_norm_5120", "norms",
                                       "rows=52428 columns=5120; rows=40001 columns=4477; rows=5003 columns=7000",
                                       "rows=4 columns=5120; rows=3 columns=4477")};
}

}  // namespace generality
