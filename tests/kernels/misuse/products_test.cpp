// Misuse of matrix products and the operands of their epilogues.
#include "kernels/misuse/misuse.hpp"
#include "tessera/kernels/batched_gemm.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"
#include "tessera/kernels/linear.hpp"
#include "tessera/kernels/matmul.hpp"

namespace tessera::misuse {
namespace THIS_FILE {

using std::tuple;

const std::vector<Axis> kAxes{{'m', 3}, {'k', 5}, {'n', 4}};

TEST(Misuse, Products) {
  const Number row{-1, {-2, 99, 1000000}, {0}};
  misuse(
      "gemm", kAxes,
      [](const auto& a, const auto& b, double r) { return kernels::gemm(a, b, {}, kernels::Row{static_cast<int>(r)}); },
      tuple{Read<f32, 2>{"mk"}, Read<f32, 2>{"kn"}, row});
  misuse(
      "gemm_split_k", kAxes,
      [](const auto& a, const auto& b, double parts, double r) {
        return kernels::gemm_split_k(a, b, static_cast<std::int64_t>(parts), {}, kernels::Row{static_cast<int>(r)});
      },
      tuple{Read<f32, 2>{"mk"}, Read<f32, 2>{"kn"}, Number{2, {}, {0, -1, 100}}, row});
  misuse(
      "gemm_stream_k", kAxes, [](const auto& a, const auto& b) { return kernels::gemm_stream_k(a, b); },
      tuple{Read<f32, 2>{"mk"}, Read<f32, 2>{"kn"}});
  misuse(
      "matmul", kAxes, [](const auto& a, const auto& b) { return kernels::matmul(a, b); },
      tuple{Read<f32, 2>{"mk"}, Read<f32, 2>{"kn"}});
}
TEST(Misuse, Epilogues) {
  misuse(
      "gemm", kAxes, [](const auto& a, const auto& b, const auto& v) { return kernels::gemm(a, b, kernels::bias(v)); },
      tuple{Read<f32, 2>{"mk"}, Read<f32, 2>{"kn"}, Read<f32, 1>{"n"}});
  misuse(
      "gemm", kAxes,
      [](const auto& a, const auto& b, const auto& v) { return kernels::gemm(a, b, kernels::residual(v)); },
      tuple{Read<f32, 2>{"mk"}, Read<f32, 2>{"kn"}, Read<f32, 2>{"mn"}});
  misuse(
      "linear", kAxes,
      [](const auto& x, const auto& w, const auto& r, const auto& c) {
        return kernels::linear(x, w, kernels::scaled(r, c));
      },
      tuple{Read<f32, 2>{"mk"}, Read<f32, 2>{"nk"}, Read<f32, 1>{"m"}, Read<f32, 1>{"n"}});
  misuse(
      "batched_gemm", {{'b', 3}, {'m', 4}, {'k', 5}, {'n', 6}},
      [](const auto& a, const auto& b, const auto& r) { return kernels::batched_gemm(a, b, kernels::residual(r)); },
      tuple{Read<f32, 3>{"bmk"}, Read<f32, 3>{"bkn"}, Read<f32, 3>{"bmn"}});
}
TEST(Misuse, FewRows) {
  misuse(
      "linear", kAxes,
      [](const auto& x, const auto& w, double r) {
        return kernels::linear(x, w, {}, kernels::Row{static_cast<int>(r)});
      },
      tuple{Read<f32, 2>{"mk"}, Read<f32, 2>{"nk"}, Number{-1, {-2, 99}, {0}}});
}
TEST(Misuse, BlockScales) {
  misuse(
      "quantize_blocks", {{'m', 3}, {'k', 5}}, [](const auto& x) { return kernels::quantize_blocks<f8e4m3, 1>(x); },
      tuple{Read<f32, 2>{"mk"}});
  misuse(
      "block_scaled_linear", {{'m', 3}, {'k', 200, 0, 200, true}, {'n', 4, 1, 128}, {'s', 2}, {'u', 1, 1, 1, true}},
      [](const auto& x, const auto& sx, const auto& w, const auto& sw) {
        return kernels::block_scaled_linear<f32>(x, sx, w, sw);
      },
      tuple{Read<f8e4m3, 2>{"mk"}, Read<f32, 2>{"ms"}, Read<f8e4m3, 2>{"nk"}, Read<f32, 2>{"us"}});
}

}  // namespace THIS_FILE
}  // namespace tessera::misuse
