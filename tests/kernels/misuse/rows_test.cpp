// Misuse of kernels along rows: norms, softmax, reductions, selection, quantisation.
#include "kernels/misuse/misuse.hpp"
#include "tessera/kernels/argmax.hpp"
#include "tessera/kernels/cross_entropy.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/norm_backward.hpp"
#include "tessera/kernels/quantize.hpp"
#include "tessera/kernels/reduce.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"
#include "tessera/kernels/softmax_backward.hpp"
#include "tessera/kernels/top_k.hpp"

namespace tessera::misuse {
namespace THIS_FILE {

using std::tuple;

#define TESSERA_CALL(name) [](const auto&... x) { return kernels::name(x...); }

TEST(Misuse, Norms) {
  misuse("rms_norm", {{'r', 3}, {'n', 5}}, TESSERA_CALL(rms_norm), tuple{Read<f32, 2>{"rn"}, Read<f32, 1>{"n"}});
  misuse("layer_norm", {{'r', 3}, {'n', 5}}, TESSERA_CALL(layer_norm),
         tuple{Read<f32, 2>{"rn"}, Read<f32, 1>{"n"}, Read<f32, 1>{"n"}});
  misuse(
      "add_rms_norm", {{'r', 3}, {'n', 5}},
      [](const auto& x, auto&& h, const auto& w) { return kernels::add_rms_norm(x, std::move(h), w); },
      tuple{Read<f32, 2>{"rn"}, Given<f32, 2>{"rn"}, Read<f32, 1>{"n"}});
  misuse(
      "add_layer_norm", {{'r', 3}, {'n', 5}},
      [](const auto& x, auto&& h, const auto& w, const auto& b) {
        return kernels::add_layer_norm(x, std::move(h), w, b);
      },
      tuple{Read<f32, 2>{"rn"}, Given<f32, 2>{"rn"}, Read<f32, 1>{"n"}, Read<f32, 1>{"n"}});
}
TEST(Misuse, Softmax) {
  misuse("softmax", {{'r', 3}, {'n', 5}}, TESSERA_CALL(softmax), tuple{Read<f32, 2>{"rn"}});
  misuse("log_softmax", {{'r', 3}, {'n', 5}}, TESSERA_CALL(log_softmax), tuple{Read<f32, 2>{"rn"}});
}
TEST(Misuse, Gradients) {
  misuse("softmax_backward", {{'r', 3}, {'n', 5}}, TESSERA_CALL(softmax_backward),
         tuple{Read<f32, 2>{"rn"}, Read<f32, 2>{"rn"}});
  misuse("log_softmax_backward", {{'r', 3}, {'n', 5}}, TESSERA_CALL(log_softmax_backward),
         tuple{Read<f32, 2>{"rn"}, Read<f32, 2>{"rn"}});
  misuse("rms_norm_backward", {{'r', 3}, {'n', 5}}, TESSERA_CALL(rms_norm_backward),
         tuple{Read<f32, 2>{"rn"}, Read<f32, 2>{"rn"}, Read<f32, 1>{"n"}});
  misuse("layer_norm_backward", {{'r', 3}, {'n', 5}}, TESSERA_CALL(layer_norm_backward),
         tuple{Read<f32, 2>{"rn"}, Read<f32, 2>{"rn"}, Read<f32, 1>{"n"}});
}
TEST(Misuse, CrossEntropy) {
  const std::vector<Axis> axes{{'r', 3}, {'n', 5, 1}};
  const Number smoothing{0, {-0.1, 1.1, NAN}, {0.5}}, ignored{-100, {1e10}, {1}};
  const auto options_of = [](double ignore, double smooth) {
    return kernels::CrossEntropyOptions{static_cast<std::int64_t>(ignore), static_cast<float>(smooth)};
  };
  misuse(
      "cross_entropy", axes,
      [=](const auto& x, const auto& t, double smooth, double ignore) {
        return kernels::cross_entropy(x, t, options_of(ignore, smooth));
      },
      tuple{Read<f32, 2>{"rn"}, Read<i32, 1>{"r"}, smoothing, ignored});
  misuse(
      "cross_entropy_backward", axes,
      [=](const auto& g, const auto& x, const auto& t, const auto& lse, double smooth, double ignore) {
        return kernels::cross_entropy_backward(g, x, t, lse, options_of(ignore, smooth));
      },
      tuple{Read<f32, 1>{"r"}, Read<f32, 2>{"rn"}, Read<i32, 1>{"r"}, Read<f32, 1>{"r"}, smoothing, ignored});
}
TEST(Misuse, Reductions) {
  misuse("row_sum", {{'r', 3}, {'n', 5}}, TESSERA_CALL(row_sum), tuple{Read<i8, 2>{"rn"}});
  misuse("row_mean", {{'r', 3}, {'n', 5, 1}}, TESSERA_CALL(row_mean), tuple{Read<f32, 2>{"rn"}});
  misuse("row_max", {{'r', 3}, {'n', 5, 1}}, TESSERA_CALL(row_max), tuple{Read<f32, 2>{"rn"}});
  misuse("row_min", {{'r', 3}, {'n', 5, 1}}, TESSERA_CALL(row_min), tuple{Read<f32, 2>{"rn"}});
  misuse("sum_all", {{'n', 5}}, TESSERA_CALL(sum_all), tuple{Read<i8, 1>{"n"}});
  misuse("mean_all", {{'n', 5, 1}}, TESSERA_CALL(mean_all), tuple{Read<f32, 1>{"n"}});
  misuse("max_all", {{'n', 5, 1}}, TESSERA_CALL(max_all), tuple{Read<f32, 1>{"n"}});
  misuse("min_all", {{'n', 5, 1}}, TESSERA_CALL(min_all), tuple{Read<f32, 1>{"n"}});
}
TEST(Misuse, Selection) {
  misuse("argmax", {{'r', 3}, {'n', 5, 1}}, TESSERA_CALL(argmax), tuple{Read<f32, 2>{"rn"}});
  misuse(
      "top_k", {{'r', 3}, {'n', 70, 3}},
      [](const auto& x, double k) { return kernels::top_k(x, static_cast<std::int64_t>(k)); },
      tuple{Read<f32, 2>{"rn"}, Number{3, {-1, 0, 65, 71, 1e18}, {1, 64}}});
}
TEST(Misuse, Quantisation) {
  misuse(
      "convert", {{'r', 3}, {'n', 5}}, [](const auto& x) { return kernels::convert<f16>(x); },
      tuple{Read<f32, 2>{"rn"}});
  misuse(
      "quantize_rows", {{'r', 3}, {'n', 5}}, [](const auto& x) { return kernels::quantize_rows<i8>(x); },
      tuple{Read<f32, 2>{"rn"}});
  misuse(
      "dequantize_rows", {{'r', 3}, {'n', 5}},
      [](const auto& q, const auto& s) { return kernels::dequantize_rows<f32>(q, s); },
      tuple{Read<i8, 2>{"rn"}, Read<f32, 1>{"r"}});
}

}  // namespace THIS_FILE
}  // namespace tessera::misuse
