// Kernels along rows: for rows that fit one tile only hints vary; for longer rows also the length of chunks.
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"
#include "tune_cases.hpp"

namespace tessera {
namespace {

constexpr const char* kRowHints = "warps=1,2,4,8,16 access=tma,view occupancy=1,3";
constexpr float kEps = 1e-6f;

struct Rows {
  std::int64_t columns, rows;
  Tensor<bf16, 2> x, y;
  Tensor<bf16, 1> weight, bias;
  Rows(const measure::Args& args, const TuneOptions& o)
      : columns(args.number("columns", 1024)),
        rows(args.number("rows", (std::int64_t{1} << 27) / columns)),
        x(tune_input<bf16>(o, Dims<2>(rows, columns), 1)),
        y(empty<bf16>(Dims<2>(rows, columns)).sync()),
        weight(tune_input<bf16>(o, Dims<1>({columns}), 2)),
        bias(tune_input<bf16>(o, Dims<1>({columns}), 3)) {}
};

TuningReport tune_softmax(const measure::Args& args, TuneOptions o) {
  Rows r(args, o);
  using namespace kernels;
  if (r.columns > kLongestTile) {
    const auto chunks = space(
        "softmax_long_row", kRowHints, candidate<softmax_long_row<false, bf16, kRowChunk>>("4096"),
        candidate<softmax_long_row<false, bf16, 2048>>("2048"), candidate<softmax_long_row<false, bf16, 8192>>("8192"));
    return tune(chunks, o, mut(r.y), r.x);
  }
  return with_extent<512, kLongestTile>(r.columns, [&](auto n) {
    return tune(space("softmax_row", kRowHints, candidate<softmax_row<false, bf16, n>>("whole")), o, mut(r.y), r.x);
  });
}
TuningReport tune_rms_norm(const measure::Args& args, TuneOptions o) {
  Rows r(args, o);
  using namespace kernels;
  if (r.columns > kLongestTile) {
    const auto chunks = space(
        "rms_norm_long_row", kRowHints, candidate<rms_norm_long_row<bf16, bf16, kRowChunk>>("4096"),
        candidate<rms_norm_long_row<bf16, bf16, 2048>>("2048"), candidate<rms_norm_long_row<bf16, bf16, 8192>>("8192"));
    return tune(chunks, o, mut(r.y), r.x, r.weight, kEps);
  }
  return with_extent<512, kLongestTile>(r.columns, [&](auto n) {
    const auto one = space("rms_norm_row", kRowHints, candidate<rms_norm_row<bf16, bf16, n>>("whole"));
    return tune(one, o, mut(r.y), r.x, r.weight, kEps);
  });
}
TuningReport tune_layer_norm(const measure::Args& args, TuneOptions o) {
  Rows r(args, o);
  using namespace kernels;
  if (r.columns > kLongestTile) {
    const auto chunks =
        space("layer_norm_long_row", kRowHints, candidate<layer_norm_long_row<bf16, bf16, kRowChunk>>("4096"),
              candidate<layer_norm_long_row<bf16, bf16, 2048>>("2048"),
              candidate<layer_norm_long_row<bf16, bf16, 8192>>("8192"));
    return tune(chunks, o, mut(r.y), r.x, r.weight, r.bias, kEps);
  }
  return with_extent<512, kLongestTile>(r.columns, [&](auto n) {
    const auto one = space("layer_norm_row", kRowHints, candidate<layer_norm_row<bf16, bf16, n>>("whole"));
    return tune(one, o, mut(r.y), r.x, r.weight, r.bias, kEps);
  });
}

}  // namespace

std::vector<TuneCase> tune_row_cases() {
  constexpr const char* kArguments = "columns=1024 rows=2^27/columns (bf16)";
  return {{"softmax", kArguments, kRowHints, tune_softmax},
          {"rms_norm", kArguments, kRowHints, tune_rms_norm},
          {"layer_norm", kArguments, kRowHints, tune_layer_norm}};
}

}  // namespace tessera
