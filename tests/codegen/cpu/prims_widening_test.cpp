// Conversions that an operation does on the way to its operand: the same bits as the conversion and then the operation,
// for every format, operand, length, layout and instruction set.
#include <algorithm>
#include <array>

#include "prims_support.hpp"

namespace tessera::cpu::prims {
namespace THIS_FILE {

using ir::Elem;
using ir::ElementOp;
using ir::Op;

constexpr Elem kFormats[] = {Elem::F16,    Elem::BF16,      Elem::TF32, Elem::F8E4M3FN,
                             Elem::F8E5M2, Elem::F8E8M0FNU, Elem::F64};

ElementOp single(Op op, int arity, Elem result = Elem::F32) {
  return {.op = op, .source = Elem::F32, .result = result, .arity = static_cast<std::uint8_t>(arity)};
}
const ElementOp kUsers[] = {single(Op::Fma, 3),  single(Op::MulF, 2), single(Op::AddF, 2),
                            single(Op::SubF, 2), single(Op::Sqrt, 1), single(Op::FToF, 1, Elem::F16),
                            single(Op::MaxF, 2)};

/// The converted operand is a whole matrix whose rows may lie apart; the others are a matrix, a row or one value.
enum class Other { Matrix, Row, One };

struct Sizes {
  std::int64_t rows, cols, gap;
};

void check(const ElementOp& user_op, int converted, Elem format, Other other, Sizes size, std::uint64_t seed) {
  const ElementOp conversion_op{.op = Op::FToF, .source = format, .result = Elem::F32, .arity = 1};
  RandomElements random(seed);
  const std::int64_t pitch = size.cols + size.gap, n = size.rows * size.cols;
  const Elem elem = Elem::F32;
  Tile narrow(format, static_cast<std::size_t>(size.rows * pitch)), wide(elem, static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < size.rows * pitch; ++i) narrow.set(static_cast<std::size_t>(i), random(format));
  Tile plain(elem, static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) plain.set(static_cast<std::size_t>(i), random(elem));
  for (std::int64_t r = 0; r < size.rows; ++r)
    for (std::int64_t c = 0; c < size.cols; ++c) {
      const std::uint64_t bits = narrow.get(static_cast<std::size_t>(r * pitch + c));
      wide.set(static_cast<std::size_t>(r * size.cols + c), ir::evaluate_element(conversion_op, {&bits, 1}));
    }
  for (const Isa isa : isas()) {
    const Elementwise user = elementwise(user_op, isa);
    const Elementwise fused = converting(user, converted, elementwise(conversion_op, isa), isa);
    ASSERT_TRUE(fused) << describe(user_op);
    std::array<Operand, 3> operands{};
    for (int i = 0; i < user_op.arity; ++i) {
      operands[static_cast<std::size_t>(i)] = i == converted ? Operand{narrow.data.data(), pitch * narrow.bytes, false}
                                              : other == Other::One ? Operand{plain.data.data(), 0, true}
                                              : other == Other::Row ? Operand{plain.data.data(), 0, false}
                                                                    : Operand{plain.data.data(), size.cols * 4, false};
    }
    Tile got(user_op.result, static_cast<std::size_t>(n));
    fused(got.data.data(), operands.data(), size.rows, size.cols);
    for (std::int64_t i = 0; i < n; ++i) {
      std::uint64_t in[3];
      for (int k = 0; k < user_op.arity; ++k)
        in[k] = k == converted ? wide.get(static_cast<std::size_t>(i))
                               : plain.get(static_cast<std::size_t>(other == Other::One   ? 0
                                                                    : other == Other::Row ? i % size.cols
                                                                                          : i));
      const std::uint64_t want = ir::evaluate_element(user_op, {in, user_op.arity});
      ASSERT_TRUE(same(user_op.result, want, got.get(static_cast<std::size_t>(i))))
          << describe(user_op) << " of " << ir::info(format).text << " as operand " << converted << ", element " << i
          << " of " << size.rows << " x " << size.cols << ", " << text(isa) << ": expected " << want << ", found "
          << got.get(static_cast<std::size_t>(i));
    }
  }
}

TEST(PrimsWidening, ConvertedOnTheWayHasTheBitsOfBothOperations) {
  constexpr Sizes kSizes[] = {{1, 1, 0}, {1, 15, 0}, {1, 64, 0}, {1, 700, 0}, {4, 64, 0}, {3, 77, 5}, {8, 512, 100}};
  std::uint64_t seed = 1;
  for (const ElementOp& op : kUsers)
    for (int operand = 0; operand < op.arity; ++operand)
      for (const Elem format : kFormats)
        for (const Other other : {Other::Matrix, Other::Row, Other::One})
          for (const Sizes& size : kSizes) check(op, operand, format, other, size, ++seed);
}

// Every pattern of a byte, in every place of a vector: NaN of E4M3 is found wherever it is.
TEST(PrimsWidening, EveryByteInEveryPlace) {
  for (const Elem format : {Elem::F8E4M3FN, Elem::F8E5M2}) {
    const ElementOp conversion_op{.op = Op::FToF, .source = format, .result = Elem::F32, .arity = 1};
    for (std::size_t shift = 0; shift < 67; ++shift) {
      Tile bytes(format, 512);
      for (std::size_t i = 0; i < 512; ++i) bytes.set(i, (i + shift * 5) % (shift % 2 != 0 ? 256 : 127));
      if (shift % 2 == 0) bytes.set(shift, 0xFF);
      for (const Isa isa : isas()) {
        Tile got(Elem::F32, 512);
        const Operand in{bytes.data.data(), 512, false};
        elementwise(conversion_op, isa)(got.data.data(), &in, 1, 512);
        for (std::size_t i = 0; i < 512; ++i) {
          const std::uint64_t bits = bytes.get(i);
          ASSERT_TRUE(same(Elem::F32, ir::evaluate_element(conversion_op, {&bits, 1}), got.get(i)))
              << ir::info(format).text << ' ' << bits << " at " << i << ", " << text(isa);
        }
      }
    }
  }
}

TEST(PrimsWidening, WhatIsNoConversionToF32IsNotAbsorbed) {
  const Isa isa = isas().back();
  const Elementwise fma = elementwise(kUsers[0], isa);
  const auto conversion = [&](Elem from, Elem to) {
    return elementwise(ElementOp{.op = Op::FToF, .source = from, .result = to, .arity = 1}, isa);
  };
  EXPECT_FALSE(converting(fma, 0, conversion(Elem::F32, Elem::BF16), isa));
  EXPECT_FALSE(converting(fma, 0, elementwise(single(Op::NegF, 1), isa), isa));
  const ElementOp select{.op = Op::Select, .source = Elem::F32, .result = Elem::F32, .arity = 3};
  EXPECT_FALSE(converting(elementwise(select, isa), 0, conversion(Elem::BF16, Elem::F32), isa));
  const ElementOp doubles{.op = Op::AddF, .source = Elem::F64, .result = Elem::F64, .arity = 2};
  EXPECT_FALSE(converting(elementwise(doubles, isa), 0, conversion(Elem::BF16, Elem::F32), isa));
}

}  // namespace THIS_FILE
}  // namespace tessera::cpu::prims
