// Host numbers in expressions with tiles: which fit the element type, and how they are rounded.
#include <cmath>

#include "core_support.hpp"
#include "tessera/base/float_types.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Arguments;
using test::trace_error;

void big_literal(Mut<u8, 8> y) { y.store(y.load() + 300); }
void negative_literal(Mut<u32, 8> y) { y.store(y.load() + -1); }
void fitting_literal(Mut<i8, 8> y) { y.store((y.load() + -128) * 127); }
TEST(Literals, AnIntegerThatDoesNotFit) {
  EXPECT_NE(std::string(trace_error<big_literal>().what()).find("300 does not fit a tile of u8"), std::string::npos);
  EXPECT_NE(std::string(trace_error<negative_literal>().what()).find("-1 does not fit a tile of u32"),
            std::string::npos);
  EXPECT_NO_THROW((void)lang::trace<fitting_literal>());
}

void beyond_f16(Mut<f16, 8> y) { y.store(y.load() + 100000); }
void rounds_beyond_f16(Mut<f16, 8> y) { y.store(y.load() * 65520); }
void rounds_to_largest_f16(Mut<f16, 8> y) { y.store(y.load() * 65519 + -65504); }
void compared_beyond_f16(Mut<f16, 8> y) { y.store(where(y.load() < 1e6f, y.load(), 0.0f)); }
void pads_beyond_f16(Mut<f16, 8> y, In<f16, dyn> x) { y.store(x.tiles(shape<8>, pad(100000)).load(0)); }
void starts_beyond_f16(Mut<f16, 1> y, In<f16, 8> x) {
  y.store(reduce(x.tiles(shape<8>).load(0), axis<0>, 1e30, [](auto a, auto b) { return min(a, b); }));
}
void starts_beyond_u8(Mut<u8, 8> y) {
  y.store(scan(y.load(), axis<0>, u64{256}, [](auto a, auto b) { return a | b; }));
}
void beyond_f32(Mut<f32, 8> y) { y.store(y.load() + 1e300); }
void infinite_f16(Mut<f16, 8> y) { y.store(where(y.load() == 1, y.load(), HUGE_VAL) + NAN); }
void infinite_f8e5m2(Mut<f8e5m2, 8> y) { y.store(full<f8e5m2, 8>(HUGE_VAL)); }
void infinite_f8e4m3(Mut<f8e4m3, 8> y) { y.store(full<f8e4m3, 8>(HUGE_VAL)); }
void beyond_f8e4m3(Mut<f8e4m3, 8> y) { y.store(full<f8e4m3, 8>(465)); }
void rounds_to_largest_f8e4m3(Mut<f8e4m3, 8> y) { y.store(full<f8e4m3, 8>(464.0f)); }
template <auto K>
void expect_too_large(const std::string& words) {
  const TraceError e = trace_error<K>();
  EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  EXPECT_TRUE(e.where().known());
}
TEST(Literals, ANumberThatAFloatingTypeWouldMakeInfinite) {
  const std::string f16_range = " does not fit a tile of f16, which holds numbers from -65504 to 65504";
  expect_too_large<beyond_f16>("100000" + f16_range);
  expect_too_large<rounds_beyond_f16>("65520" + f16_range);
  expect_too_large<compared_beyond_f16>("1e+06" + f16_range);
  expect_too_large<pads_beyond_f16>("100000" + f16_range);
  expect_too_large<starts_beyond_f16>("1e+30" + f16_range);
  expect_too_large<starts_beyond_u8>("256 does not fit a tile of u8");
  expect_too_large<beyond_f32>("1e+300 does not fit a tile of f32");
  expect_too_large<beyond_f8e4m3>("465 does not fit a tile of f8e4m3, which holds numbers from -448 to 448");
  expect_too_large<infinite_f8e4m3>("inf does not fit a tile of f8e4m3");
}
TEST(Literals, NumbersThatRoundToFiniteOnesAndInfinitiesAsSuch) {
  EXPECT_NO_THROW((void)lang::trace<rounds_to_largest_f16>());
  EXPECT_NO_THROW((void)lang::trace<infinite_f16>());
  EXPECT_NO_THROW((void)lang::trace<infinite_f8e5m2>());
  EXPECT_NO_THROW((void)lang::trace<rounds_to_largest_f8e4m3>());
}

void rounded_literals(Mut<f32, 4> y, Mut<bf16, 1> z) {
  const auto at = iota<i32, 4>();
  auto r = full<f32, 4>(16777217);
  r = where(at == 1, (i64{1} << 60) + (i64{1} << 36) + 1, r);  // a double in between would be half way
  r = where(at == 2, ~u64{0}, r);
  r = where(at == 3, 0.1, r);
  y.store(r);
  z.store(full<bf16, 1>(257));
}
TEST(Literals, NumbersThatAreRounded) {
  std::vector<f32> y(4);
  std::vector<bf16> z(1);
  test::run<rounded_literals>(Arguments().vector(y).vector(z));
  EXPECT_EQ(y, (std::vector<f32>{16777216.0f, 0x1.000002p60f, 0x1p64f, 0.1f}));
  EXPECT_EQ(float(z[0]), 256.0f);
}

}  // namespace THIS_FILE
}  // namespace tessera
