// Loads of regions at element offsets: blocks that lie inside run code without masks, and what has no mask is loaded
// through a view. Every element stays what it was, at borders and far outside too.
#include "passes/pass_support.hpp"
#include "passes/passed.hpp"
#include "passes/tile_axis.hpp"
#include "tessera/base/error.hpp"

namespace tessera::test {
namespace THIS_FILE {

passes::Tuning guards(std::optional<int> asked) {
  passes::Tuning t;
  t.guards = asked;
  return t;
}

void five_points(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = -4.0f * x.load_like(y);
  for (int d : {-1, 1}) s += x.load_at(shape<4, 8>, i + d, j) + x.load_at(shape<4, 8>, i, j + d);
  y.store(s);
}
/// A region that begins at an origin that is an argument, outside or not.
void shifted(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x, Scalar<i32> down, Scalar<i32> right) {
  auto [i, j] = y.origin();
  y.store(x.load_at(shape<4, 8>, i + down, j + right, pad(7.0f)));
}
/// The mask of the second load is known only after the first.
void looked_up(Mut<f32, 8> y, In<i32, dyn> at, In<f32, dyn> x) {
  auto [i] = y.origin();
  const auto from = sum(at.load_at(shape<1>, i / 8 - 1));
  y.store(x.load_at(shape<8>, i - 1) + x.load_at(shape<8>, from));
}
/// One row of weights for all rows of a piece, its rows one after the other.
void weighted(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x, In<f32, 3, dyn> w) {
  auto [i, j] = y.origin();
  auto s = zeros<f32, 4, 8>();
  for (int k = 0; k < 3; ++k) {
    const auto rows = x.load_at(shape<4, 8>, i - 2 + k, j);
    s += rows * w.load_at(shape<1, 8>, k, j);
  }
  y.store(s);
}

TEST(VersionGuards, BothVersionsComputeTheSame) {
  for (const std::int64_t rows : {1, 4, 7, 12, 30})
    for (const std::int64_t columns : {3, 8, 24, 29}) {
      const int blocks = static_cast<int>((rows + 3) / 4 * ((columns + 7) / 8));
      const auto y = Array<float>({rows, columns}, 5), x = Array<float>({rows, columns}).each(number);
      const Passed p = expect_same<&five_points>(guards(1), blocks, y, x);
      EXPECT_GE(count(*p.module, ir::Op::If), 1);
      expect_same<&five_points>(guards(0), blocks, y, x);
      expect_same<&weighted>(guards(1), blocks, y, x, Array<float>({3, columns}).each(number));
    }
}

TEST(VersionGuards, RegionsAnywhere) {
  constexpr int kFar = 2147483647;
  for (const int down : {0, -1, -3, 2, 12, -12, kFar, -kFar - 1})
    for (const int right : {0, 1, -7, 16, kFar, -kFar - 1})
      expect_same<&shifted>(guards(1), 6, Array<float>({8, 24}, 5), Array<float>({9, 25}).each(number), down, right);
}

TEST(VersionGuards, WhatIsReadFromMemoryIsNotWaitedFor) {
  Array<std::int32_t> at({4});
  at.each([](std::int64_t i) { return static_cast<std::int32_t>(9 * i - 4); });
  expect_same<&looked_up>(guards(1), 4, Array<float>({30}, 5), at, Array<float>({30}).each(number));
  const Passed p = passed<&looked_up>({{30}, {4}, {30}}, guards(1), "version_guards");
  EXPECT_EQ(count(*p.module, ir::Op::If), 1) << ir::print(*p.module);
}

/// A branch that begins with an access; the place of two masks is computed behind it.
void in_a_branch(Mut<f32, 8> y, In<f32, dyn> x, Scalar<i32> n) {
  tile_if (n > 0) {
    const auto own = y.load();
    const auto from = n - 3;
    y.store(own + x.load_at(shape<8>, from) * x.load_at(shape<8>, from + 1));
  }
}

TEST(VersionGuards, BranchesThatBeginWithAnAccess) {
  for (const int n : {0, 1, 3, 20, 25, 40})
    expect_same<&in_a_branch>(guards(1), 2, Array<float>({13}, 5), Array<float>({30}).each(number), n);
  const Passed p = passed<&in_a_branch>({{13}, {30}}, guards(1), "version_guards");
  EXPECT_EQ(count(*p.module, ir::Op::If), 2) << ir::print(*p.module);
}

/// Rows above and below, all in whole vectors.
template <int Rows>
void rows_above(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = x.load_at(shape<4, 8>, i, j);
  for (int d = 1; d <= Rows; ++d) s += x.load_at(shape<4, 8>, i - d, j);
  y.store(s);
}

TEST(VersionGuards, ByThemselvesWhereSeveralMasksAreOfWholeVectors) {
  const auto branches = [](const Passed& p) { return count(*p.module, ir::Op::If); };
  const std::vector<std::vector<std::int64_t>> dims{{64, 64}, {64, 64}};
  EXPECT_EQ(branches(passed<&rows_above<2>>(dims, {}, "version_guards")), 0) << "two masks";
  EXPECT_EQ(branches(passed<&rows_above<3>>(dims, {}, "version_guards")), 1);
  EXPECT_EQ(branches(passed<&rows_above<3>>(dims, guards(0), "version_guards")), 0);
  EXPECT_EQ(branches(passed<&rows_above<2>>(dims, guards(1), "version_guards")), 1);
  for (const std::int64_t rows : {1, 4, 7, 12})
    expect_same<&rows_above<3>>({}, static_cast<int>((rows + 3) / 4 * 3), Array<float>({rows, 24}, 5),
                                Array<float>({rows, 24}).each(number));
}

TEST(VersionGuards, OnlyWhereTheyAreAskedForOfSingleElements) {
  const auto branches = [](std::optional<int> asked) {
    return count(*passed<&five_points>({{64, 64}, {64, 64}}, guards(asked), "version_guards").module, ir::Op::If);
  };
  EXPECT_EQ(branches({}), 0);
  EXPECT_EQ(branches(0), 0);
  EXPECT_GE(branches(1), 1);
  EXPECT_THROW((void)branches(2), CompileError);
}

TEST(VersionGuards, OnlyOneOfTheVersionsHasMasks) {
  const Passed p = passed<&weighted>({{64, 64}, {64, 64}, {3, 64}}, guards(1), "version_guards");
  int masked = 0, plain = 0;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (op.op() != ir::Op::LoadPtrTko || op.parent_op() == nullptr) return;
      (op.group("mask").empty() ? plain : masked) += 1;
    });
  EXPECT_EQ(masked, 2) << "rows above the piece";
  EXPECT_EQ(plain, 2 * 6 - 2);
}

TEST(RegionsToViews, WhatHasNoMaskIsLoadedThroughAView) {
  const std::vector<std::vector<std::int64_t>> dims{{64, 64}, {64, 64}, {3, 64}};
  const Passed p = passed<&weighted>(dims, guards(0));
  EXPECT_EQ(count(*p.module, ir::Op::LoadPtrTko), 3) << "regions of two axes: " << ir::print(*p.module);
  EXPECT_EQ(count(*p.module, ir::Op::LoadViewTko), 3) << "three rows of weights";
  const std::string text = ir::print(*p.module);
  EXPECT_NE(text.find("shape = [1, 8], strides = [8, 1]"), std::string::npos) << text;
  passes::Tuning pointers = guards(0);
  pointers.access = passes::AccessPath::Pointer;
  EXPECT_EQ(count(*passed<&weighted>(dims, pointers).module, ir::Op::LoadViewTko), 0) << "requested";
}

void boxes(Mut<f32, 1, 1, 8> y, In<f32, dyn, dyn, dyn> x) {
  auto [i, j, k] = y.origin();
  y.store(x.load_at(shape<1, 1, 8>, i, j, k));
}
TEST(RegionsToViews, EachAxisHasItsStride) {
  const Passed p = expect_same<&boxes>(guards(0), 4, Array<float>({4, 1, 8}, 5), Array<float>({4, 1, 8}).each(number));
  EXPECT_EQ(count(*p.module, ir::Op::LoadPtrTko), 0) << ir::print(*p.module);
}

void two_long_axes(Mut<f32, 2, 4, 8> y, In<f32, dyn, dyn, dyn> x) {
  auto [i, j, k] = y.origin();
  y.store(x.load_at(shape<2, 4, 8>, i, j, k));
}
TEST(RegionsToViews, NotWhereViewsAreMisread) {
  const Passed p =
      expect_same<&two_long_axes>(guards(0), 8, Array<float>({4, 8, 16}, 5), Array<float>({4, 8, 16}).each(number));
  EXPECT_EQ(count(*p.module, ir::Op::LoadPtrTko), 1) << ir::print(*p.module);
}

/// Elements picked one by one are no region.
void gathered(Mut<f32, 8> y, In<f32, 8> x) { y.store(x.gather(axis<0>, (iota<i32, 8>() * 3) & 7)); }
using Shape = std::vector<std::int64_t>;

ir::Value shaped(Kernel& k, ir::Op op, ir::Value v, const Shape& shape) {
  return k.op(op, {v}, v.type().with_shape(shape));
}
ir::Value counted(Kernel& k, std::int64_t extent, ir::Elem e = ir::Elem::I32) {
  return k.op(ir::Op::Iota, {}, ir::Type::tile(e, {extent}));
}

TEST(RegionsToViews, OffsetsCountAlongOneAxis) {
  Kernel k;
  const auto axis = [](ir::Value v) { return passes::axis_of_offsets(v); };
  const ir::Value eight = counted(k, 8), row = shaped(k, ir::Op::Reshape, eight, {1, 8});
  EXPECT_EQ(axis(eight), 0u);
  EXPECT_EQ(axis(row), 1u);
  EXPECT_EQ(axis(shaped(k, ir::Op::Broadcast, row, {4, 8})), 1u);
  const ir::Value wide = k.op(ir::Op::ExtI, {row}, ir::Type::tile(ir::Elem::I64, {1, 8}),
                              {{ir::AttrName::signedness, ir::Signedness::Signed}});
  EXPECT_EQ(axis(shaped(k, ir::Op::Reshape, wide, {1, 8, 1})), 1u);
  EXPECT_EQ(axis(shaped(k, ir::Op::Reshape, counted(k, 32), {4, 8})), std::nullopt) << "over both axes";
  EXPECT_EQ(axis(shaped(k, ir::Op::Broadcast, counted(k, 1), {8})), std::nullopt) << "8 times 0";
  EXPECT_EQ(axis(counted(k, 8, ir::Elem::I8)), std::nullopt);
  EXPECT_EQ(axis(k.binary(ir::Op::AddI, eight, eight)), std::nullopt);
}

/// Loads 8 elements at `offsets` of one address; how many of the loads become loads through views.
std::size_t views_at(auto&& offsets) {
  Kernel k;
  const ir::Value one = k.pointer(ir::Elem::F32);
  const ir::Value base = shaped(k, ir::Op::Broadcast, shaped(k, ir::Op::Reshape, one, {1}), {8});
  const ir::Value at = k.op(ir::Op::Offset, {base, offsets(k)}, base.type());
  const std::vector<ir::Value> operands{at};
  const std::vector<ir::Type> types{ir::Type::tile(ir::Elem::F32, {8}), ir::Type::token()};
  const std::vector<std::uint32_t> groups{1, 0, 0, 0};
  k.keep(k.b.create_grouped(ir::Op::LoadPtrTko, operands, groups, types, {Kernel::weak()})->result(0));
  ir::Function& f = k.function();
  passes::regions_to_views(f, {90, 132}, {});
  EXPECT_EQ(problems_of(k.module), "");
  return count(f, ir::Op::LoadViewTko);
}
TEST(RegionsToViews, OneElementManyTimesIsNoRegion) {
  EXPECT_EQ(views_at([](Kernel& k) { return counted(k, 8); }), 1u);
  EXPECT_EQ(views_at([](Kernel& k) { return shaped(k, ir::Op::Broadcast, counted(k, 1), {8}); }), 0u);
}

TEST(RegionsToViews, OtherPointersStay) {
  const Passed p = expect_same<&gathered>(guards(1), 1, Array<float>({8}, 5), Array<float>({8}).each(number));
  EXPECT_EQ(count(*p.module, ir::Op::LoadViewTko), 0) << ir::print(*p.module);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
