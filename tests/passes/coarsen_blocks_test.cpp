// Blocks of several pieces: what kernels become, that they compute the same numbers with a last block that is not full,
// which are left alone, and when it is done without a request.
#include <cmath>
#include <limits>

#include "passes/passed.hpp"
#include "tessera/base/error.hpp"

namespace tessera::test {
namespace THIS_FILE {

/// `K` after all passes for sm_90, for launches with tensors of these extents.
template <auto K>
Passed coarsened(const std::vector<std::vector<std::int64_t>>& dims, std::optional<int> pieces,
                 const char* stop_after = "") {
  passes::Tuning tuning;
  tuning.pieces = pieces;
  return passed<K>(dims, tuning, stop_after);
}

/// With several pieces a block.
template <auto K, class... A>
void expect_same_in_pieces(int blocks, const A&... arguments) {
  for (const int pieces : {2, 4, 8, 32}) {
    passes::Tuning tuning;
    tuning.pieces = pieces;
    ASSERT_EQ((expect_same<K>(tuning, blocks, arguments...).choices.abi.pieces), pieces);
  }
}

/// Numbers that differ, some negative.
void softmax_row(Mut<f32, 1, 32> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y, pad::neg_inf);
  t = exp(t - max(t, axis<1>));
  y.store(t / sum(t, axis<1>));
}
void scale_rows(Mut<f32, 1, 16> y, In<f32, dyn, dyn> x, In<f32, dyn> weight, Scalar<f32> factor) {
  y.store(x.load_like(y) * reshape(weight.tiles(shape<16>).load(0), shape<1, 16>) * factor);
}
/// Pieces along two axes, shape operations, and a scan; the number of the piece among the numbers.
void shapes(Mut<f32, 1, 2, 8> y, In<f32, dyn, dyn, dyn> x) {
  auto [b, s, k] = y.index();
  auto t = transpose(cat(x.load_like(y), x.load_like(y) + cast<f32>(s * 3 + b), axis<1>));
  auto part = extract(t, shape<1, 8, 2>, 0, 0, 1);
  y.store(transpose(cumsum(part, axis<1>)));
}

TEST(CoarsenBlocks, RowsBecomeATileOfRows) {
  const Passed one = coarsened<&softmax_row>({{100, 30}, {100, 30}}, 1, "coarsen_blocks");
  const Passed eight = coarsened<&softmax_row>({{100, 30}, {100, 30}}, 8, "coarsen_blocks");
  const std::string before = ir::print(*one.module), after = ir::print(*eight.module);
  EXPECT_EQ(one.choices.abi.pieces, 1);
  EXPECT_EQ(eight.choices.abi.pieces, 8);
  EXPECT_NE(before.find("exp %"), std::string::npos);
  EXPECT_EQ(before.find("tile<8x1x32xf32>"), std::string::npos) << before;
  EXPECT_NE(after.find("tile<8x1x32xf32>"), std::string::npos) << after;
  EXPECT_NE(after.find("dim=2"), std::string::npos) << "the reduction's axis moves on: " << after;
  EXPECT_EQ(count(*eight.module, ir::Op::LoadPtrTko), 1);
  EXPECT_EQ(count(*eight.module, ir::Op::StorePtrTko), 1);
}

TEST(CoarsenBlocks, ComputesTheSame) {
  for (const int rows : {1, 7, 8, 33, 100}) {
    const std::int64_t n = rows;
    expect_same_in_pieces<&softmax_row>(rows, Array<float>({n, 30}, 5), Array<float>({n, 30}).each(number));
    expect_same_in_pieces<&scale_rows>(rows, Array<float>({n, 16}, 5), Array<float>({n, 16}).each(number),
                                       Array<float>({16}).each(number), 1.5f);
    expect_same_in_pieces<&shapes>(3 * rows, Array<float>({3, 2 * n, 8}, 5), Array<float>({3, 2 * n, 8}).each(number));
  }
}

// ---- loops, branches, gathers, atomics ------------------------------------------------------------------------------

void sums_in_loops(Mut<f32, 1> y, In<f32, dyn, dyn> x, Scalar<i32> n) {
  auto X = x.tiles(shape<1, 4>);
  auto [row] = y.index();
  auto total = zeros<f32, 1>();
  for (auto k : range(n)) {
    tile_if (k % 2 == 0) { total += reshape(sum(X.load(row, k), axis<1>), shape<1>); }
  }
  y.store(total);
}
TEST(CoarsenBlocks, LoopsAndBranchesThatAreTheSameForAllPieces) {
  for (const int rows : {5, 16})
    expect_same_in_pieces<&sums_in_loops>(rows, Array<float>({rows}, 5), Array<float>({rows, 18}).each(number), 5);
}

void gather_rows(Mut<f32, 1, 8> y, In<f32, dyn, dyn> table, In<i32, dyn> index) {
  auto [row, column] = y.index();
  const Scalar<i32> from = reshape(index.tiles(shape<1>).load(row), shape<>);
  y.store(table.tiles(shape<1, 8>).load(from, column));
}
TEST(CoarsenBlocks, TilesAtNumbersThatWereLoaded) {
  Array<std::int32_t> index({13});
  index.each([](std::int64_t i) { return static_cast<std::int32_t>((i * 5) % 9 - 1); });  // -1 and 7: outside
  expect_same_in_pieces<&gather_rows>(13, Array<float>({13, 8}, 5), Array<float>({7, 8}).each(number), index);
}

void branch_of_block(Mut<f32, 1, 8> y, In<f32, dyn, dyn> x, In<f32, dyn> every) {
  auto t = x.load_like(y);
  auto [row, column] = y.index();
  tile_if (row % 3 == 0) {
    t = t * reshape(every.tiles(shape<1>).load(row / 3), shape<>);
    tile_if (row % 2 == 0) {
      t = -t;
    } else {
      t = t + reshape(every.tiles(shape<1>).load(0), shape<>);
    }
  } else {
    tile_if (row > 5) { y.store(t + 1.0f); }
  }
  tile_if (row % 3 == 0) { y.store(t); }
}
TEST(CoarsenBlocks, BranchesThatSomePiecesTake) {
  for (const std::int64_t rows : {4, 21})
    expect_same_in_pieces<&branch_of_block>(static_cast<int>(rows), Array<float>({rows, 8}, 5),
                                            Array<float>({rows, 8}).each(number),
                                            Array<float>({rows / 4}).each(number));
}

/// Assumes that n is at least 1 in a branch that no claim decides, on the piece's number or on another one. `Inner`: in
/// a branch there.
template <bool OfPieces, bool Inner>
void assumes_in_a_branch(Mut<f32, 1, 8> y, In<f32, dyn, dyn> x, Scalar<i32> n, Scalar<i32> m) {
  auto t = x.load_like(y);
  auto [row, column] = y.index();
  auto factor = Tile<i32>(0);
  tile_if (((OfPieces ? row : m) ^ 1) < n) {
    if constexpr (Inner) {
      tile_if ((m ^ 1) > 3) { factor = max(unsafe_::assume(n, unsafe_::bounded(1, 1000)), 1); }
    } else {
      factor = max(unsafe_::assume(n, unsafe_::bounded(1, 1000)), 1);
    }
  }
  y.store(t * cast<f32>(factor));
}
template <auto K>
int assumptions_after(const char* pass) {
  const Passed c = coarsened<K>({{64, 8}, {64, 8}}, 4, pass);
  int n = 0;
  ir::walk(c.module->functions[0]->body(), [&](const ir::Operation& op) {
    const auto* bounds = op.op() == ir::Op::Assume ? op.attr(ir::AttrName::predicate)->as<ir::BoundedAttr>() : nullptr;
    n += bounds != nullptr && bounds->upper == 1000 ? 1 : 0;
  });
  return n;
}
TEST(CoarsenBlocks, WhatAnArmAssumesDoesNotLeaveIt) {
  EXPECT_EQ((assumptions_after<&assumes_in_a_branch<true, false>>("bound_loops")), 1);
  EXPECT_EQ((assumptions_after<&assumes_in_a_branch<true, false>>("coarsen_blocks")), 0);
  EXPECT_EQ((assumptions_after<&assumes_in_a_branch<true, true>>("bound_loops")), 1);
  EXPECT_EQ((assumptions_after<&assumes_in_a_branch<true, true>>("coarsen_blocks")), 0);
  EXPECT_EQ((assumptions_after<&assumes_in_a_branch<false, false>>("coarsen_blocks")), 1)
      << "all pieces take it, or none";
  EXPECT_EQ((assumptions_after<&assumes_in_a_branch<false, true>>("coarsen_blocks")), 1);
  for (const std::int32_t n : {-3, 0, 5, 100}) {
    expect_same_in_pieces<&assumes_in_a_branch<true, false>>(21, Array<float>({21, 8}, 5),
                                                             Array<float>({21, 8}).each(number), n, 7);
    expect_same_in_pieces<&assumes_in_a_branch<true, true>>(21, Array<float>({21, 8}, 5),
                                                            Array<float>({21, 8}).each(number), n, 7);
  }
}

void count_rows(Mut<i32, 1, 4> y, Acc<i32, dyn> sums, In<i32, dyn, dyn> x) {
  const auto t = x.load_like(y);
  sums.add(iota<i32, 4>(), reshape(t, shape<4>));
  sums.add(iota<i32, 4>() + reshape(t, shape<4>) - 1, 1);  // a row of ones; of zeros, beside
  y.store(t);
}
TEST(CoarsenBlocks, SumsOfAllBlocksCountEachPieceOnce) {
  const Recorded r = recorded<&count_rows>();
  for (const std::int64_t rows : {3, 8, 11}) {
    const Passed c = coarsened<&count_rows>({{rows, 4}, {4}, {rows, 4}}, 8);
    ASSERT_EQ(c.choices.abi.pieces, 8);
    Array<std::int32_t> y({rows, 4}), sums({4}), x({rows, 4}, 1);
    Slots slots;
    slots.add(y);
    slots.add(sums);
    slots.add(x);
    auto values = slots.values();
    if (c.choices.abi.launch_flags) values.push_back(0);
    cpu::Program::compile(*c.module)->run({static_cast<std::uint32_t>((rows + 7) / 8), 1, 1}, values, {});
    for (const std::int32_t s : sums.data) EXPECT_EQ(s, 2 * rows);
  }
}

// ---- what is left alone ---------------------------------------------------------------------------------------------

template <auto K>
int pieces_of(const std::vector<std::vector<std::int64_t>>& dims, std::optional<int> asked = 4) {
  return coarsened<K>(dims, asked).choices.abi.pieces;
}

void loop_of_block(Mut<f32, 1, 8> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  auto [row, column] = y.index();
  for (auto k : range(row)) t = t * 0.5f + cast<f32>(k);
  y.store(t);
}
void loop_in_a_branch(Mut<f32, 1, 8> y, In<f32, dyn, dyn> x, Scalar<i32> n) {
  auto t = x.load_like(y);
  auto [row, column] = y.index();
  tile_if (row % 2 == 0) {
    for (auto k : range(n)) t = t * 0.5f + cast<f32>(k);
  }
  y.store(t);
}
void counts_blocks(Mut<f32, 1, 8> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y) + cast<f32>(num_blocks())); }
void checks(Mut<f32, 1, 8> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  check(t >= 0.0f, "a negative number");
  y.store(t);
}
void product(Mut<f32, 16, 16> y, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  auto [i, j] = y.index();
  y.store(mma(a.tiles(shape<16, 16>).load(i, 0), b.tiles(shape<16, 16>).load(0, j), zeros<f32, 16, 16>()));
}
void persistent(MutTiles<f32, 1, 8> y, In<f32, dyn, dyn> x) {
  for (auto tile : y) tile.store(x.load_like(tile));
}
void plain(Mut<f32, 1, 8> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y)); }

TEST(CoarsenBlocks, WhatDependsOnSingleBlocksIsLeftAlone) {
  const std::vector<std::vector<std::int64_t>> rows{{64, 8}, {64, 8}};
  EXPECT_EQ(pieces_of<&plain>(rows), 4) << "the twin";
  EXPECT_EQ(pieces_of<&loop_in_a_branch>(rows), 1) << "a loop that some pieces do not come to";
  EXPECT_EQ(pieces_of<&loop_of_block>(rows), 1) << "a loop up to the block's number";
  EXPECT_EQ(pieces_of<&counts_blocks>(rows), 1) << "the number of blocks shows";
  EXPECT_EQ(pieces_of<&checks>(rows), 1) << "a failed check names its block";
  EXPECT_EQ(pieces_of<&product>({{64, 64}, {64, 16}, {16, 64}}), 1) << "products fill a block";
  EXPECT_EQ(pieces_of<&persistent>(rows), 1) << "blocks take as many tiles as there are anyway";
}

TEST(CoarsenBlocks, NumbersOutOfRangeAreRejected) {
  for (const int pieces : {0, 3, 64, -4})
    EXPECT_THROW(pieces_of<&plain>({{64, 8}, {64, 8}}, pieces), CompileError) << pieces;
}

// ---- without being asked --------------------------------------------------------------------------------------------

template <int N>
void copy_row(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  y.store(x.load_like(y));
}
void sums_of_row(Mut<f32, 1, 64> y, In<f32, dyn, dyn> x) { y.store(cumsum(x.load_like(y), axis<1>)); }
void in_a_loop(Mut<f32, 1, 64> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<1, 64>);
  auto [row, column] = y.index();
  auto t = X.load(row, 0);
  for (auto k : range(1, X.count(1))) t = t + X.load(row, k);
  y.store(t);
}
TEST(CoarsenBlocks, IsNotDoneForScansAndLoadsInLoopsUnlessAsked) {
  const std::vector<std::vector<std::int64_t>> rows{{100000, 64}, {100000, 64}};
  EXPECT_EQ(pieces_of<&sums_of_row>(rows, std::nullopt), 1);
  EXPECT_EQ(pieces_of<&sums_of_row>(rows), 4);
  EXPECT_EQ(pieces_of<&in_a_loop>(rows, std::nullopt), 1);
  EXPECT_EQ(pieces_of<&in_a_loop>(rows), 4);
}

TEST(CoarsenBlocks, IsDoneWherePiecesAreSmallAndMany) {
  const auto chosen = [](auto kernel, std::int64_t rows, std::int64_t n) {
    return pieces_of<kernel()>({{rows, n}, {rows, n}}, std::nullopt);
  };
  const auto short_row = [] { return &copy_row<64>; };
  const auto row = [] { return &copy_row<256>; };
  const auto long_row = [] { return &copy_row<512>; };
  EXPECT_EQ(chosen(short_row, 100000, 64), 16) << "256 bytes each: 4096 a block";
  EXPECT_EQ(chosen(row, 100000, 256), 4);
  EXPECT_EQ(chosen(long_row, 100000, 512), 1) << "2048 bytes keep the memory busy";
  EXPECT_EQ(chosen(short_row, 16384, 64), 16);
  EXPECT_EQ(chosen(short_row, 16383, 64), 1) << "few blocks: more of them are faster";
  const Recorded r = recorded<&copy_row<64>>();
  EXPECT_NE(r.obligations().find("16384 <= "), std::string::npos) << r.obligations();
}

void norm_row(Mut<bf16, 1, 1024> y, In<bf16, dyn, dyn> x, In<bf16, dyn> weight) {
  auto t = cast<f32>(x.load_like(y));
  auto w = cast<f32>(reshape(weight.tiles(shape<1024>).load(0), shape<1, 1024>));
  y.store(cast<bf16>(t * rsqrt(sum(t * t, axis<1>)) * w));
}
void norm_row_without_weights(Mut<bf16, 1, 1024> y, In<bf16, dyn, dyn> x) {
  auto t = cast<f32>(x.load_like(y));
  y.store(cast<bf16>(t * rsqrt(sum(t * t, axis<1>))));
}
void scale_row(Mut<bf16, 1, 1024> y, In<bf16, dyn, dyn> x, In<bf16, dyn> weight) {
  y.store(x.load_like(y) * reshape(weight.tiles(shape<1024>).load(0), shape<1, 1024>));
}
/// Seven tensors of 512 bytes for each row.
void many_short_rows(Mut<bf16, 1, 256> y, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b, In<bf16, dyn, dyn> c,
                     In<bf16, dyn, dyn> d, In<bf16, dyn, dyn> e, In<bf16, dyn, dyn> weights) {
  auto t = cast<f32>(a.load_like(y)) + cast<f32>(b.load_like(y)) + cast<f32>(c.load_like(y)) +
           cast<f32>(d.load_like(y)) + cast<f32>(e.load_like(y));
  for (int i = 0; i < 2; ++i) t = t * cast<f32>(weights.load_at(shape<1, 256>, i, 0));
  y.store(cast<bf16>(t * rsqrt(sum(t * t, axis<1>))));
}
TEST(CoarsenBlocks, LongerRowsAreTakenTwoByTwoIfTheyShareWeights) {
  const auto chosen = [](auto kernel, std::int64_t n) {
    return pieces_of<kernel()>({{100000, n}, {100000, n}, {n}}, std::nullopt);
  };
  const auto norm = [] { return &norm_row; };
  const auto scaled = [] { return &scale_row; };
  EXPECT_EQ(chosen(norm, 640), 2);
  EXPECT_EQ(chosen(norm, 1016), 2);
  EXPECT_EQ(chosen(norm, 641), 1) << "narrow accesses";
  EXPECT_EQ(chosen(norm, 1024), 1) << "4096 bytes keep the memory busy";
  const std::vector<std::int64_t> row{100000, 256};
  EXPECT_EQ((pieces_of<&many_short_rows>({row, row, row, row, row, row, {2, 256}}, std::nullopt)), 2);
  EXPECT_EQ(chosen(scaled, 768), 1) << "nothing is reduced";
  EXPECT_EQ(chosen(scaled, 640), 4) << "2560 bytes, as far as the launch knows";
  EXPECT_EQ((pieces_of<&norm_row_without_weights>({{100000, 768}, {100000, 768}}, std::nullopt)), 1);
  EXPECT_EQ((pieces_of<&norm_row_without_weights>({{100000, 640}, {100000, 640}}, std::nullopt)), 2);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
