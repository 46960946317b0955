// Split-K and stream-K products: the kernels that multiply, with the split that the library chooses. The kernel that
// adds the partials has no choices.
#include <stdexcept>

#include "tessera/base/format.hpp"
#include "tessera/kernels/split_k.hpp"
#include "tessera/kernels/stream_k.hpp"
#include "tune_cases.hpp"
#include "tune_products.hpp"

namespace tessera {
namespace {

using namespace kernels;

constexpr const char* kSplitHints = "latency=2,4,6,8 occupancy=1,2";
constexpr const char* kStreamHints = "latency=2,4,6,8 warps=4,8 occupancy=1,2";

template <int Row>
constexpr auto split_kernel() {
  constexpr GemmTile t = kGemmTiles[Row];
  return kernel<partial_products<bf16, t.k_bytes / 2, f32, bf16, t.m, t.n>>;
}
/// The rows for split-K: those of kSplitRows, and others with the same step along k, so that the partials are the same.
template <int... Row>
TuningReport tune_split_in(const Factors<bf16>& f, const TuneOptions& o, Tensor<f32, 3>& parts) {
  const auto rows = space("split_k", kSplitHints, candidate(row_name<Row>(), split_kernel<Row>())...);
  return tune(rows, o, mut(parts), f.a, f.b);
}

TuningReport tune_split_k(const measure::Args& args, TuneOptions o) {
  const Factors<bf16> f(args, o, 512, 2560, 9728);
  const Target target = tune_target(o);
  const SplitPlan plan = split_heuristic(product_size(f.a, f.b), target);
  const std::int64_t number = args.number("parts", std::max<std::int64_t>(plan.parts, 2));
  if (number < 1 || number > f.k) throw std::runtime_error(concat("parts must be 1 to k, found ", number));
  auto parts = empty<f32>(Dims<3>(number, f.m, f.n)).sync();
  if (o.first.empty()) o.first = concat("row ", plan.row);
  if (!target.gpu) return tune_split_in<0>(f, o, parts);
  return tune_split_in<2, kSplitRows[0], kSplitRows[1], kSplitRows[2], kSplitRows[3], 10, 11>(f, o, parts);
}

/// The two kernels that multiply use the tile of kStreamRow, because the division into waves is in these tiles: only
/// hints vary.
template <int Row>
TuningReport tune_stream_in(const Factors<bf16>& f, const TuneOptions& o, int slots, bool shared) {
  constexpr GemmTile t = kGemmTiles[Row];
  constexpr int BK = t.k_bytes / 2;
  const StreamShare s = stream_share(ceil_div(f.m, std::int64_t{t.m}) * ceil_div(f.n, std::int64_t{t.n}), slots);
  if ((shared ? s.rest : s.whole) == 0)
    throw std::runtime_error(concat(f.m, " x ", f.n, " has ", s.whole + s.rest, " tiles, ", slots,
                                    " at a time: ", shared ? "none is left for the last wave" : "no wave is full"));
  if (shared) {
    auto parts = empty<f32>(Dims<3>(s.rest * s.share, std::int64_t{t.m}, std::int64_t{t.n})).sync();
    const auto one = space("stream_k", kStreamHints,
                           candidate(row_name<Row>(), kernel<shared_tiles<bf16, BK, f32, bf16, t.m, t.n>>));
    return tune(one, o, mut(parts), f.a, f.b, s.whole, s.share);
  }
  // It does not write the tiles of the last wave; results are compared including those.
  const Dims<2> dims(f.m, f.n);
  auto c = (o.only_compile != 0 ? empty<bf16>(dims) : zeros<bf16>(dims)).sync();
  using epilogues::Plain;
  const auto one = space("stream_k_whole", kStreamHints,
                         candidate(row_name<Row>(), kernel<whole_tiles<Plain, bf16, BK, bf16, bf16, t.m, t.n>>));
  return tune(one, o, mut(c), f.a, f.b, s.whole);
}

TuningReport tune_stream_k(const measure::Args& args, TuneOptions o) {
  const Factors<bf16> f(args, o, 5120, 5120, 5120);
  const std::string tiles = args.text("tiles", "shared");
  if (tiles != "shared" && tiles != "whole") throw std::runtime_error("tiles must be shared or whole, found " + tiles);
  const Target target = tune_target(o);
  const std::int64_t slots = args.number("slots", target.gpu ? target.num_sms : 4);
  if (slots < 1 || slots > 65535) throw std::runtime_error(concat("slots must be 1 to 65535, found ", slots));
  const bool shared = tiles == "shared";
  return target.gpu ? tune_stream_in<kStreamRow>(f, o, static_cast<int>(slots), shared)
                    : tune_stream_in<0>(f, o, static_cast<int>(slots), shared);
}

}  // namespace

std::vector<TuneCase> tune_split_cases() {
  return {{"split_k", "m=512 n=2560 k=9728 parts=(the library's) layout=NT,NN,TN (bf16)", kSplitHints, tune_split_k},
          {"stream_k", "m=5120 n=5120 k=5120 tiles=shared,whole slots=(SMs) layout=NT,NN,TN (bf16)", kStreamHints,
           tune_stream_k}};
}

}  // namespace tessera
