// The library's convolutions, attention and products, as a program calls them.
#include <cmath>
#include <vector>

#include "cases.hpp"
#include "row_references.hpp"
#include "tessera/kernels/attention.hpp"
#include "tessera/kernels/batched_gemm.hpp"
#include "tessera/kernels/convolution.hpp"
#include "tessera/kernels/decode_attention.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/linear.hpp"

namespace generality {
namespace {

constexpr int kDepth = 64;

/// A square filter, channels last, with padding that keeps the extents at a stride of 1.
template <class T, int Filter, int Stride, int Groups>
Plan convolution_plan(const Args& args) {
  constexpr Size kPadding = Filter / 2;
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n"),
             from = Groups * size_of_case(args, "from"), to = Groups * size_of_case(args, "to");
  const auto out = [](Size in) { return (in + 2 * kPadding - Filter) / Stride + 1; };
  const Size rows = out(m), columns = out(n), in_group = from / Groups;
  const auto x = normal<T>(1, images, m, n, from);
  const auto w = uniform<T>(2, -0.1, 0.1, to, Filter, Filter, in_group);
  const auto wanted = [=](Size at) {
    const Size o = at % to, j = at / to % columns, i = at / to / columns % rows, image = at / to / columns / rows;
    const Size first = o / (to / Groups) * in_group;
    return sum_over(Filter * Filter * in_group, [=](Size k) {
      const Size c = k % in_group, b = k / in_group % Filter, a = k / in_group / Filter;
      return x(image, i * Stride + a - kPadding, j * Stride + b - kPadding, first + c) * w(o, a, b, c);
    });
  };
  const auto places = static_cast<double>(images * rows * columns);
  return plan({bytes_of<T>(images * (m * n * from + rows * columns * to)),
               2.0 * Filter * Filter * places * static_cast<double>(to * in_group), info(element_type<T>).name},
              outputs(by_offset<T>(wanted, images, rows, columns, to)), inputs(x, w),
              [](const Stream& on, auto& y, const auto& in, const auto& weights) {
                y = kernels::convolution(in, weights, {.stride = Stride, .padding = kPadding, .groups = Groups}).on(on);
              });
}

/// Along the time: batch, time, channel.
Plan convolution_1d_plan(const Args& args) {
  constexpr Size kFilter = 5;
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length"),
             from = size_of_case(args, "from"), to = size_of_case(args, "to");
  const auto x = normal<bf16>(1, batch, length, from);
  const auto w = uniform<bf16>(2, -0.1, 0.1, to, kFilter, from);
  const auto wanted = [=](Size at) {
    const Size o = at % to, t = at / to % length, b = at / to / length;
    return sum_over(kFilter * from,
                    [=](Size k) { return x(b, t + k / from - 2, k % from) * w(o, k / from, k % from); });
  };
  return plan({bytes_of<bf16>(batch * length * (from + to)),
               2.0 * kFilter * static_cast<double>(batch * length) * static_cast<double>(from * to), "bf16"},
              outputs(by_offset<bf16>(wanted, batch, length, to)), inputs(x, w),
              [](const Stream& on, auto& y, const auto& in, const auto& weights) {
                y = kernels::convolution(in, weights, {.padding = 2}).on(on);
              });
}

/// 2x2 with a stride of 2: each element becomes a square.
Plan convolution_transposed_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n"),
             from = size_of_case(args, "from"), to = size_of_case(args, "to");
  const auto x = normal<f16>(1, images, m, n, from);
  const auto w = uniform<f16>(2, -0.1, 0.1, from, 2, 2, to);
  const auto wanted = [=](Size at) {
    const Size o = at % to, j = at / to % (2 * n), i = at / to / (2 * n) % (2 * m), image = at / to / (4 * m * n);
    return sum_over(from, [=](Size c) { return x(image, i / 2, j / 2, c) * w(c, i % 2, j % 2, o); });
  };
  return plan({bytes_of<f16>(images * m * n * (from + 4 * to)),
               8.0 * static_cast<double>(images * m * n) * static_cast<double>(from * to), "f16"},
              outputs(by_offset<f16>(wanted, images, 2 * m, 2 * n, to)), inputs(x, w),
              [](const Stream& on, auto& y, const auto& in, const auto& weights) {
                y = kernels::convolution_transposed(in, weights, {.stride = 2}).on(on);
              });
}

Plan attention_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), heads = size_of_case(args, "heads"),
             kv_heads = size_of_case(args, "kv_heads"), length = size_of_case(args, "length");
  const auto q = normal<bf16>(1, batch, heads, length, kDepth);
  const auto k = normal<bf16>(2, batch, kv_heads, length, kDepth), v = normal<bf16>(3, batch, kv_heads, length, kDepth);
  const auto wanted = [=](Size line) {
    const Size i = line % length, head = line / length % heads, b = line / length / heads,
               from = head / (heads / kv_heads);
    std::vector<double> s, y;
    for (Size j = 0; j <= i; ++j) {
      s.push_back(0.125 * sum_over(kDepth, [=](Size d) { return q(b, head, i, d) * k(b, from, j, d); }));
    }
    s = softmax_of(s);
    for (Size d = 0; d < kDepth; ++d)
      y.push_back(sum_over(i + 1, [&](Size j) { return s[static_cast<std::size_t>(j)] * v(b, from, j, d); }));
    return y;
  };
  return plan(
      {2 * bytes_of<bf16>(batch * (heads + kv_heads) * length * kDepth),
       2.0 * kDepth * static_cast<double>(batch * heads * length) * static_cast<double>(length), "bf16"},
      outputs(by_line<bf16>(wanted, batch, heads, length, kDepth).within(1e-2)), inputs(q, k, v),
      [](const Stream& on, auto& y, const auto&... in) { y = kernels::attention(in..., {.causal = true}).on(on); });
}

Plan decode_plan(const Args& args) {
  constexpr int kFeatures = 128;
  const Size batch = size_of_case(args, "batch"), heads = size_of_case(args, "heads"),
             kv_heads = size_of_case(args, "kv_heads"), capacity = size_of_case(args, "capacity");
  const auto q = normal<bf16>(1, batch, heads, kFeatures);
  const auto k = normal<bf16>(2, batch, kv_heads, capacity, kFeatures),
             v = normal<bf16>(3, batch, kv_heads, capacity, kFeatures);
  const auto lengths = whole<i32>(4, 1, capacity + 1, batch);
  const auto wanted = [=](Size line) {
    const Size head = line % heads, b = line / heads, from = head / (heads / kv_heads);
    const auto count = static_cast<Size>(lengths(b));
    std::vector<double> s, y;
    for (Size j = 0; j < count; ++j) {
      const double dot = sum_over(kFeatures, [=](Size d) { return q(b, head, d) * k(b, from, j, d); });
      s.push_back(dot / std::sqrt(1.0 * kFeatures));
    }
    s = softmax_of(s);
    for (Size d = 0; d < kFeatures; ++d)
      y.push_back(sum_over(count, [&](Size j) { return s[static_cast<std::size_t>(j)] * v(b, from, j, d); }));
    return y;
  };
  return plan({bytes_of<bf16>(batch * kv_heads * capacity * kFeatures)},  // half of the keys and values
              outputs(by_line<bf16>(wanted, batch, heads, kFeatures).within(1e-2)), inputs(q, k, v, lengths),
              [](const Stream& on, auto& y, const auto&... in) { y = kernels::decode_attention(in...).on(on); });
}

Plan batched_gemm_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), m = size_of_case(args, "m"), n = size_of_case(args, "n"),
             inner = size_of_case(args, "k");
  const auto a = normal<bf16>(1, batch, m, inner), b = normal<bf16>(2, batch, inner, n);
  const auto wanted = [=](Size at) {
    const Size z = at / (m * n), i = at / n % m;
    return sum_over(inner, [=](Size k) { return a(z, i, k) * b(z, k, at % n); });
  };
  return plan({bytes_of<bf16>(batch * (m * inner + inner * n + m * n)),
               2.0 * static_cast<double>(batch * m * n) * static_cast<double>(inner), "bf16"},
              outputs(by_offset<bf16>(wanted, batch, m, n)), inputs(a, b),
              [](const Stream& on, auto& y, const auto&... in) { y = kernels::batched_gemm(in...).on(on); });
}

Plan linear_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto x = normal<bf16>(1, m, inner), w = normal<bf16>(2, n, inner);
  const auto wanted = [=](Size at) { return sum_over(inner, [=](Size k) { return x(at / n, k) * w(at % n, k); }); };
  return plan({bytes_of<bf16>((m + n) * inner + m * n)}, outputs(by_offset<bf16>(wanted, m, n)), inputs(x, w),
              [](const Stream& on, auto& y, const auto&... in) { y = kernels::linear(in...).on(on); });
}

template <class T, class M>
Plan gemm_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), inner = size_of_case(args, "k");
  const auto a = normal<T>(1, m, inner), b = normal<T>(2, n, inner);
  const auto wanted = [=](Size at) { return sum_over(inner, [=](Size k) { return a(at / n, k) * b(at % n, k); }); };
  return plan({bytes_of<T>((m + n) * inner + m * n), 2.0 * static_cast<double>(m * n) * static_cast<double>(inner),
               info(element_type<M>).name},
              outputs(by_offset<T>(wanted, m, n).within(std::is_same_v<M, tf32> ? 2e-3 : rounding_of<T>)), inputs(a, b),
              [](const Stream& on, auto& y, const auto& left, const auto& right) {
                y = kernels::gemm<T, M>(left, right.view().template permute<1, 0>()).on(on);
              });
}

}  // namespace

std::vector<Entry> library_layer_entries() {
  return {
      entry<convolution_plan<bf16, 3, 1, 1>>("library_filter_3x3", "convolutions",
                                             "images=32 m=56 n=56 from=128 to=128; images=20 m=55 n=57 from=200 "
                                             "to=136; images=100 m=27 n=29 from=67 to=129",
                                             "images=1 m=8 n=16 from=64 to=64; images=2 m=5 n=13 from=9 to=11"),
      entry<convolution_plan<f16, 7, 2, 1>>(
          "library_filter_7x7", "convolutions",
          "images=64 m=224 n=224 from=3 to=64; images=77 m=201 n=133 from=3 to=96; images=20 m=301 n=333 from=5 to=40",
          "images=1 m=16 n=16 from=3 to=64; images=2 m=11 n=13 from=3 to=9"),
      entry<convolution_plan<f16, 3, 1, 8>>(
          "library_grouped_filter", "convolutions",
          "images=64 m=56 n=56 from=32 to=32; images=50 m=55 n=57 from=24 to=40; images=100 m=27 n=29 from=17 to=33",
          "images=1 m=8 n=16 from=16 to=16; images=2 m=5 n=13 from=3 to=5"),
      entry<convolution_1d_plan>("library_line_filter", "convolutions",
                                 "batch=16 length=4096 from=512 to=512; batch=20 length=3001 from=200 to=392; batch=77 "
                                 "length=777 from=301 to=257",
                                 "batch=1 length=128 from=64 to=64; batch=2 length=77 from=9 to=11"),
      entry<convolution_transposed_plan>(
          "library_transposed_filter", "convolutions",
          "images=32 m=64 n=64 from=128 to=64; images=50 m=55 n=57 from=200 to=72; images=400 m=27 n=29 from=67 to=33",
          "images=1 m=8 n=16 from=64 to=64; images=2 m=5 n=13 from=9 to=11"),
      entry<attention_plan>("library_attention", "attention",
                            "batch=4 heads=16 kv_heads=4 length=2048; batch=7 heads=14 kv_heads=2 length=1501; "
                            "batch=33 heads=9 kv_heads=3 length=777",
                            "batch=1 heads=2 kv_heads=1 length=128; batch=2 heads=3 kv_heads=3 length=77"),
      entry<decode_plan>("library_decode_lengths", "attention",
                         "batch=64 heads=32 kv_heads=8 capacity=4096; batch=77 heads=28 kv_heads=4 capacity=3001; "
                         "batch=301 heads=9 kv_heads=3 capacity=1777",
                         "batch=2 heads=4 kv_heads=2 capacity=128; batch=3 heads=3 kv_heads=1 capacity=77"),
      entry<batched_gemm_plan>("library_batched_gemm", "products",
                               "batch=64 m=512 n=512 k=512; batch=77 m=333 n=501 k=401; batch=501 m=133 n=104 k=200",
                               "batch=2 m=64 n=64 k=64; batch=3 m=45 n=37 k=21"),
      entry<linear_plan>("library_linear", "matrix_vectors",
                         "m=16 n=14336 k=4096; m=9 n=10001 k=5003; m=3 n=32003 k=1501",
                         "m=16 n=128 k=128; m=5 n=77 k=41"),
      entry<gemm_plan<f32, tf32>>("library_tf32_gemm", "products",
                                  "m=2048 n=4096 k=2048; m=1501 n=3003 k=2001; m=3001 n=1104 k=1000",
                                  "m=128 n=128 k=64; m=77 n=99 k=41"),
      entry<gemm_plan<f64, f64>>("library_f64_gemm", "products",
                                 "m=2048 n=2048 k=1024; m=1501 n=1304 k=1003; m=3001 n=777 k=601",
                                 "m=128 n=128 k=64; m=77 n=99 k=41")};
}

}  // namespace generality
