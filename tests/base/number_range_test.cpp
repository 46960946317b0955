// Which numbers the element types hold.
#include "tessera/base/number_range.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::detail {
namespace {

TEST(NumberRange, EndsWhereRoundingLeavesTheFiniteNumbers) {
  struct End {
    ElementType element;
    double last, first_outside;
  };
  // Half way to the next number rounds to even: up from an odd significand, down from the even one of f8e4m3.
  const End ends[] = {
      {ElementType::f16, std::nextafter(65520.0, 0.0), 65520.0},
      {ElementType::bf16, std::nextafter(std::ldexp(511.0, 119), 0.0), std::ldexp(511.0, 119)},
      {ElementType::tf32, std::nextafter(std::ldexp(4095.0, 116), 0.0), std::ldexp(4095.0, 116)},
      {ElementType::f32, std::nextafter(std::ldexp(33554431.0, 103), 0.0), std::ldexp(33554431.0, 103)},
      {ElementType::f8e4m3, 464.0, std::nextafter(464.0, 1000.0)},
      {ElementType::f8e5m2, std::nextafter(61440.0, 0.0), 61440.0},
  };
  for (const End& e : ends) {
    for (const double sign : {1.0, -1.0}) {
      EXPECT_TRUE(holds(e.element, sign * e.last)) << info(e.element).name;
      EXPECT_FALSE(holds(e.element, sign * e.first_outside)) << info(e.element).name;
      EXPECT_FALSE(holds(e.element, sign * 1e300)) << info(e.element).name;
    }
    EXPECT_TRUE(holds(e.element, 0.0) && holds(e.element, 1e-300) && holds(e.element, NAN)) << info(e.element).name;
    EXPECT_EQ(holds(e.element, -INFINITY), e.element != ElementType::f8e4m3) << info(e.element).name;
  }
  EXPECT_TRUE(holds(ElementType::f64, 1e308) && holds(ElementType::f64, INFINITY));
}

TEST(NumberRange, AsText) {
  EXPECT_EQ(range_text(ElementType::f16), "f16, which holds numbers from -65504 to 65504");
  EXPECT_EQ(range_text(ElementType::i8), "i8, which holds numbers from -128 to 127");
  EXPECT_EQ(range_text(ElementType::u64), "u64, which holds numbers from 0 to 18446744073709551615");
  EXPECT_EQ(range_text(ElementType::boolean), "bool");
}

}  // namespace
}  // namespace tessera::detail
