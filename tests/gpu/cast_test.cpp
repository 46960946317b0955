// Conversions between all element types, GPU against CPU, over bit patterns of the source: rounding, saturation, NaN.
#include <limits>
#include <tuple>

#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

template <class To, class From, int B>
void cast_kernel(Mut<To, B> y, In<From, dyn> x) {
  y.store(cast<To>(x.load_like(y)));
}
template <class To, class From, int B>
void cast_saturated(Mut<To, B> y, In<From, dyn> x) {
  y.store(cast<To>(x.load_like(y), saturate));
}
template <class To, class From, int B>
void cast_directed(Mut<To, B> down, Mut<To, B> up, Mut<To, B> zero, In<From, dyn> x) {
  down.store(cast<To>(x.load_like(down), rounding::down));
  up.store(cast<To>(x.load_like(up), rounding::up));
  zero.store(cast<To>(x.load_like(zero), rounding::zero));
}

template <class To, class From, auto Kernel = cast_kernel<To, From, 256>>
void check_cast(const std::vector<From>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {n});
    auto y = side.template output<To>({n});
    kernel<Kernel>(y.lend(), x.view()).sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<From>() << " to " << type_name<To>();
}

/// One kernel for several targets: it is compiled once per source.
template <class From, int B, class... To>
struct Casts {
  static void run(Mut<To, B>... y, In<From, dyn> x) { (y.store(cast<To>(x.load_like(y))), ...); }
};

template <class From, class... To>
void check_casts_to() {
  const auto values = mixed_values<From>(2000, 5);
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {2000});
    std::tuple<Guarded<To, 1>...> outputs(side.template output<To>({2000})...);
    return std::apply(
        [&](auto&... y) {
          kernel<Casts<From, 256, To...>::run>(y.lend()..., x.view()).sync();
          return std::make_tuple(y.take()...);
        },
        outputs);
  });
  const auto compare = [](const auto& cpu, const auto& gpu, const char* to) {
    EXPECT_EQ(exact(cpu, gpu), "") << type_name<From>() << " to " << to;
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (compare(std::get<I>(both.cpu), std::get<I>(both.gpu), type_name<To>()), ...);
  }(std::index_sequence_for<To...>{});
}
template <class From>
void check_casts() {
  check_casts_to<From, f64, f32, f16, bf16, tf32, f8e4m3, f8e5m2>();
  check_casts_to<From, i64, i32, i16, i8, u64, u32, u16, u8, bool>();
}

class Cast : public Gpu {};
#define TESSERA_TEST_CAST(Name, T) \
  TEST_F(Cast, Name) { check_casts<T>(); }
TESSERA_TEST_CAST(F64, f64)
TESSERA_TEST_CAST(F32, f32)
TESSERA_TEST_CAST(F16, f16)
TESSERA_TEST_CAST(BF16, bf16)
TESSERA_TEST_CAST(TF32, tf32)
TESSERA_TEST_CAST(F8E4M3, f8e4m3)
TESSERA_TEST_CAST(F8E5M2, f8e5m2)
TESSERA_TEST_CAST(Bool, bool)
TESSERA_TEST_CAST(I64, i64)
TESSERA_TEST_CAST(I32, i32)
TESSERA_TEST_CAST(I16, i16)
TESSERA_TEST_CAST(I8, i8)
TESSERA_TEST_CAST(U64, u64)
TESSERA_TEST_CAST(U32, u32)
TESSERA_TEST_CAST(U16, u16)
TESSERA_TEST_CAST(U8, u8)
#undef TESSERA_TEST_CAST

template <class To, class From>
void check_directed() {
  const auto values = values_in<From>(2000, 6, -300, 300);
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(values, {2000});
    auto a = side.template output<To>({2000}), b = side.template output<To>({2000}),
         c = side.template output<To>({2000});
    kernel<cast_directed<To, From, 256>>(a.lend(), b.lend(), c.lend(), x.view()).sync();
    auto all = a.take();
    for (const auto& v : {b.take(), c.take()}) all.insert(all.end(), v.begin(), v.end());
    return all;
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<From>() << " to " << type_name<To>();
}
class CastOptions : public Gpu {};
TEST_F(CastOptions, Directed) {
  check_directed<f16, f32>();
  check_directed<bf16, f32>();
  check_directed<f32, f64>();
  check_directed<i32, f32>();
  check_directed<f32, i32>();
}
TEST_F(CastOptions, Saturated) {
  const auto f = mixed_values<f32>(2000, 7);
  check_cast<f16, f32, cast_saturated<f16, f32, 256>>(f);
  check_cast<bf16, f32, cast_saturated<bf16, f32, 256>>(f);
  check_cast<i8, f32, cast_saturated<i8, f32, 256>>(f);
  const auto i = mixed_values<i32>(2000, 8);
  check_cast<i8, i32, cast_saturated<i8, i32, 256>>(i);
  check_cast<u8, i32, cast_saturated<u8, i32, 256>>(i);
  check_cast<u16, i32, cast_saturated<u16, i32, 256>>(i);
}

template <class To, class From, int B>
void bitcast_kernel(Mut<To, B> y, In<From, dyn> x) {
  y.store(bitcast<To>(x.load_like(y)));
}
TEST_F(CastOptions, Bits) {
  check_cast<i32, f32, bitcast_kernel<i32, f32, 256>>(any_values<f32>(2000, 9));
  check_cast<f16, u16, bitcast_kernel<f16, u16, 256>>(any_values<u16>(2000, 10));
  check_cast<i64, f64, bitcast_kernel<i64, f64, 256>>(any_values<f64>(2000, 11));
  check_cast<u8, f8e4m3, bitcast_kernel<u8, f8e4m3, 256>>(any_values<f8e4m3>(2000, 12));
}

// Numbers that the assembler knows (docs/compiler/define_results.md): the last elements are padding.
template <class To, class From, int B>
void padded_kernel(Mut<To, B> y, In<From, dyn> x) {
  const auto high = cast<To>(x.load_at(shape<B>, 1900, pad::pos_inf));
  const auto low = cast<To>(x.load_at(shape<B>, 1900, pad::neg_inf));
  const auto none = cast<To>(x.load_at(shape<B>, 1900, pad::nan));
  y.store(high / To{2} + low / To{4} + none);
}
template <class To, class From, int B>
void through_f64(Mut<To, B> y, In<From, dyn> x) {
  y.store(cast<To>(cast<f64>(x.load_like(y))));
}
template <class To, class From, int B>
void of_infinity(Mut<To, B> y, In<From, dyn> x) {
  const auto t = x.load_like(y);
  const auto infinity = From(std::numeric_limits<f32>::infinity());
  y.store(where(t == infinity, cast<To>(t), min(cast<To>(t), To{100000})));
}
TEST_F(CastOptions, NumbersThatTheAssemblerKnows) {
  check_cast<i32, f32, padded_kernel<i32, f32, 256>>(mixed_values<f32>(2000, 13));
  check_cast<u64, f16, padded_kernel<u64, f16, 256>>(mixed_values<f16>(2000, 14));
  check_cast<i8, f64, padded_kernel<i8, f64, 256>>(mixed_values<f64>(2000, 15));
  check_cast<i32, i64, through_f64<i32, i64, 256>>(mixed_values<i64>(2000, 16));
  check_cast<u32, i32, through_f64<u32, i32, 256>>(mixed_values<i32>(2000, 17));
  check_cast<i32, f16, of_infinity<i32, f16, 256>>(mixed_values<f16>(2000, 18));
}

}  // namespace
}  // namespace gpu_test
