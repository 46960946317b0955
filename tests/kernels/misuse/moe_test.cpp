// Misuse of the parts of a mixture of experts.
#include "kernels/misuse/misuse.hpp"
#include "tessera/kernels/grouped_gemm.hpp"
#include "tessera/kernels/moe_combine.hpp"
#include "tessera/kernels/moe_route.hpp"

namespace tessera::misuse {
namespace THIS_FILE {

using std::tuple;

TEST(Misuse, MixtureOfExperts) {
  misuse(
      "moe_route", {{'t', 3}, {'e', 20, 2, 1024}},
      [](const auto& scores, double k) { return kernels::moe_route(scores, static_cast<std::int64_t>(k)); },
      tuple{Read<f32, 2>{"te"}, Number{2, {-1, 0, 17, 21, 1e18}, {1, 16}}});
  misuse(
      "moe_plan", {{'t', 3}, {'k', 2}},
      [](const auto& experts, double n) { return kernels::moe_plan(experts, static_cast<std::int64_t>(n)); },
      tuple{Read<i32, 2>{"tk", 4}, Number{4, {-1, 0, 1025, 1e18}, {1, 1024}}});
  misuse(
      "moe_combine", {{'p', 8}, {'d', 5}, {'t', 3, 0, 3, true}, {'k', 2, 0, 2, true}, {'n', 6, 0, 6, true}},
      [](const auto& placed, const auto& weights, const auto& places) {
        return kernels::moe_combine(placed, weights, places);
      },
      tuple{Read<f32, 2>{"pd"}, Read<f32, 2>{"tk"}, Read<i32, 1>{"n"}});
  misuse(
      "grouped_gemm", {{'t', 3}, {'k', 5}, {'e', 2}, {'n', 4}, {'p', 64, 1, 64}, {'o', 1, 1, 1, true}},
      [](const auto& x, const auto& w, const auto& pairs, const auto& owners, double slots) {
        return kernels::grouped_gemm(x, w, pairs, owners, static_cast<int>(slots));
      },
      tuple{Read<f32, 2>{"tk"}, Read<f32, 3>{"ekn"}, Read<i32, 1>{"p"}, Read<i32, 1>{"o", 1},
            Number{1, {0, -1}, {2, 2147483647}}});
  misuse(
      "grouped_gemm", {{'p', 64, 1, 64}, {'k', 5}, {'e', 2}, {'n', 4}, {'o', 1, 1, 1, true}},
      [](const auto& x, const auto& w, const auto& owners) { return kernels::grouped_gemm(x, w, owners); },
      tuple{Read<f32, 2>{"pk"}, Read<f32, 3>{"ekn"}, Read<i32, 1>{"o", 1}});
}

}  // namespace THIS_FILE
}  // namespace tessera::misuse
