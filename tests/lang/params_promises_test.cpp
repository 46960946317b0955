// unsafe_::assume: normally a promise to the compiler, in checked mode an assertion.
#include "lang/run_kernel.hpp"
#include "tessera/base/error.hpp"
#include "tessera/lang/trace.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;

int line = 0;
template <class T>
void multiples(Mut<T, 16> y, Scalar<i64> by) {
  line = __LINE__ + 1;
  y.store(unsafe_::assume(cast<T>(cast<i64>(iota<i32, 16>()) * by), unsafe_::div_by(8)));
}
template <class T>
void limits(Mut<T, 16> y, Scalar<i64> first) {
  y.store(unsafe_::assume(cast<T>(cast<i64>(iota<i32, 16>()) + first), unsafe_::bounded(-10, 100)));
}
void addresses(Mut<f32, 16> y, unsafe_::Ptr<f32> p) {
  y.store(unsafe_::load(unsafe_::assume(p, unsafe_::div_by(16)) + iota<i32, 16>()));
}

template <auto K, class T, class A>
std::string error_of(A argument, bool checked) {
  lang::Specialization s;
  s.checked = checked;
  Array<T> y({16});
  try {
    run<K>({1}, s, y, argument);
  } catch (const DeviceError& e) { return e.what(); }
  return "";
}

template <class T>
void check_numbers() {
  const std::string wrong = error_of<multiples<T>, T>(std::int64_t{4}, true);
  EXPECT_NE(wrong.find("unsafe_::assume is not true: an element is no multiple of 8"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("params_promises_test.cpp:" + std::to_string(line)), std::string::npos) << wrong;
  EXPECT_EQ((error_of<multiples<T>, T>(std::int64_t{8}, true)), "");
  EXPECT_EQ((error_of<multiples<T>, T>(std::int64_t{4}, false)), "") << "believed";
  for (const std::int64_t first : {-11, 86}) {
    const std::string outside = error_of<limits<T>, T>(first, true);
    EXPECT_NE(outside.find("an element lies outside -10 to 100"), std::string::npos) << first << " " << outside;
  }
  for (const std::int64_t first : {-10, 85}) EXPECT_EQ((error_of<limits<T>, T>(first, true)), "") << first;
}
TEST(Promises, OfNumbersAreAssertionsInCheckedMode) {
  check_numbers<std::int64_t>();
  check_numbers<std::int32_t>();
  check_numbers<std::int16_t>();
  check_numbers<std::int8_t>();
}

TEST(Promises, OfAddressesToo) {
  alignas(64) static const float memory[32] = {};
  EXPECT_EQ((error_of<addresses, float>(memory + 4, true)), "");
  const std::string wrong = error_of<addresses, float>(memory + 1, true);
  EXPECT_NE(wrong.find("an element is no multiple of 16"), std::string::npos) << wrong;
}

void more_than_fits(Mut<i32, 16> y, Scalar<i32> n) {
  y.store(unsafe_::assume(iota<i32, 16>() * n, unsafe_::div_by(std::uint64_t{1} << 40)));
}
TEST(Promises, ADivisorThatDoesNotFitTheElement) {
  EXPECT_EQ((error_of<more_than_fits, std::int32_t>(std::int32_t{0}, true)), "") << "0 is a multiple of anything";
  EXPECT_NE((error_of<more_than_fits, std::int32_t>(std::int32_t{1 << 30}, true)), "");
}

}  // namespace THIS_FILE
