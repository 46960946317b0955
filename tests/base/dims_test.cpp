// Braced shapes: any integer type, rank from their number, and errors that say which extent is wrong.
#include "tessera/base/dims.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

template <std::size_t R>
Dims<static_cast<int>(R)> braced(BracedDims<R> dims, SourceLocation where = SourceLocation::current()) {
  return Dims(dims, where);
}

template <class F>
std::string shape_error(F&& make) {
  try {
    make();
  } catch (const ShapeError& error) { return error.what(); }
  return "no error";
}

Dims<2> taken(Dims<2> dims) { return dims; }

TEST(Dims, RankFollowsFromTheNumberOfExtents) {
  const std::size_t rows = 3;
  const short columns = 4;
  const Dims d{rows, columns, 5u};
  static_assert(std::is_same_v<decltype(d), const Dims<3>>);
  EXPECT_EQ(d[0], 3);
  EXPECT_EQ(d.numel(), 60);
  EXPECT_EQ(d.to_string(), "[3, 4, 5]");
  static_assert(std::is_same_v<decltype(braced({rows, columns, 1ll})), Dims<3>>);
  EXPECT_EQ(braced({rows, columns, 5}), d);
  EXPECT_EQ(braced({7}), Dims{7});
  static_assert(!std::is_constructible_v<Dims<2>, int> && !std::is_constructible_v<Dims<2>, int, int, int>);
  static_assert(!std::is_constructible_v<Dims<2>, float, float>, "an extent is an integer");
}

TEST(Dims, RankZeroHasOneElement) {
  EXPECT_EQ(Dims<0>().numel(), 1);
  EXPECT_EQ(Dims<0>().to_string(), "[]");
}

TEST(Dims, RejectsWhatNoAxisCanHold) {
  EXPECT_THAT(shape_error([] { braced({2, -1}); }), HasSubstr("extent -1 of axis 1 in shape [2, -1] is negative"));
  EXPECT_THAT(shape_error([] { Dims{std::int64_t{1} << 31}; }), HasSubstr("extent 2147483648 of axis 0"));
  EXPECT_THAT(shape_error([] { Dims{~std::uint64_t{0}, 1}; }), HasSubstr("too large"));
  EXPECT_EQ((Dims{2147483647, 0}).numel(), 0);
}

TEST(Dims, ErrorsNameTheCallersLine) {
  const int line = __LINE__ + 1;
  EXPECT_THAT(shape_error([] { braced({-5}); }), HasSubstr("dims_test.cpp:" + std::to_string(line) + ": ShapeError: "));
  const auto says = [](int at) { return HasSubstr("dims_test.cpp:" + std::to_string(at) + ": ShapeError: "); };
  EXPECT_THAT(shape_error([] { Dims{-5}; }), says(__LINE__));
  EXPECT_THAT(shape_error([] { Dims{2, -5}; }), says(__LINE__));
  EXPECT_THAT(shape_error([] { Dims<3>(1, 2, -5); }), says(__LINE__));
  EXPECT_THAT(shape_error([] { return taken({2u, -5}); }), says(__LINE__)) << "a braced argument";
}

TEST(Dims, CountsOverflowAsAnError) {
  const Dims d{2147483647, 2147483647, 2};  // 2^63 - 2^33 + 2
  EXPECT_EQ(d.numel(), std::int64_t{2147483647} * 2147483647 * 2);
  EXPECT_THAT(shape_error([] {
                (void)Dims{2147483647, 2147483647, 3}.numel();
              }),
              HasSubstr("more than 2^63 - 1 elements"));
  EXPECT_EQ((Dims{2147483647, 2147483647, 2147483647, 0}).numel(), 0);
}

TEST(Dims, FromRunTimeExtentsChecksTheirNumber) {
  const std::vector<std::int64_t> extents{4, 5};
  EXPECT_EQ(Dims<2>::from(extents), (Dims{4, 5}));
  EXPECT_THAT(shape_error([&] { Dims<3>::from(extents); }),
              HasSubstr("expected a shape of 3 axes, found [4, 5] with 2"));
}

}  // namespace
}  // namespace tessera
