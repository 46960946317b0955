// Matrix products: the rows of the library's tables are the candidates, and the heuristic's choice is the default.
#include <stdexcept>

#include "tessera/base/format.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/linear.hpp"
#include "tune_cases.hpp"
#include "tune_products.hpp"

namespace tessera {
namespace {

using namespace kernels;

constexpr const char* kGemmHints = "latency=2,4,6";  // for up to ten tiles; more with --hints
constexpr const char* kOneRowHints = "warps=1,2,4,8 ahead=0,1,2";
constexpr const char* kFewRowsHints = "latency=2,4,6 occupancy=1,2";

template <class T, class M, int Row>
constexpr auto gemm_kernel() {
  constexpr GemmTile t = gemm_tile(multiplier_of<M>(), Row);
  constexpr int BK = t.k_bytes / static_cast<int>(sizeof(T));
  using epilogues::Plain;
  using C = product_t<void, T>;
  if constexpr (t.persistent)
    return kernel<gemm_tiles<Plain, M, BK, C, T, t.m, t.n>>;
  else if constexpr (t.order == Operands::Swapped)
    return kernel<gemm_tile_swapped<Plain, M, BK, C, T, t.m, t.n>>;
  else
    return kernel<gemm_tile<Plain, M, BK, C, T, t.m, t.n>>;
}
template <class T, class M, int First, int... I>
auto gemm_space(std::integer_sequence<int, I...>) {
  return space("gemm", kGemmHints, candidate(row_name<First + I>(), gemm_kernel<T, M, First + I>())...);
}

template <class T, class M = T>
TuningReport tune_gemm_of(const measure::Args& args, TuneOptions o) {
  const std::int64_t n = args.number("n", 4096);
  const Factors<T> f(args, o, n, n, n);
  auto c = empty<product_t<void, T>>(Dims<2>(f.m, f.n)).sync();
  const Target target = tune_target(o);
  if (o.first.empty()) o.first = concat("row ", gemm_heuristic(product_size<M>(f.a, f.b), target));
  if (!target.gpu)
    return tune(gemm_space<T, M, 0>(std::make_integer_sequence<int, kFirstGpuGemm>()), o, mut(c), f.a, f.b);
  constexpr int kRows = gemm_rows(sizeof(T)) - kFirstGpuGemm;
  return tune(gemm_space<T, M, kFirstGpuGemm>(std::make_integer_sequence<int, kRows>()), o, mut(c), f.a, f.b);
}
TuningReport tune_gemm(const measure::Args& args, TuneOptions o) {
  const std::string type = args.text("dtype", "bf16");
  if (type == "bf16") return tune_gemm_of<bf16>(args, o);
  if (type == "f16") return tune_gemm_of<f16>(args, o);
  if (type == "f8e4m3") return tune_gemm_of<f8e4m3>(args, o);
  if (type == "tf32") return tune_gemm_of<f32, tf32>(args, o);
  if (type == "f32") return tune_gemm_of<f32>(args, o);
  if (type == "f64") return tune_gemm_of<f64>(args, o);
  throw std::runtime_error("dtype must be bf16, f16, f8e4m3, tf32, f32 or f64, found " + type);
}

template <int... I>
auto one_row_space(std::integer_sequence<int, I...>) {
  return space("one_row", kOneRowHints,
               candidate<summed_rows<epilogues::Plain, bf16, bf16, 1, kOneRow[I].n, kOneRow[I].k>>(row_name<I>())...);
}
template <int M, int... I>
auto few_rows_space(std::integer_sequence<int, I...>) {
  return space("few_rows", kFewRowsHints,
               candidate<few_rows<epilogues::Plain, bf16, bf16, M, kFewRows[I].n, kFewRows[I].k>>(row_name<I>())...);
}

TuningReport tune_linear(const measure::Args& args, TuneOptions o) {
  const std::int64_t m = args.number("m", 1), n = args.number("n", 4096), k = args.number("k", 4096);
  if (m < 1 || m > 64) throw std::runtime_error(concat("m must be 1 to 64, found ", m));
  const auto x = tune_input<bf16>(o, Dims<2>(m, k), 1), w = tune_input<bf16>(o, Dims<2>(n, k), 2);
  auto y = empty<bf16>(Dims<2>(m, n)).sync();
  const Target target = tune_target(o);
  const int chosen = m == 1 ? one_row_heuristic(n, k, target) : few_rows_heuristic(m, n, target);
  if (o.first.empty()) o.first = concat("row ", chosen);
  if (m == 1) {
    constexpr int kRows = static_cast<int>(std::size(kOneRow));
    // The same for all rows of the table, as they take the same arguments.
    const std::int32_t length = constant_length(n, k, chosen, target);
    return tune(one_row_space(std::make_integer_sequence<int, kRows>()), o, mut(y), x, w, length);
  }
  return with_extent<8, 64>(m, [&](auto rows) {
    constexpr int kRows = static_cast<int>(std::size(kFewRows));
    return tune(few_rows_space<rows>(std::make_integer_sequence<int, kRows>()), o, mut(y), x, w);
  });
}

constexpr const char* kBlockScaledHints = "warps=4,8 occupancy=1,2,3,4";

template <int BM, int BN, int S, bool Behind>
const char* block_scaled_name() {
  static const std::string name = concat(BM, "x", BN, ", ", S, S == 1 ? " block" : " blocks", Behind ? ", behind" : "");
  return name.c_str();
}
template <int BM, int BN, int S = 1, bool Behind = false>
auto block_scaled_candidate() {
  return candidate<block_scaled_tiles<epilogues::Plain, bf16, f8e4m3, BM, BN, S, Behind>>(
      block_scaled_name<BM, BN, S, Behind>());
}
/// Tiles, and the blocks of 128 elements of a step.
TuningReport tune_block_scaled(const measure::Args& args, TuneOptions o) {
  const std::int64_t m = args.number("m", 256), n = args.number("n", 4096), k = args.number("k", 4096),
                     blocks = ceil_div(k, std::int64_t{kScaleBlock});
  const auto x = tune_input<f8e4m3>(o, Dims<2>(m, k), 1), w = tune_input<f8e4m3>(o, Dims<2>(n, k), 2);
  const auto x_scale = tune_input<f32>(o, Dims<2>(m, blocks), 3),
             w_scale = tune_input<f32>(o, Dims<2>(ceil_div(n, std::int64_t{kScaleBlock}), blocks), 4);
  auto y = empty<bf16>(Dims<2>(m, n)).sync();
  const auto tiles =
      space("block_scaled", kBlockScaledHints, block_scaled_candidate<64, 64>(), block_scaled_candidate<64, 64, 2>(),
            block_scaled_candidate<64, 128>(), block_scaled_candidate<128, 64>(), block_scaled_candidate<128, 128>(),
            block_scaled_candidate<128, 128, 2>(), block_scaled_candidate<64, 64, 1, true>(),
            block_scaled_candidate<64, 128, 1, true>(), block_scaled_candidate<128, 64, 1, true>(),
            block_scaled_candidate<128, 128, 1, true>());
  return tune(tiles, o, mut(y), x, x_scale, w, w_scale);
}

}  // namespace

std::vector<TuneCase> tune_product_cases() {
  return {{"gemm", "n=4096 m=n k=n dtype=bf16,f16,f8e4m3,tf32,f32,f64 layout=NT,NN,TN", kGemmHints, tune_gemm},
          {"block_scaled", "m=256 n=4096 k=4096 (f8e4m3)", kBlockScaledHints, tune_block_scaled},
          {"linear", "m=1..64 n=4096 k=4096 (bf16)",
           "of one row warps=1,2,4,8 ahead=0,1,2; of few latency=2,4,6 occupancy=1,2", tune_linear}};
}

}  // namespace tessera
