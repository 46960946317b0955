// Misuse of the elementwise family, of dropout, rotations, gathers and transposition.
#include "tessera/kernels/elementwise.hpp"
#include "kernels/misuse/misuse.hpp"
#include "tessera/kernels/dropout.hpp"
#include "tessera/kernels/embedding.hpp"
#include "tessera/kernels/rope.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::misuse {
namespace THIS_FILE {

using std::tuple;

const std::vector<Axis> kAxes{{'r', 3}, {'n', 5}};

#define TESSERA_MISUSE_UNARY(name)                                                              \
  misuse(                                                                                       \
      #name, kAxes, [](const auto& x) { return kernels::name(x); }, tuple{Read<f32, 2>{"rn"}}); \
  misuse(                                                                                       \
      #name, kAxes, [](auto&& x) { return kernels::name(std::move(x)); }, tuple{Given<f32, 2>{"rn"}})
#define TESSERA_MISUSE_BINARY(name)                                                         \
  misuse(                                                                                   \
      #name, kAxes, [](const auto& x, const auto& y) { return kernels::name(x, y); },       \
      tuple{Read<f32, 2>{"rn"}, Read<f32, 2>{"rn"}});                                       \
  misuse(                                                                                   \
      #name, kAxes, [](auto&& x, const auto& y) { return kernels::name(std::move(x), y); }, \
      tuple{Given<f32, 2>{"rn"}, Read<f32, 2>{"rn"}})

TEST(Misuse, OfOneTensor) {
  TESSERA_MISUSE_UNARY(relu);
  TESSERA_MISUSE_UNARY(sigmoid);
  TESSERA_MISUSE_UNARY(silu);
  TESSERA_MISUSE_UNARY(gelu);
  TESSERA_MISUSE_UNARY(gelu_tanh);
}
TEST(Misuse, OfTwoTensors) {
  TESSERA_MISUSE_BINARY(add);
  TESSERA_MISUSE_BINARY(sub);
  TESSERA_MISUSE_BINARY(mul);
  TESSERA_MISUSE_BINARY(div);
  TESSERA_MISUSE_BINARY(maximum);
  TESSERA_MISUSE_BINARY(minimum);
  TESSERA_MISUSE_BINARY(silu_mul);
  TESSERA_MISUSE_BINARY(gelu_mul);
}
TEST(Misuse, OfAnyFunction) {
  misuse(
      "map", kAxes,
      [](const auto& x, const auto& y, const auto& z) {
        return kernels::map([](auto a, auto b, auto c) { return a * b + c; }, x, y, z);
      },
      tuple{Read<f32, 2>{"rn"}, Read<f16, 2>{"rn"}, Read<f32, 2>{"rn"}});
  misuse(
      "map_in_place", kAxes,
      [](auto&& x, const auto& y) {
        return kernels::map_in_place([](auto a, auto b) { return a * b; }, std::move(x), y);
      },
      tuple{Given<f32, 2>{"rn"}, Read<f32, 2>{"rn"}});
  misuse(
      "saxpy", kAxes, [](auto&& y, const auto& x) { return kernels::saxpy(std::move(y), 2.0f, x); },
      tuple{Given<f32, 2>{"rn"}, Read<f32, 2>{"rn"}});
}
TEST(Misuse, Dropout) {
  const Number p{0.5, {-0.1, 1, 2, NAN, INFINITY}, {0, 0.99}};
  misuse(
      "dropout", kAxes, [](const auto& x, double r) { return kernels::dropout(x, static_cast<float>(r), 7); },
      tuple{Read<f32, 2>{"rn"}, p});
  misuse(
      "dropout", kAxes, [](auto&& x, double r) { return kernels::dropout(std::move(x), static_cast<float>(r), 7); },
      tuple{Given<f32, 2>{"rn"}, p});
}
TEST(Misuse, Moves) {
  misuse(
      "transpose", kAxes, [](const auto& x) { return kernels::transpose(x); }, tuple{Read<f32, 2>{"rn"}});
  misuse(
      "embedding", {{'v', 4}, {'d', 5}, {'t', 3}},
      [](const auto& table, const auto& ids) { return kernels::embedding(table, ids); },
      tuple{Read<f32, 2>{"vd"}, Read<i32, 1>{"t"}});
  misuse(
      "rope", {{'t', 3}, {'h', 2}, {'d', 16, 16, 16}},
      [](auto&& x, const auto& positions, double base) {
        return kernels::rope(std::move(x), positions, {.base = static_cast<float>(base)});
      },
      tuple{Given<f32, 3>{"thd"}, Read<i32, 1>{"t"}, Number{10000, {0, -1, NAN, INFINITY}, {1, 1e6}}});
}

}  // namespace THIS_FILE
}  // namespace tessera::misuse
