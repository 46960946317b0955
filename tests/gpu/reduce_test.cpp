// Reductions and scans along each axis, GPU against CPU: exact for integers and for what does not round, by relative
// norm otherwise (the order is the device's).
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

constexpr int H = 8, W = 64;

/// A reduction keeps its axis with extent 1: broadcast back, so that all results have one shape.
template <class T>
struct Planes {
  SubTiles<T, Shape<16, H, W>, 1, H, W> out;
  int plane = 0;
  template <class X>
  void operator()(const X& x) {
    out.store(plane++, 0, 0, reshape(broadcast(x, shape<H, W>), shape<1, H, W>));
  }
};

template <class T>
void reduce_bundle(Mut<T, 16, H, W> y, In<T, dyn, dyn> x) {
  auto t = x.tiles(shape<H, W>).load(0, 0);
  Planes<T> put{y.sub(shape<1, H, W>)};
  put(max(t, axis<0>));
  put(max(t, axis<1>));
  put(min(t, axis<0>));
  put(min(t, axis<1>));
  put(full<T, H, W>(max(t)));
  put(reduce(t, axis<1>, 0, [](auto a, auto b) { return max(a, b); }));
  put(argmax(t, axis<1>).value);
  put(cast<T>(argmin(t, axis<0>).index));
  put(sum<T>(t, axis<0>));
  put(sum<T>(t, axis<1>));
  put(full<T, H, W>(sum<T>(t)));
  put(prod<T>(t, axis<0>));
  put(cumsum<T>(t, axis<1>));
  put(cumsum<T>(t, axis<0>, backward));
  put(cumprod<T>(t, axis<0>));
  put(scan(
      t, axis<1>, 0, [](auto a, auto b) { return a + b; }, backward));
}
constexpr const char* kPlanes[] = {
    "max 0", "max 1", "min 0",      "min 1",  "max of all", "reduce by max",     "argmax",    "argmin",
    "sum 0", "sum 1", "sum of all", "prod 0", "cumsum 1",   "cumsum 0 backward", "cumprod 0", "scan by +, backward"};
constexpr std::size_t kExactPlanes = 8;

template <class T>
void check_reductions(double tolerance) {
  // Ordinary numbers without equal ones along an axis would be best; equal ones test that the lowest index wins.
  const auto values = values_in<T>(H * W, 1, std::is_unsigned_v<T> ? 0 : -3, 3);
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {H, W});
    auto y = side.template output<T>({16, H, W});
    kernel<reduce_bundle<T>>(y.lend(), x.view()).sync();
    return y.take();
  });
  for (std::size_t p = 0; p < 16; ++p) {
    const auto plane = [&](const std::vector<T>& v) {
      return std::vector<T>(v.begin() + static_cast<std::ptrdiff_t>(p * H * W),
                            v.begin() + static_cast<std::ptrdiff_t>((p + 1) * H * W));
    };
    const auto cpu = plane(both.cpu), gpu = plane(both.gpu);
    EXPECT_EQ(p < kExactPlanes || tolerance == 0 ? exact(cpu, gpu) : close(cpu, gpu, tolerance), "")
        << kPlanes[p] << " of " << type_name<T>();
  }
}

class Reduce : public Gpu {};
TEST_F(Reduce, F32) { check_reductions<f32>(1e-5); }
TEST_F(Reduce, F64) { check_reductions<f64>(1e-14); }
TEST_F(Reduce, F16) { check_reductions<f16>(2e-2); }
TEST_F(Reduce, BF16) { check_reductions<bf16>(8e-2); }
TEST_F(Reduce, I32) { check_reductions<i32>(0); }
TEST_F(Reduce, I64) { check_reductions<i64>(0); }
TEST_F(Reduce, I16) { check_reductions<i16>(0); }
TEST_F(Reduce, I8) { check_reductions<i8>(0); }
TEST_F(Reduce, U32) { check_reductions<u32>(0); }
TEST_F(Reduce, U8) { check_reductions<u8>(0); }

void logic(Mut<bool, H, W> y, Mut<bool, H, W> z, In<bool, dyn, dyn> a, In<bool, dyn, dyn> b) {
  auto p = a.load_like(y), q = b.load_like(y);
  y.store((p && !q) || (p ^ q) || any(p && q, axis<1>));
  z.store(broadcast(all(p || q, axis<0>), shape<H, W>) || full<bool, H, W>(any(p)) == q);
}
TEST_F(Reduce, Bool) {
  const auto a = any_values<bool>(H * W, 1), b = any_values<bool>(H * W, 2);
  const auto both = on_both(Placement::Shifted, [&](const Side& side) {
    auto p = side.input(a, {H, W}), q = side.input(b, {H, W});
    auto y = side.output<bool>({H, W}), z = side.output<bool>({H, W});
    kernel<logic>(y.lend(), z.lend(), p.view(), q.view()).sync();
    auto all = y.take();
    for (const bool v : z.take()) all.push_back(v);
    return all;
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "");
}

void nan_extremes(Mut<f32, 1, W> y, Mut<i32, 1, W> index, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  auto [v, i] = argmax(t, axis<1>);
  y.store(broadcast(v, shape<1, W>) + max(t, axis<1>));
  index.store(broadcast(i, shape<1, W>));
}
TEST_F(Reduce, NaNAndInfinity) {
  auto values = any_values<f32>(16 * W, 4);
  for (std::size_t r = 0; r < 16; ++r) {
    if (r % 2) values[r * W + 7] = INFINITY;
    if (r % 3) values[r * W + 9 + r] = NAN;
  }
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {16, W});
    auto y = side.output<f32>({16, W});
    auto index = side.output<i32>({16, W});
    kernel<nan_extremes>(y.lend(), index.lend(), x.view()).sync();
    auto all = y.take();
    for (const i32 i : index.take()) all.push_back(static_cast<f32>(i));
    return all;
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "");
}

/// Of NaN alone, whole tiles and single lines, from memory and constant.
template <class T>
void extremes_of_nan(Mut<T, 8, H, W> y, In<T, dyn, dyn> x) {
  auto t = x.tiles(shape<H, W>).load(0, 0);
  int plane = 0;
  SubTiles<T, Shape<8, H, W>, 1, H, W> out = y.sub(shape<1, H, W>);
  const auto put = [&](const auto& v) { out.store(plane++, 0, 0, reshape(broadcast(v, shape<H, W>), shape<1, H, W>)); };
  put(max(t, axis<1>));
  put(min(t, axis<1>));
  put(max(t, axis<0>));
  put(min(t, axis<0>));
  put(full<T, H, W>(max(extract(t, shape<1, W>, 1, 0))));
  put(full<T, H, W>(min(extract(t, shape<H, 1>, 0, 5))));
  put(max(full<T, H, W>(T(NAN)), axis<0>));
  put(min(full<T, H, W>(T(NAN)), axis<1>));
}
template <class T>
void check_extremes_of_nan() {
  std::vector<T> values = values_in<T>(H * W, 1, -3, 3);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i / W < 3 || i % W == 5 || i % W > 40) values[i] = T(NAN);
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {H, W});
    auto y = side.template output<T>({8, H, W});
    kernel<extremes_of_nan<T>>(y.lend(), x.view()).sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>();
  EXPECT_TRUE(std::isnan(static_cast<double>(both.gpu[0]))) << "of NaN alone the extreme is NaN";
}
TEST_F(Reduce, NaNAlone) {
  check_extremes_of_nan<f16>();
  check_extremes_of_nan<bf16>();
  check_extremes_of_nan<f32>();
  check_extremes_of_nan<f64>();
}

// -- shapes ----------------------------------------------------------------------------------------------------------

template <class T>
void shape_bundle(Mut<T, 16, H, W> y, In<T, dyn, dyn> x) {
  auto t = x.tiles(shape<H, W>).load(0, 0);
  Planes<T> put{y.sub(shape<1, H, W>)};
  put(t);
  put(reshape(transpose(t), shape<H, W>));
  put(reshape(permute(reshape(t, shape<4, 2, W>), order<1, 0, 2>), shape<H, W>));
  put(reshape(permute(reshape(t, shape<2, 4, 8, 8>), order<3, 1, 0, 2>), shape<H, W>));
  put(extract(t, shape<1, W>, 3, 0));
  put(extract(t, shape<H, 1>, 0, 17));
  put(cat(extract(t, shape<H, W / 2>, 0, 1), extract(t, shape<H, W / 2>, 0, 0), axis<1>));
  put(cat(extract(t, shape<H / 2, W>, 1, 0), extract(t, shape<H / 2, W>, 0, 0), axis<0>));
  put(extract(t, shape<1, 1>, 100, -5));  // the nearest
  put(full<T, H, W>(1));
  put(zeros<T, H, W>());
  if constexpr (std::is_integral_v<T>) {
    put(iota<T, 1, W>(axis<1>));
    put(iota<T, H, 1>(axis<0>) + iota<T, 1, W>(axis<1>) * 2);
  } else {
    put(cast<T>(iota<i32, 1, W>(axis<1>)));
    put(cast<T>(iota<i32, H, 1>(axis<0>)));
  }
}
template <class T>
void check_shapes() {
  const auto values = any_values<T>(H * W, 2);
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {H, W});
    auto y = side.template output<T>({13, H, W});
    kernel<shape_bundle<T>>(y.lend(), x.view()).sync();
    return y.take();
  });
  static constexpr Row rows[] = {{"whole"},          {"transpose"}, {"permute 3"}, {"permute 4"},       {"extract row"},
                                 {"extract column"}, {"cat 1"},     {"cat 0"},     {"extract outside"}, {"full"},
                                 {"zeros"},          {"iota 1"},    {"iota 2"}};
  expect_rows<T>(rows, both, type_name<T>());
}
class Shapes : public Gpu {};
TEST_F(Shapes, F32) { check_shapes<f32>(); }
TEST_F(Shapes, F64) { check_shapes<f64>(); }
TEST_F(Shapes, F16) { check_shapes<f16>(); }
TEST_F(Shapes, I64) { check_shapes<i64>(); }
TEST_F(Shapes, I32) { check_shapes<i32>(); }
TEST_F(Shapes, U8) { check_shapes<u8>(); }

}  // namespace
}  // namespace gpu_test
