// Which scans the assembler may compute: along an axis that neighbouring lanes lie along.
#include <vector>

#include "passes/pass_support.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// How many scans of the kernel are left when `x` is scanned along `axis`.
std::size_t scans_left(Kernel& k, ir::Value x, std::int64_t axis) {
  ir::Operation* scan = k.b.create(ir::Op::Scan, {x}, {x.type()},
                                   {{ir::AttrName::dim, ir::IntAttr{ir::Elem::I64, axis}},
                                    {ir::AttrName::reverse, false},
                                    {ir::AttrName::identities, ir::ArrayAttr{{ir::IntAttr{ir::Elem::I32, 0}}}}});
  ir::Block& body = scan->add_region();
  const ir::Type i32 = x.type().with_shape({});
  const ir::Value a = body.add_arg(i32), b = body.add_arg(i32);
  ir::Builder in(body);
  in.create(ir::Op::Yield, {in.create(ir::Op::AddI, {a, b}, {i32})->result()}, {});
  std::vector<ir::Value> first_element{scan->result()};
  for (std::size_t d = 0; d < x.type().shape().size(); ++d) first_element.push_back(k.i32(0));
  const std::vector<ir::Type> one{x.type().with_shape(std::vector<std::int64_t>(x.type().shape().size(), 1))};
  k.keep(k.b.create(ir::Op::Extract, first_element, one)->result());
  ir::Function& f = k.function();
  passes::expand_scans(f);
  EXPECT_EQ(problems_of(k.module), "");
  return count(f, ir::Op::Scan);
}
ir::Value tile_of(Kernel& k, std::vector<std::int64_t> strides, std::vector<std::int32_t> tile) {
  std::vector<ir::Value> operands{k.pointer(ir::Elem::I32)};
  std::vector<std::uint32_t> groups{1, 0, 0};
  for (std::size_t a = 0; a < tile.size(); ++a, ++groups[1]) operands.push_back(k.arg(ir::Elem::I64));
  for (const std::int64_t s : strides)
    if (s == ir::kDynamic) {
      operands.push_back(k.arg(ir::Elem::I64));
      ++groups[2];
    }
  const std::vector<std::int64_t> shape(tile.size(), ir::kDynamic);
  const std::vector<ir::Type> type{ir::Type::tensor_view(ir::Elem::I32, shape, strides)};
  const ir::Value tensor = k.b.create_grouped(ir::Op::MakeTensorView, operands, groups, type)->result();
  const ir::Value view =
      k.op(ir::Op::MakePartitionView, {tensor}, ir::Type::partition_view(tensor.type(), tile, {}, {}));
  return k.load(view, std::vector<ir::Value>(tile.size(), k.i32(0)))->result(0);
}
std::size_t scans_of(std::vector<std::int64_t> strides, std::vector<std::int32_t> tile, std::int64_t axis) {
  Kernel k;
  return scans_left(k, tile_of(k, std::move(strides), std::move(tile)), axis);
}

TEST(ExpandScans, OnlyAlongAnAxisThatNeighboursLieAlong) {
  constexpr std::int64_t dyn = ir::kDynamic;
  EXPECT_EQ(scans_of({dyn, 1}, {8, 16}, 1), 1u);
  EXPECT_EQ(scans_of({dyn, dyn}, {8, 16}, 1), 1u);
  EXPECT_EQ(scans_of({dyn, 1}, {8, 16}, 0), 0u);
  EXPECT_EQ(scans_of({1, dyn}, {8, 16}, 1), 0u) << "the tile is loaded by columns";
  EXPECT_EQ(scans_of({64, dyn}, {8, 16}, 1), 0u) << "nothing is known of the last axis";
  EXPECT_EQ(scans_of({1, dyn}, {1, 16}, 1), 1u) << "one row";
  EXPECT_EQ(scans_of({dyn, 1}, {16, 1}, 0), 1u) << "one column";
  EXPECT_EQ(scans_of({dyn, 1, dyn}, {4, 8, 1}, 1), 1u);
  EXPECT_EQ(scans_of({1}, {64}, 0), 1u);
}

TEST(ExpandScans, WhatMayLayTilesOutOtherwise) {
  Kernel transposed;
  const ir::Value x = tile_of(transposed, {ir::kDynamic, 1}, {16, 8});
  const ir::Value t = transposed.op(ir::Op::Permute, {x}, x.type().with_shape(std::vector<std::int64_t>{8, 16}),
                                    {{ir::AttrName::permutation, ir::I32ArrayAttr{{1, 0}}}});
  EXPECT_EQ(scans_left(transposed, t, 1), 0u);

  for (const bool by_columns : {false, true}) {
    Kernel pointers;
    const ir::Value y = tile_of(pointers, {ir::kDynamic, 1}, {8, 16});
    const std::vector<std::int64_t> shape{8, 16},
        line = by_columns ? std::vector<std::int64_t>{8, 1} : std::vector<std::int64_t>{1, 16};
    const ir::Type one = ir::Type::tile(ir::Elem::I32, {by_columns ? 8 : 16});
    const ir::Value count = pointers.op(ir::Op::Reshape, {pointers.op(ir::Op::Iota, {}, one)}, one.with_shape(line));
    const ir::Value offsets = pointers.op(ir::Op::Broadcast, {count}, one.with_shape(shape));
    ir::Value p = pointers.pointer(ir::Elem::I32);
    p = pointers.op(ir::Op::Reshape, {p}, p.type().with_shape(std::vector<std::int64_t>{1, 1}));
    p = pointers.op(ir::Op::Broadcast, {p}, p.type().with_shape(shape));
    p = pointers.op(ir::Op::Offset, {p, offsets}, p.type());
    const std::vector<ir::Value> operands{p, y};
    pointers.b.create_grouped(ir::Op::StorePtrTko, operands, std::vector<std::uint32_t>{1, 1, 0, 0},
                              std::vector<ir::Type>{ir::Type::token()}, {Kernel::weak()});
    EXPECT_EQ(scans_left(pointers, y, 1), by_columns ? 0u : 1u);
  }

  Kernel product;
  const ir::Value z = tile_of(product, {ir::kDynamic, 1}, {16, 16});
  const ir::Value narrow = product.op(ir::Op::TruncI, {z}, z.type().with_element(ir::Elem::I8));
  const ir::Value sums = product.op(
      ir::Op::MmaI, {narrow, narrow, z}, z.type(),
      {{ir::AttrName::signedness_lhs, ir::Signedness::Signed}, {ir::AttrName::signedness_rhs, ir::Signedness::Signed}});
  EXPECT_EQ(scans_left(product, sums, 1), 0u);
}

/// A line that is scanned beside a sum of rows, and sums of rows that are scanned.
TEST(ExpandScans, ALineIsJudgedByWhatItIsMadeOf) {
  for (const bool of_sums : {false, true}) {
    Kernel k;
    const ir::Value t = tile_of(k, {ir::kDynamic, 1}, {8, 16}), line = tile_of(k, {1}, {8});
    const ir::Type i32 = t.type().with_shape({}), sums = t.type().with_shape(std::vector<std::int64_t>{8});
    ir::Operation* sum = k.b.create(ir::Op::Reduce, {t}, {sums},
                                    {{ir::AttrName::dim, ir::IntAttr{ir::Elem::I64, 1}},
                                     {ir::AttrName::identities, ir::ArrayAttr{{ir::IntAttr{ir::Elem::I32, 0}}}}});
    ir::Block& body = sum->add_region();
    const ir::Value a = body.add_arg(i32), b = body.add_arg(i32);
    ir::Builder in(body);
    in.create(ir::Op::Yield, {in.create(ir::Op::AddI, {a, b}, {i32})->result()}, {});
    k.keep(sum->result());
    const ir::Value x = k.binary(ir::Op::AddI, line, of_sums ? sum->result() : line);
    EXPECT_EQ(scans_left(k, x, 0), of_sums ? 0u : 1u);
  }
}

}  // namespace
