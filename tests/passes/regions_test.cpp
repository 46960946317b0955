// Loads of regions at element offsets: blocks that lie inside run code without masks, and what has no mask is loaded
// through a view. Every element stays what it was, at borders and far outside too.
#include "passes/pass_support.hpp"
#include "passes/passed.hpp"
#include "tessera/base/error.hpp"

namespace tessera::test {
namespace {

float number(std::int64_t i) { return static_cast<float>((i * 37) % 101 - 50) / 8.0f; }

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
/// Loads 4 x 8 elements at `offsets` of one address; how many of the loads become loads through views.
std::size_t views_at(auto&& offsets) {
  using ir::Type;
  Kernel k;
  const ir::Value one = k.pointer(ir::Elem::F32);
  const ir::Value corner = k.op(ir::Op::Reshape, {one}, one.type().with_shape(std::vector<std::int64_t>{1, 1}));
  const ir::Value base = k.op(ir::Op::Broadcast, {corner}, one.type().with_shape(std::vector<std::int64_t>{4, 8}));
  ir::Value at = base;
  for (const ir::Value by : offsets(k)) at = k.op(ir::Op::Offset, {at, by}, base.type());
  const std::vector<Type> types{Type::tile(ir::Elem::F32, {4, 8}), Type::token()};
  const std::vector<std::uint32_t> groups{1, 0, 0, 0};
  k.keep(k.b.create_grouped(ir::Op::LoadPtrTko, std::vector{at}, groups, types, {Kernel::weak()})->result());
  ir::Function& f = k.function();
  passes::regions_to_views(f, {90, 132, 4}, {});
  EXPECT_EQ(problems_of(k.module), "");
  return count(f, ir::Op::LoadViewTko);
}
ir::Value counted(Kernel& k, std::int64_t extent, std::vector<std::int64_t> shape) {
  const ir::Value flat = k.op(ir::Op::Iota, {}, ir::Type::tile(ir::Elem::I64, {extent}));
  return k.op(ir::Op::Reshape, {flat}, flat.type().with_shape(shape));
}
ir::Value stretched(Kernel& k, ir::Value v) {
  return k.op(ir::Op::Broadcast, {v}, v.type().with_shape(std::vector<std::int64_t>{4, 8}));
}
ir::Value strides(Kernel& k, ir::Value by) {
  const ir::Value corner = k.op(ir::Op::Reshape, {by}, by.type().with_shape(std::vector<std::int64_t>{1, 1}));
  return stretched(k, corner);
}

TEST(RegionsToViews, OffsetsCountAlongOneAxis) {
  using Offsets = std::vector<ir::Value>;
  const auto rows = [](Kernel& k, ir::Value numbers) {
    return k.binary(ir::Op::MulI, numbers, strides(k, k.arg(ir::Elem::I64)));
  };
  EXPECT_EQ(views_at([&](Kernel& k) {
              return Offsets{stretched(k, counted(k, 8, {1, 8})), rows(k, stretched(k, counted(k, 4, {4, 1})))};
            }),
            1u);
  EXPECT_EQ(views_at([&](Kernel& k) {
              return Offsets{stretched(k, counted(k, 8, {1, 8})), rows(k, counted(k, 32, {4, 8}))};
            }),
            0u)
      << "elements of all rows are counted, not the rows";
  EXPECT_EQ(views_at([&](Kernel& k) {
              return Offsets{stretched(k, counted(k, 8, {1, 8})), rows(k, stretched(k, counted(k, 1, {1, 1})))};
            }),
            0u)
      << "a single 0, stretched";
}

TEST(RegionsToViews, OtherPointersStay) {
  const Passed p = expect_same<&gathered>(guards(1), 1, Array<float>({8}, 5), Array<float>({8}).each(number));
  EXPECT_EQ(count(*p.module, ir::Op::LoadViewTko), 0) << ir::print(*p.module);
}

}  // namespace
}  // namespace tessera::test
