// Values as bytes, and pointers by number.
#include "tessera/base/bytes.hpp"

#include <gtest/gtest.h>

#include "tessera/base/pointer_numbers.hpp"

namespace tessera {
namespace {

TEST(Bytes, WhatIsWrittenIsRead) {
  BytesOut out;
  out.number(std::uint8_t{200});
  out.number(std::uint16_t{0x1234});
  out.number(std::int64_t{-5});
  out.text("some text");
  out.text("");
  const std::vector<std::byte> bytes = out.take();
  ASSERT_EQ(bytes.size(), 1u + 2 + 8 + 4 + 9 + 4);
  EXPECT_EQ(bytes[1], std::byte{0x34}) << "the lowest byte first";
  BytesIn in(bytes);
  EXPECT_EQ(in.number<std::uint8_t>(), 200);
  EXPECT_EQ(in.number<std::uint16_t>(), 0x1234);
  EXPECT_FALSE(in.ended_well()) << "more is left";
  EXPECT_EQ(in.number<std::int64_t>(), -5);
  EXPECT_EQ(in.text(), "some text");
  EXPECT_EQ(in.text(), "");
  EXPECT_TRUE(in.ended_well());
  in.number<std::uint8_t>();
  EXPECT_FALSE(in.good()) << "nothing is left";
}

TEST(Bytes, ALengthThatLiesReadsNothing) {
  BytesOut out;
  out.number(std::uint32_t{1000});
  out.number(std::uint32_t{7});
  BytesIn in(out.view());
  EXPECT_EQ(in.text(), "");
  EXPECT_FALSE(in.good());
  EXPECT_EQ(in.number<std::uint32_t>(), 0u) << "after the first failure nothing is read any more";
}

TEST(Bytes, VarintsTakeSevenBitsAByte) {
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, ~std::uint64_t{0}}) {
    BytesOut out;
    out.varint(n);
    std::uint64_t read = 0;
    int shift = 0;
    for (const std::byte b : out.view()) read |= (std::to_integer<std::uint64_t>(b) & 127) << shift, shift += 7;
    EXPECT_EQ(read, n);
    EXPECT_EQ(out.view().back() & std::byte{128}, std::byte{0});
  }
}

TEST(PointerNumbers, AreGivenInOrderAndKept) {
  std::vector<int> things(1000);
  PointerNumbers numbers(4);
  EXPECT_EQ(numbers.find(nullptr), 0u);
  for (std::size_t i = 0; i < things.size(); ++i) {
    EXPECT_FALSE(numbers.contains(&things[i]));
    const auto [number, is_new] = numbers.give(&things[i]);
    EXPECT_EQ(number, i + 1);
    EXPECT_TRUE(is_new);
  }
  for (std::size_t i = 0; i < things.size(); ++i) {
    EXPECT_EQ(numbers.find(&things[i]), i + 1);
    EXPECT_FALSE(numbers.give(&things[i]).second);
  }
  EXPECT_EQ(numbers.find(nullptr), 0u);
}

}  // namespace
}  // namespace tessera
