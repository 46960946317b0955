// Misuse of attention over tensors, packed sequences, caches and pages.
#include "tessera/kernels/attention.hpp"
#include "kernels/misuse/misuse.hpp"
#include "tessera/kernels/attention_backward.hpp"
#include "tessera/kernels/attention_varlen.hpp"
#include "tessera/kernels/decode_attention.hpp"
#include "tessera/kernels/paged_attention.hpp"

namespace tessera::misuse {
namespace THIS_FILE {

using std::tuple;

const Number kScale{0, {NAN, INFINITY, -INFINITY, 1e-44}, {0.5, -0.5}};

TEST(Misuse, Attention) {
  misuse(
      "attention",
      {{'b', 3}, {'h', 4, 0, 1 << 20, true}, {'g', 2, 1, 1 << 20, true}, {'q', 6}, {'k', 7}, {'d', 16, 1, 1024}},
      [](const auto& q, const auto& k, const auto& v, double scale, double window) {
        return kernels::attention(
            q, k, v, {.scale = static_cast<float>(scale), .causal = true, .window = static_cast<int>(window)});
      },
      tuple{Read<f32, 4>{"bhqd"}, Read<f32, 4>{"bgkd"}, Read<f32, 4>{"bgkd"}, kScale,
            Number{0, {-1, -2147483648.0}, {1, 2147483647}}});
}
TEST(Misuse, AttentionBackward) {
  const std::vector<Axis> axes{{'b', 3}, {'h', 4, 0, 1 << 20, true}, {'g', 2, 1, 1 << 20, true}, {'q', 6},
                               {'k', 7}, {'d', 16, 1, 1024}};
  misuse(
      "attention_with_lse", axes,
      [](const auto& q, const auto& k, const auto& v, double scale, double window) {
        return kernels::attention_with_lse(
            q, k, v, {.scale = static_cast<float>(scale), .causal = true, .window = static_cast<int>(window)});
      },
      tuple{Read<f32, 4>{"bhqd"}, Read<f32, 4>{"bgkd"}, Read<f32, 4>{"bgkd"}, kScale,
            Number{0, {-1, -2147483648.0}, {1, 2147483647}}});
  misuse(
      "attention_backward", axes,
      [](const auto& g, const auto& q, const auto& k, const auto& v, const auto& o, const auto& lse, double scale,
         double window) {
        return kernels::attention_backward(
            g, q, k, v, o, lse,
            {.scale = static_cast<float>(scale), .causal = true, .window = static_cast<int>(window)});
      },
      tuple{Read<f32, 4>{"bhqd"}, Read<f32, 4>{"bhqd"}, Read<f32, 4>{"bgkd"}, Read<f32, 4>{"bgkd"},
            Read<f32, 4>{"bhqd"}, Read<f32, 3>{"bhq"}, kScale, Number{0, {-1, -2147483648.0}, {1, 2147483647}}});
}
TEST(Misuse, AttentionVarlen) {
  misuse(
      "attention_varlen",
      {{'t', 6}, {'h', 4, 0, 1 << 20, true}, {'g', 2, 1, 1 << 20, true}, {'d', 16, 1, 256}, {'o', 4, 2, 4096}},
      [](const auto& q, const auto& k, const auto& v, const auto& o, double scale, double window) {
        return kernels::attention_varlen(
            q, k, v, o, {.scale = static_cast<float>(scale), .causal = true, .window = static_cast<int>(window)});
      },
      tuple{Read<f32, 3>{"thd"}, Read<f32, 3>{"tgd"}, Read<f32, 3>{"tgd"}, Read<i32, 1>{"o"}, kScale,
            Number{0, {-1}, {1, 2147483647}}});
}
TEST(Misuse, Decoding) {
  misuse(
      "decode_attention",
      {{'b', 3}, {'h', 4, 0, 1 << 20, true}, {'g', 2, 1, 1 << 20, true}, {'c', 20}, {'d', 16, 1, 256}},
      [](const auto& q, const auto& k, const auto& v, const auto& n, double scale, double parts) {
        return kernels::decode_attention(q, k, v, n, static_cast<float>(scale), static_cast<std::int64_t>(parts));
      },
      tuple{Read<f32, 3>{"bhd"}, Read<f32, 4>{"bgcd"}, Read<f32, 4>{"bgcd"}, Read<i32, 1>{"b", 20}, kScale,
            Number{1, {}, {0, -1, 3}}});
  misuse(
      "paged_attention",
      {{'b', 3},
       {'h', 4, 0, 1 << 20, true},
       {'g', 2, 1, 1 << 20, true},
       {'p', 5},
       {'s', 16, 16, 128, true},
       {'t', 2},
       {'d', 16, 1, 256}},
      [](const auto& q, const auto& k, const auto& v, const auto& t, const auto& n, double scale) {
        return kernels::paged_attention(q, k, v, t, n, static_cast<float>(scale), 1);
      },
      tuple{Read<f32, 3>{"bhd"}, Read<f32, 4>{"pgsd"}, Read<f32, 4>{"pgsd"}, Read<i32, 2>{"bt"}, Read<i32, 1>{"b", 20},
            kScale});
}

}  // namespace THIS_FILE
}  // namespace tessera::misuse
