// A grid of several axes instead of divisions: every block finds the piece that it had, no division is left, the
// launcher is told the right axes, and what is left alone.
#include "passes/passed.hpp"
#include "tessera/passes/passes.hpp"
#include "tessera/passes/predicates.hpp"

namespace tessera::test {
namespace THIS_FILE {

using analysis::Claim;
using calling::GridAxes;
using calling::GridAxis;
using ir::Op;

/// One piece a block: nothing is coarsened.
passes::Tuning one_piece(bool grid_axes = true) {
  passes::Tuning t;
  t.pieces = 1;
  t.grid_axes = grid_axes;
  return t;
}

/// Divisions and remainders of scalars by what is no constant.
int divisions(const ir::Module& module) {
  int n = 0;
  ir::walk(module.functions[0]->body(), [&](const ir::Operation& op) {
    if (op.op() != Op::DivI && op.op() != Op::RemI) return;
    const ir::Operation* by = op.operand(1).def();
    n += op.result().type().rank() == 0 && (by == nullptr || by->op() != Op::Constant) ? 1 : 0;
  });
  return n;
}

/// How many pieces of these extents there are.
int pieces_of(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& piece) {
  std::int64_t n = 1;
  for (std::size_t a = 0; a < dims.size(); ++a) n *= (dims[a] + piece[a] - 1) / piece[a];
  return static_cast<int>(n);
}

/// Numbers that differ.
std::int32_t number(std::int64_t i) { return static_cast<std::int32_t>(i * 37 % 1009); }
Array<std::int32_t> numbers(const std::vector<std::int64_t>& dims) { return Array<std::int32_t>(dims).each(number); }
Array<std::int32_t> sevens(const std::vector<std::int64_t>& dims) { return Array<std::int32_t>(dims, 7); }

// ---- the same pieces ------------------------------------------------------------------------------------------------

/// Pieces of these extents, and a tensor with as many axes.
template <int... E>
struct Of {
  template <int>
  static constexpr int any = dyn;
  using Out = Mut<i32, E...>;
  using Like = In<i32, any<E>...>;
};

/// The index of the piece, whose digits are below 100, and the block's number tell each piece from all others.
template <int... E>
void indexed(typename Of<E...>::Out y, typename Of<E...>::Like x) {
  auto where = Tile<i32>(0);
  for (const auto& along : y.index()) where = where * 100 + along;
  y.store(x.load_like(y) + where);
}
template <int... E>
void with_number(typename Of<E...>::Out y, typename Of<E...>::Like x) {
  const Tile<i32> block = block_id<1>();
  y.store(x.load_like(y) + block * 10000 + num_blocks());
}
/// In a kernel with pieces, blocks have one coordinate that counts.
template <int... E>
void with_coordinates(typename Of<E...>::Out y, typename Of<E...>::Like x) {
  const auto [i, j, k] = block_id<3>();
  y.store(x.load_like(y) + i + j * 10000 + k * 20000);
}

enum class Divides { No, Yes };  ///< whether divisions are left
struct Case {
  std::vector<std::int64_t> dims;
  Divides left = Divides::No;
  bool used = true;
};

/// `K` of one Mut and one In of these extents, over a grid of several axes.
template <auto K, int... E>
void expect_same_with(const std::vector<Case>& cases) {
  const std::vector<std::int64_t> piece{E...};
  const Recorded r = recorded<K>();
  for (const Case& c : cases) {
    const int blocks = pieces_of(c.dims, piece);
    const Passed p = expect_same(r, one_piece(), blocks, sevens(c.dims), numbers(c.dims));
    EXPECT_EQ(p.choices.abi.grid.used, c.used) << testing::PrintToString(c.dims);
    const Passed off = expect_same(r, one_piece(false), blocks, sevens(c.dims), numbers(c.dims));
    EXPECT_FALSE(off.choices.abi.grid.used);
    if (!c.used) continue;
    EXPECT_EQ(divisions(*p.module) != 0, c.left == Divides::Yes) << ir::print(*p.module);
    EXPECT_GT(divisions(*off.module), divisions(*p.module)) << "the twin divides";
  }
}
template <int... E>
void expect_same_pieces(const std::vector<Case>& cases) {
  expect_same_with<&indexed<E...>, E...>(cases);
  expect_same_with<&with_number<E...>, E...>(cases);
  expect_same_with<&with_coordinates<E...>, E...>(cases);
}

TEST(UseGridAxes, PiecesOfTwoAxes) {
  expect_same_pieces<4, 8>({{{8, 24}},   // 2 rows of 3
                            {{24, 16}},  // 6 rows of 2
                            {{9, 25}},   // no extent is a multiple: 3 rows of 4
                            {{3, 70}},   // one row, of 9
                            {{20, 40}},  // as many along both
                            {{4, 9}}});
  expect_same_pieces<1, 8>({{{13, 20}}});
  expect_same_pieces<1, 1>({{{5, 7}}});
}

TEST(UseGridAxes, PiecesOfThreeAxes) {
  expect_same_pieces<2, 4, 8>({{{6, 8, 40}},     // 3 x 2 x 5
                               {{10, 12, 16}},   // 5 x 3 x 2
                               {{5, 9, 25}},     // 3 x 3 x 4, no multiples
                               {{2, 20, 17}},    // 1 x 5 x 3
                               {{7, 3, 30}},     // 4 x 1 x 4
                               {{6, 12, 24}}});  // 3 along each
  expect_same_pieces<1, 1, 16>({{{3, 4, 33}}});
}

TEST(UseGridAxes, PiecesOfFourAxes) {
  // What the first two share z, which is divided as before.
  expect_same_pieces<1, 2, 4, 8>({{{3, 4, 20, 24}, Divides::Yes},   // 3 x 2 x 5 x 3
                                  {{2, 5, 7, 9}, Divides::Yes},     // 2 x 3 x 2 x 2, no multiples
                                  {{2, 4, 8, 16}, Divides::Yes}});  // 2 along each
  expect_same_pieces<1, 2, 4, 8>({{{3, 2, 20, 24}, Divides::No},    // one along an axis: of the rest nothing is left
                                  {{1, 6, 8, 33}, Divides::Yes},    // the first is what the division leaves
                                  {{3, 4, 4, 24}, Divides::Yes}});  // 3 x 2 x 1 x 3
}

TEST(UseGridAxes, OnePieceAlongAnAxis) {
  expect_same_pieces<4, 8>({{{40, 8}}, {{40, 5}}, {{4, 40}}, {{3, 8}}});
  expect_same_pieces<2, 4, 8>({{{6, 20, 8}}, {{6, 3, 40}}, {{2, 20, 40}}, {{6, 4, 8}}, {{1, 4, 3}}});
  expect_same_pieces<1, 2, 4, 8>({{{3, 4, 20, 8}, Divides::Yes}, {{1, 2, 4, 8}}});
}

/// Where rows are known to fit into one piece, nothing divides by the pieces along them.
TEST(UseGridAxes, RowsThatFitIntoOnePiece) {
  expect_same_pieces<2, 1024>({{{9, 1000}, Divides::No, false}, {{9, 1025}}});
  expect_same_pieces<1, 2, 1024>({{{3, 8, 1000}}, {{3, 8, 1025}}, {{3, 1, 1000}, Divides::No, false}});
  // With four axes the last has to count fastest.
  expect_same_pieces<1, 2, 1, 1024>({{{3, 4, 2, 1000}, Divides::Yes, false}, {{3, 4, 2, 1025}, Divides::Yes}});
}

/// Reads beyond the piece on all sides.
void neighbours(Mut<f32, 4, 8> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = -4.0f * x.load_like(y);
  for (int d : {-1, 1}) s += x.load_at(shape<4, 8>, i + d, j) + x.load_at(shape<4, 8>, i, j + d);
  y.store(s);
}
void neighbours_of_three(Mut<f32, 2, 2, 8> y, In<f32, dyn, dyn, dyn> x) {
  auto [i, j, k] = y.origin();
  auto s = x.load_like(y);
  for (int d : {-1, 1}) {
    s += x.load_at(shape<2, 2, 8>, i + d, j, k) * 3.0f + x.load_at(shape<2, 2, 8>, i, j + d, k) * 5.0f;
    s += x.load_at(shape<2, 2, 8>, i, j, k + d) * 7.0f;
  }
  y.store(s);
}
TEST(UseGridAxes, NeighboursOfPieces) {
  const auto small = [](std::int64_t i) { return static_cast<float>(number(i)) / 8.0f; };
  for (const std::vector<std::int64_t>& dims : std::vector<std::vector<std::int64_t>>{{8, 40}, {30, 29}, {1, 17}}) {
    const Passed p = expect_same<&neighbours>(one_piece(), pieces_of(dims, {4, 8}), Array<float>(dims, 5),
                                              Array<float>(dims).each(small));
    EXPECT_TRUE(p.choices.abi.grid.used);
    EXPECT_EQ(divisions(*p.module), 0);
  }
  for (const std::vector<std::int64_t>& dims : std::vector<std::vector<std::int64_t>>{{4, 6, 40}, {5, 3, 29}}) {
    const Passed p = expect_same<&neighbours_of_three>(one_piece(), pieces_of(dims, {2, 2, 8}), Array<float>(dims, 5),
                                                       Array<float>(dims).each(small));
    EXPECT_TRUE(p.choices.abi.grid.used);
    EXPECT_EQ(divisions(*p.module), 0);
  }
}

/// What load_like requires to be the same is one number.
template <auto K>
Recorded with_same_extents() {
  Recorded r = recorded<K>();
  for (const lang::SameExtent& e : r.trace.same_extents) r.contract.equal_args.push_back({e.loaded.slot, e.piece.slot});
  r.facts = analysis::Facts::analyze(*r.trace.module, r.contract, passes::predicate_table());
  return r;
}

void two_outputs(Mut<i32, 2, 8> y, Mut<i32, 2, 8> z, In<i32, dyn, dyn> x) {
  auto [i, j] = y.index();
  auto [k, l] = z.index();
  y.store(x.load_like(y) + 100 * i + j);
  z.store(z.load() - 100 * k - l);
}
void two_outputs_of_three(Mut<i32, 1, 2, 8> y, Mut<i32, 1, 2, 8> z) {
  auto [i, j, k] = y.index();
  auto [l, m, n] = z.index();
  y.store(y.load() + 10000 * i + 100 * j + k);
  z.store(z.load() - 10000 * l - 100 * m - n);
}
TEST(UseGridAxes, TwoOutputsOfEqualShape) {
  for (const std::vector<std::int64_t>& dims : std::vector<std::vector<std::int64_t>>{{6, 40}, {7, 20}, {8, 32}}) {
    const int blocks = pieces_of(dims, {2, 8});
    // Of the second output the checker does not know that it has as many pieces along each axis: that block divides.
    const Passed apart = expect_same<&two_outputs>(one_piece(), blocks, sevens(dims), numbers(dims), numbers(dims));
    EXPECT_TRUE(apart.choices.abi.grid.used);
    EXPECT_GT(divisions(*apart.module), 0);
    Recorded r = with_same_extents<&two_outputs>();
    r.contract.equal_args.push_back({1, 6});
    r.contract.equal_args.push_back({2, 7});
    r.facts = analysis::Facts::analyze(*r.trace.module, r.contract, passes::predicate_table());
    const Passed same = expect_same(r, one_piece(), blocks, sevens(dims), numbers(dims), numbers(dims));
    EXPECT_TRUE(same.choices.abi.grid.used);
    EXPECT_EQ(divisions(*same.module), 0) << "they are the same";
  }
  const std::vector<std::int64_t> dims{3, 6, 32};
  const Passed p =
      expect_same<&two_outputs_of_three>(one_piece(), pieces_of(dims, {1, 2, 8}), sevens(dims), numbers(dims));
  EXPECT_TRUE(p.choices.abi.grid.used);
}

/// Divides its number by the pieces along the first axis itself, there and in a loop and a branch.
template <int... E>
void by_columns(typename Of<E...>::Out y, typename Of<E...>::Like x, Scalar<i32> n) {
  const auto block = cast<u32>(block_id<1>()), rows = cast<u32>(y.count(0));
  auto sum = cast<i32>(block % rows) + 100 * cast<i32>(block / rows);
  for (auto k : range(n)) {
    sum += k * cast<i32>(block / rows);
    tile_if (k == 1) { sum += 7 * cast<i32>(block % rows); }
  }
  y.store(x.load_like(y) + sum);
}
TEST(UseGridAxes, ABlockThatDividesItsNumberItself) {
  struct Launch {
    std::vector<std::int64_t> dims;
    int left;  ///< divisions
  };
  const auto run = [](const Recorded& r, const std::vector<std::int64_t>& piece, const Launch& of) {
    const Passed p =
        expect_same(r, one_piece(), pieces_of(of.dims, piece), sevens(of.dims), numbers(of.dims), std::int32_t{4});
    EXPECT_TRUE(p.choices.abi.grid.used) << testing::PrintToString(of.dims);
    EXPECT_EQ(divisions(*p.module), of.left) << testing::PrintToString(of.dims) << ir::print(*p.module);
    return p.choices.abi.grid;
  };
  const Recorded two = recorded<&by_columns<4, 8>>(), three = recorded<&by_columns<2, 4, 8>>();
  const Recorded four = recorded<&by_columns<1, 2, 4, 8>>();
  // Row by row of pieces they are numbered: what divides by the rows stays a division.
  EXPECT_EQ(run(two, {4, 8}, {{12, 24}, 2}).y, (GridAxis{2, 8}));
  EXPECT_EQ(run(three, {2, 4, 8}, {{6, 16, 24}, 2}).x, (GridAxis{3, 8}));
  run(four, {1, 2, 4, 8}, {{3, 4, 8, 24}, 4});
  // Along the others there is one piece, and nothing else divides.
  const GridAxes rows = run(recorded<&by_columns<2, 1024>>(), {2, 1024}, {{9, 1000}, 0});
  EXPECT_EQ(rows, (GridAxes{true, {}, {1, 2}}));
  const GridAxes of_three = run(recorded<&by_columns<1, 1024, 1024>>(), {1, 1024, 1024}, {{3, 1000, 1000}, 0});
  EXPECT_EQ(of_three, (GridAxes{true, {1, 1}, {3, 1024}})) << "along z lies the second axis";
}

/// Divides what its number leaves by the pieces along one axis by those along another.
template <int First, int Second, int... E>
void by_two(typename Of<E...>::Out y, typename Of<E...>::Like x) {
  const auto rest = cast<u32>(block_id<1>()) / cast<u32>(y.count(First)), count = cast<u32>(y.count(Second));
  y.store(x.load_like(y) + cast<i32>(rest / count) + 100 * cast<i32>(rest % count));
}
TEST(UseGridAxes, ABlockThatDividesTheQuotientItself) {
  const auto grid = [](const Recorded& r, const std::vector<std::int64_t>& piece, const std::vector<std::int64_t>& dims,
                       int left) {
    const Passed p = expect_same(r, one_piece(), pieces_of(dims, piece), sevens(dims), numbers(dims));
    EXPECT_EQ(divisions(*p.module), left) << ir::print(*p.module);
    return p.choices.abi.grid;
  };
  // By the axis in the middle nothing divides where it has one piece, known as such: the first lies along y.
  EXPECT_EQ(grid(recorded<&by_two<2, 0, 1, 1024, 8>>(), {1, 1024, 8}, {3, 1000, 36}, 0),
            (GridAxes{true, {3, 8}, {1, 1}}));
  EXPECT_EQ(grid(recorded<&indexed<1, 1024, 8>>(), {1, 1024, 8}, {3, 1000, 36}, 0), (GridAxes{true, {3, 8}, {2, 1024}}))
      << "nothing divides the quotient";
  // The axis that lies along x does not lie along y as well.
  EXPECT_EQ(grid(recorded<&by_two<2, 2, 2, 4, 8>>(), {2, 4, 8}, {10, 12, 12}, 2), (GridAxes{true, {3, 8}, {2, 4}}));
}

/// Quotients of the block's number by the pieces along the last axis that are left, for each way of rounding.
TEST(UseGridAxes, QuotientsThatAreRoundedUpAreLeft) {
  const Recorded r = recorded<&indexed<4, 8>>();
  for (const auto rounding : {ir::Rounding::Zero, ir::Rounding::PositiveInf})
    for (const auto sign : {ir::Signedness::Unsigned, ir::Signedness::Signed}) {
      const auto module = ir::clone(*r.trace.module);
      ir::Function& f = *module->functions[0];
      const ir::Operation* quotient = nullptr;
      ir::walk(f.body(), [&](ir::Operation& op) {
        const ir::Operation* of = op.op() == Op::DivI ? op.operand(0).def() : nullptr;
        if (of == nullptr || of->op() != Op::GetTileBlockId) return;
        op.set_attr(ir::AttrName::rounding, rounding);
        op.set_attr(ir::AttrName::signedness, sign);
        quotient = &op;
      });
      ASSERT_NE(quotient, nullptr);
      passes::Choices choices;
      const Certifying certifier(r, r.held({{64, 64}, {64, 64}}));
      EXPECT_TRUE(passes::use_grid_axes(f, &r.contract, true, &certifier, choices)) << "of a remainder nothing is left";
      EXPECT_EQ(problems(*module), "");
      const bool is_floor = rounding == ir::Rounding::Zero && sign == ir::Signedness::Unsigned;
      EXPECT_EQ(divisions(*module), is_floor ? 0 : 1) << ir::print(*module);
    }
}

/// A number divided by what is no count of pieces, though often as large.
void by_others(Mut<i32, 4, 8> y, In<i32, dyn, dyn> x, Scalar<i32> n) {
  const auto block = cast<u32>(block_id<1>());
  const auto like = cast<u32>(x.dim(1) + 7) / 8u, half = cast<u32>(y.count(1)) * 2u;
  const auto others = block / cast<u32>(n) + block % like + block / half + block % cast<u32>(y.dim(1));
  y.store(x.load_at(shape<4, 8>, 0, 0) + cast<i32>(others));
}
TEST(UseGridAxes, OtherDivisionsOfTheNumberStay) {
  for (const std::int32_t n : {1, 3, 5}) {
    const Passed p = expect_same<&by_others>(one_piece(), 15, sevens({12, 40}), numbers({4, 24}), n);
    EXPECT_TRUE(p.choices.abi.grid.used);
    EXPECT_EQ(divisions(*p.module), n == 1 ? 3 : 4) << "by n, unless it is 1\n" << ir::print(*p.module);
  }
}

// ---- what the launcher is told --------------------------------------------------------------------------------------

/// Its pieces are of the second parameter.
template <int... E>
void second(typename Of<E...>::Like x, typename Of<E...>::Out y) {
  y.store(x.load_like(y));
}
template <auto K>
GridAxes grid_for(const std::vector<std::vector<std::int64_t>>& dims, const passes::Tuning& tuning = one_piece()) {
  return passed<K>(dims, tuning).choices.abi.grid;
}

TEST(UseGridAxes, TheLastAxisCountsFastest) {
  const std::vector<std::int64_t> two{64, 64}, three{8, 64, 64}, four{4, 8, 64, 64}, five{2, 4, 8, 64, 64};
  EXPECT_EQ((grid_for<&indexed<4, 8>>({two, two})), (GridAxes{true, {}, {2, 8}})) << "to know its x a block divides";
  EXPECT_EQ((grid_for<&indexed<2, 4, 8>>({three, three})), (GridAxes{true, {3, 8}, {2, 4}}));
  EXPECT_EQ((grid_for<&indexed<1, 2, 4, 8>>({four, four})), (GridAxes{true, {4, 8}, {3, 4}}));
  EXPECT_EQ((grid_for<&indexed<1, 1, 2, 4, 8>>({five, five})), (GridAxes{true, {5, 8}, {4, 4}}));
  EXPECT_EQ((grid_for<&second<4, 8>>({two, two})), (GridAxes{true, {}, {7, 8}}));
  EXPECT_EQ((grid_for<&second<2, 4, 8>>({three, three})), (GridAxes{true, {10, 8}, {9, 4}}));
}

// ---- what is left alone ---------------------------------------------------------------------------------------------

void rows_of(Mut<i32, 8> y, In<i32, dyn> x, Scalar<i32> n) {
  const auto block = cast<u32>(block_id<1>());
  y.store(x.load_like(y) + cast<i32>(block / cast<u32>(n)) + cast<i32>(block % cast<u32>(y.count(0))));
}
void checks(Mut<i32, 4, 8> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  check(t >= 0, "a negative number");
  y.store(t);
}
void product(Mut<f32, 16, 16> y, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  auto [i, j] = y.index();
  y.store(mma(a.tiles(shape<16, 16>).load(i, 0), b.tiles(shape<16, 16>).load(0, j), zeros<f32, 16, 16>()));
}
void persistent(MutTiles<i32, 4, 8> y, In<i32, dyn, dyn> x) {
  for (auto tile : y) tile.store(x.load_like(tile));
}

TEST(UseGridAxes, WhatHasNoPiecesOfSeveralAxesIsLeftAlone) {
  const std::vector<std::vector<std::int64_t>> two{{64, 64}, {64, 64}};
  EXPECT_TRUE((grid_for<&indexed<4, 8>>(two).used)) << "the twin";
  EXPECT_FALSE(grid_for<&rows_of>({{64}, {64}}).used) << "one axis";
  EXPECT_FALSE(grid_for<&persistent>(two).used) << "blocks take as many tiles as there are";
  EXPECT_FALSE(grid_for<&product>({{64, 64}, {64, 16}, {16, 64}}).used) << "blocks with products run long";
}

TEST(UseGridAxes, BlocksThatAreNamedOrTakeSeveralPiecesAreLeftAlone) {
  const std::vector<std::vector<std::int64_t>> two{{64, 64}, {64, 64}};
  EXPECT_FALSE(grid_for<&checks>(two).used) << "a failed check names its block";
  passes::Tuning t = one_piece();
  t.pieces = 4;
  const Passed coarse = passed<&indexed<4, 8>>(two, t);
  EXPECT_EQ(coarse.choices.abi.pieces, 4);
  EXPECT_FALSE(coarse.choices.abi.grid.used);
  t = one_piece();
  t.ctas = 2;
  const Passed cluster = passed<&indexed<4, 8>>(two, t);
  EXPECT_EQ(cluster.choices.ctas, 2);
  EXPECT_FALSE(cluster.choices.abi.grid.used);
}

TEST(UseGridAxes, NoAxisIsLongerThanADeviceAllows) {
  constexpr std::int64_t kMost = 65535;
  const auto used_of_two = [](std::int64_t rows, std::int64_t columns) {
    const std::vector<std::int64_t> dims{rows, columns};
    return grid_for<&indexed<1, 16>>({dims, dims}).used;
  };
  EXPECT_TRUE(used_of_two(kMost, 32));
  EXPECT_FALSE(used_of_two(kMost + 1, 32));
  EXPECT_TRUE(used_of_two(2, 16 * kMost));
  EXPECT_FALSE(used_of_two(2, 16 * kMost + 1)) << "one piece more, of one column";
  const auto used_of_three = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    const std::vector<std::int64_t> dims{a, b, c};
    return grid_for<&indexed<1, 2, 16>>({dims, dims}).used;
  };
  EXPECT_TRUE(used_of_three(kMost, 4, 32));
  EXPECT_FALSE(used_of_three(kMost + 1, 4, 32));
  EXPECT_TRUE(used_of_three(2, 2 * kMost, 32));
  EXPECT_FALSE(used_of_three(2, 2 * kMost + 1, 32));
  EXPECT_TRUE(used_of_three(2, 4, 16 * kMost));
  EXPECT_FALSE(used_of_three(2, 4, 16 * kMost + 1));
  const auto used_of_four = [](std::int64_t a, std::int64_t b) {
    const std::vector<std::int64_t> dims{a, b, 8, 32};
    return grid_for<&indexed<1, 1, 4, 16>>({dims, dims}).used;
  };
  EXPECT_TRUE(used_of_four(255, 257)) << "the first two share z";
  EXPECT_FALSE(used_of_four(256, 256));
  EXPECT_TRUE(used_of_four(1, kMost));
  EXPECT_FALSE(used_of_four(2, 32768));
  const Recorded r = recorded<&indexed<1, 16>>();
  EXPECT_NE(r.obligations().find("65535"), std::string::npos) << r.obligations();
}

TEST(UseGridAxes, TheSwitchTurnsItOff) {
  const std::vector<std::vector<std::int64_t>> two{{64, 64}, {64, 64}};
  EXPECT_FALSE((grid_for<&indexed<4, 8>>(two, passes::parse_tuning("grid=0,pieces=1")).used));
  EXPECT_TRUE((grid_for<&indexed<4, 8>>(two, passes::parse_tuning("pieces=1")).used));
}

/// What the passes are told of `indexed<4, 8>`.
struct Told {
  bool contract = true, wide_grid = false, claims = true;
  const passes::Certifier* certifier = nullptr;
};
bool used_if(const Told& told) {
  const Recorded r = recorded<&indexed<4, 8>>();
  const auto module = ir::clone(*r.trace.module);
  const std::vector<Claim> claims = told.claims ? r.facts.claims_of(*module) : std::vector<Claim>();
  passes::Work work;
  work.claims = claims;
  work.predicates = r.held({{64, 64}, {64, 64}});
  analysis::LaunchContract contract = r.contract;
  contract.wide_grid = told.wide_grid;
  work.contract = told.contract ? &contract : nullptr;
  work.certifier = told.certifier;
  const passes::Tuning tuning = one_piece();
  const passes::Choices c = passes::run_passes(*module, {90, 132}, &tuning, work).choices;
  EXPECT_EQ(divisions(*module) == 0, c.abi.grid.used);
  return c.abi.grid.used;
}
/// Certifies no claim of one kind, and all others.
struct RejectingKind final : passes::Certifier {
  analysis::ClaimKind kind;
  explicit RejectingKind(analysis::ClaimKind k) : kind(k) {}
  std::vector<bool> judge(const ir::Function&, std::span<const Claim> claims) const override {
    std::vector<bool> all;
    for (const Claim& c : claims) all.push_back(c.kind != kind);
    return all;
  }
};
TEST(UseGridAxes, NothingIsUsedThatIsNotCertified) {
  const RejectingKind strict(analysis::ClaimKind::CountsPieces), other(analysis::ClaimKind::Disjoint);
  EXPECT_TRUE(used_if({.certifier = &other})) << "the twin";
  EXPECT_FALSE(used_if({.certifier = &strict}));
  EXPECT_FALSE(used_if({.certifier = nullptr}));
  EXPECT_FALSE(used_if({.claims = false, .certifier = &other})) << "that the grid fits is a claim, too";
  EXPECT_FALSE(used_if({.contract = false, .certifier = &other}));
  EXPECT_FALSE(used_if({.wide_grid = true, .certifier = &other})) << "blocks are numbered along two axes already";
}

}  // namespace THIS_FILE
}  // namespace tessera::test
