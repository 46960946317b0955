// Gathers along the last axis first: every element stays what it was, masks and padding too, and what is left alone.
#include "passes/passed.hpp"
#include "tessera/analysis/divisibility.hpp"

namespace tessera::test {
namespace THIS_FILE {

/// Places that are computed: of columns in reverse order, some outside, which are zeros.
void mirrored(Mut<f32, 4, 16> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto rows = iota<i32, 4, 1>(axis<0>) + i;
  auto columns = cast<i32>(20.0f - cast<f32>(iota<i32, 1, 16>(axis<1>) + j));
  y.store(x.gather(rows, columns));
}
/// Of rank 3, with places in all axes.
void interpolated(Mut<f32, 1, 4, 16> y, In<f32, dyn, dyn, dyn> x) {
  auto [n, i, j] = y.origin();
  auto rows = cast<i32>(cast<f32>(iota<i32, 1, 4, 1>(axis<1>) + i) * 0.5f);
  auto columns = cast<i32>(cast<f32>(iota<i32, 1, 1, 16>(axis<2>) + j) * 0.5f);
  y.store(x.gather(n, rows, columns) + x.gather(n, rows, min(columns + 1, x.dim(2) - 1)));
}
/// Columns that count.
void counted(Mut<f32, 4, 16> y, In<f32, dyn, dyn> x, In<i32, dyn> at) {
  auto [i, j] = y.origin();
  auto rows = reshape(at.load_at(shape<4>, i), shape<4, 1>);
  y.store(x.gather(rows, iota<i32, 1, 16>(axis<1>) + j));
}
/// One row.
void of_a_row(Mut<f32, 1, 16> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  y.store(x.gather(i, cast<i32>(cast<f32>(iota<i32, 1, 16>(axis<1>) + j) * 0.5f)));
}
/// Four columns.
void narrow(Mut<f32, 16, 4> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto columns = cast<i32>(cast<f32>(iota<i32, 1, 4>(axis<1>) + j) * 0.5f);
  y.store(x.gather(iota<i32, 16, 1>(axis<0>) + i, columns));
}

float whole_number(std::int64_t i) { return static_cast<float>(i * 37 % 1009); }

int permutations(const Passed& p) { return count(*p.module, ir::Op::Permute); }

TEST(OrderGathers, EveryElementStaysWhatItWas) {
  for (const std::int64_t rows : {3, 8})
    for (const std::int64_t columns : {5, 16, 40}) {
      const auto y = Array<float>({rows, columns}, 5), x = Array<float>({6, 19}).each(whole_number);
      const int blocks = static_cast<int>((rows + 3) / 4 * ((columns + 15) / 16));
      EXPECT_GT(permutations(expect_same<&mirrored>({}, blocks, y, x)), 0);
      const auto z = Array<float>({2, rows, columns}, 5);
      const auto images = Array<float>({2, rows, columns}).each(whole_number);
      EXPECT_GT(permutations(expect_same<&interpolated>({}, 2 * blocks, z, images)), 0);
    }
}

TEST(OrderGathers, TheLastAxisIsFirstWhereItIsLoaded) {
  const Passed p = passed<&interpolated>({{2, 32, 64}, {2, 32, 64}}, {});
  int gathers = 0;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (op.op() != ir::Op::LoadPtrTko) return;
      ++gathers;
      EXPECT_EQ(std::vector<std::int64_t>(op.result(0).type().shape().begin(), op.result(0).type().shape().end()),
                (std::vector<std::int64_t>{16, 1, 4}));
    });
  EXPECT_EQ(gathers, 2) << ir::print(*p.module);
}

TEST(OrderGathers, WhatIsLeftAlone) {
  const std::vector<std::vector<std::int64_t>> two{{32, 64}, {32, 64}};
  EXPECT_GT(permutations(passed<&mirrored>(two, {})), 0) << "the twin";
  passes::Tuning off;
  off.order_gathers = false;
  EXPECT_EQ(permutations(passed<&mirrored>(two, off)), 0);
  EXPECT_EQ(permutations(passed<&counted>({{32, 64}, {32, 64}, {32}}, {})), 0) << "whole vectors of each row";
  EXPECT_EQ(permutations(passed<&of_a_row>(two, {})), 0) << "threads have no other axis";
  EXPECT_EQ(permutations(passed<&narrow>(two, {})), 0) << "columns that are less than a sector";
}

TEST(OrderGathers, PlacesThatAreComputedAreNotNeighbours) {
  const auto bytes_of_loads = [](const Passed& p) {
    std::vector<std::int64_t> all;
    for (const auto& f : p.module->functions) {
      const analysis::Divisibility known(*f);
      ir::walk(f->body(), [&](const ir::Operation& op) {
        if (op.op() == ir::Op::LoadPtrTko) all.push_back(analysis::vector_bytes(op, known));
      });
    }
    return all;
  };
  passes::Tuning off;
  off.order_gathers = false;
  EXPECT_EQ(bytes_of_loads(passed<&mirrored>({{32, 64}, {32, 64}}, off)), std::vector<std::int64_t>{4});
  EXPECT_EQ(bytes_of_loads(passed<&interpolated>({{2, 32, 64}, {2, 32, 64}}, off)), (std::vector<std::int64_t>{4, 4}));
}

}  // namespace THIS_FILE
}  // namespace tessera::test
