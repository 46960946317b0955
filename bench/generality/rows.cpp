// Softmax, RMS norm and layer norm of rows of many lengths, one row per piece of the next power of two: the kernels of
// bench/gpu.
#include "cases.hpp"
#include "gpu/kernels.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

using gpu_bench::layer_norm;
using gpu_bench::rms_norm;
using gpu_bench::softmax;

// -- the cases --------------------------------------------------------------------------------------------------------

struct Rows {
  Size rows, columns;
  Cost cost;
  explicit Rows(const Args& args) : rows(size_of_case(args, "rows")), columns(size_of_case(args, "columns")) {
    cost.bytes = 2 * bytes_of<bf16>(rows * columns);
  }
};

template <int N>
Plan softmax_plan(const Args& args) {
  const Rows r(args);
  const auto x = normal<bf16>(1, r.rows, r.columns);
  return plan(r.cost, outputs(by_line<bf16>([=](Size i) { return softmax_of(row_of(x, i)); }, r.rows, r.columns)),
              inputs(x), [](const Stream& on, auto& y, const auto& from) { kernel<softmax<N>>(mut(y), from).on(on); });
}

template <int N>
Plan rms_norm_plan(const Args& args) {
  const Rows r(args);
  const auto x = normal<bf16>(1, r.rows, r.columns);
  const auto weight = normal<bf16>(2, r.columns);
  return plan(r.cost, outputs(scaled_rows(x, weight, false)), inputs(x, weight),
              [](const Stream& on, auto& y, const auto& from, const auto& w) {
                kernel<rms_norm<N>>(mut(y), from, w, kRowEps).on(on);
              });
}

template <int N>
Plan layer_norm_plan(const Args& args) {
  const Rows r(args);
  const auto x = normal<bf16>(1, r.rows, r.columns);
  const auto weight = normal<bf16>(2, r.columns), bias = normal<bf16>(3, r.columns);
  return plan(r.cost, outputs(scaled_rows(x, weight, true, bias)), inputs(x, weight, bias),
              [](const Stream& on, auto& y, const auto& from, const auto& w, const auto& b) {
                kernel<layer_norm<N>>(mut(y), from, w, b, kRowEps).on(on);
              });
}

}  // namespace

std::vector<Entry> row_entries() {
  return {entry<softmax_plan<64>>("softmax_64", "softmax",
                                  "rows=4194304 columns=64; rows=3000001 columns=57; rows=500003 columns=33",
                                  "rows=16 columns=64"),
          entry<softmax_plan<128>>("softmax_96", "softmax",
                                   "rows=1000000 columns=96; rows=900001 columns=77; rows=500003 columns=104",
                                   "rows=64 columns=96; rows=5 columns=77"),
          entry<softmax_plan<128>>("softmax_128", "softmax",
                                   "rows=2097152 columns=128; rows=1500001 columns=109; rows=300007 columns=127",
                                   "rows=16 columns=128; rows=3 columns=109"),
          entry<softmax_plan<256>>("softmax_256", "softmax",
                                   "rows=1048576 columns=256; rows=800001 columns=221; rows=200003 columns=136",
                                   "rows=16 columns=256; rows=3 columns=221"),
          entry<softmax_plan<512>>("softmax_512", "softmax",
                                   "rows=524288 columns=512; rows=500001 columns=445; rows=100003 columns=264",
                                   "rows=4 columns=512; rows=3 columns=445"),
          entry<softmax_plan<1024>>("softmax_640", "softmax",
                                    "rows=419430 columns=640; rows=300001 columns=557; rows=50001 columns=1000",
                                    "rows=6 columns=640; rows=3 columns=557"),
          entry<softmax_plan<1024>>("softmax_1024", "softmax",
                                    "rows=262144 columns=1024; rows=200001 columns=893; rows=50001 columns=1023",
                                    "rows=16 columns=1024; rows=3 columns=893"),
          entry<softmax_plan<8192>>("softmax_5120", "softmax",
                                    "rows=52428 columns=5120; rows=40001 columns=4477; rows=10001 columns=7000",
                                    "rows=4 columns=5120; rows=3 columns=4477"),
          entry<softmax_plan<16384>>("softmax_16384", "softmax",
                                     "rows=16384 columns=16384; rows=12001 columns=14333; rows=3001 columns=10000",
                                     "rows=16 columns=16384; rows=3 columns=14333"),
          entry<rms_norm_plan<64>>("rms_norm_64", "norms",
                                   "rows=4194304 columns=64; rows=3000001 columns=57; rows=500003 columns=33",
                                   "rows=6 columns=64; rows=3 columns=53"),
          entry<rms_norm_plan<128>>("rms_norm_128", "norms",
                                    "rows=1000000 columns=128; rows=900001 columns=109; rows=500003 columns=104",
                                    "rows=64 columns=128; rows=3 columns=109"),
          entry<rms_norm_plan<256>>("rms_norm_256", "norms",
                                    "rows=1048576 columns=256; rows=800001 columns=221; rows=200003 columns=136",
                                    "rows=16 columns=256; rows=3 columns=221"),
          entry<rms_norm_plan<512>>("rms_norm_512", "norms",
                                    "rows=524288 columns=512; rows=500001 columns=445; rows=100003 columns=264",
                                    "rows=4 columns=512; rows=3 columns=445"),
          entry<rms_norm_plan<1024>>("rms_norm_640", "norms",
                                     "rows=419430 columns=640; rows=300001 columns=557; rows=50001 columns=1000",
                                     "rows=6 columns=640; rows=3 columns=557"),
          entry<rms_norm_plan<1024>>("rms_norm_1024", "norms",
                                     "rows=262144 columns=1024; rows=200001 columns=893; rows=50001 columns=1023",
                                     "rows=16 columns=1024; rows=3 columns=893"),
          entry<rms_norm_plan<8192>>("rms_norm_5120", "norms",
                                     "rows=52428 columns=5120; rows=40001 columns=4477; rows=10001 columns=7000",
                                     "rows=4 columns=5120; rows=3 columns=4477"),
          entry<rms_norm_plan<16384>>("rms_norm_16384", "norms",
                                      "rows=16384 columns=16384; rows=12001 columns=14333; rows=3001 columns=10000",
                                      "rows=16 columns=16384; rows=3 columns=14333"),
          entry<layer_norm_plan<64>>("layer_norm_64", "norms",
                                     "rows=4194304 columns=64; rows=3000001 columns=57; rows=500003 columns=33",
                                     "rows=6 columns=64; rows=3 columns=53"),
          entry<layer_norm_plan<128>>("layer_norm_128", "norms",
                                      "rows=2097152 columns=128; rows=1500001 columns=109; rows=500003 columns=104",
                                      "rows=16 columns=128; rows=3 columns=109"),
          entry<layer_norm_plan<256>>("layer_norm_256", "norms",
                                      "rows=1048576 columns=256; rows=800001 columns=221; rows=200003 columns=136",
                                      "rows=16 columns=256; rows=3 columns=221"),
          entry<layer_norm_plan<512>>("layer_norm_512", "norms",
                                      "rows=524288 columns=512; rows=500001 columns=445; rows=100003 columns=264",
                                      "rows=4 columns=512; rows=3 columns=445"),
          entry<layer_norm_plan<1024>>("layer_norm_640", "norms",
                                       "rows=419430 columns=640; rows=300001 columns=557; rows=50001 columns=1000",
                                       "rows=6 columns=640; rows=3 columns=557"),
          entry<layer_norm_plan<1024>>("layer_norm_1024", "norms",
                                       "rows=262144 columns=1024; rows=200001 columns=893; rows=50001 columns=1023",
                                       "rows=16 columns=1024; rows=3 columns=893"),
          entry<layer_norm_plan<8192>>("layer_norm_5120", "norms",
                                       "rows=52428 columns=5120; rows=40001 columns=4477; rows=10001 columns=7000",
                                       "rows=4 columns=5120; rows=3 columns=4477"),
          entry<layer_norm_plan<16384>>("layer_norm_16384", "norms",
                                        "rows=16384 columns=16384; rows=12001 columns=14333; rows=3001 columns=10000",
                                        "rows=16 columns=16384; rows=3 columns=14333")};
}

}  // namespace generality
