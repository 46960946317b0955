// Claims about the pieces of a launch: that their grid fits a device's axes, and that a number counts those along an
// axis. Each that is certified is beside one that says a little more, and is not.
#include <algorithm>
#include <cstdio>
#include <random>
#include <tuple>

#include "certify/program.hpp"

namespace tessera::test {
namespace {

using analysis::ArgRole;
using analysis::Claim;
using analysis::ClaimKind;
using analysis::ExprKind;
using ir::Elem;
using ir::Op;
using ir::Rounding;
using ir::Signedness;
using ir::Value;

constexpr std::int64_t kMost = 65535;  ///< CUDA C++ Programming Guide: blocks along y or z of a grid

using analysis::LaunchBound;
using analysis::LaunchQuestion;

/// The launch has `least` to `most` pieces.
LaunchQuestion pieces_in(std::int64_t least, std::int64_t most) {
  return {.bounds = {{LaunchBound::Of::Pieces, 0, least, most}}};
}
/// What passes::use_grid_axes asks of a tensor of so many axes.
LaunchQuestion question_of_grid(std::size_t rank) {
  LaunchQuestion q;
  for (std::size_t a = 0; a < rank; ++a)
    q.bounds.push_back({LaunchBound::Of::PiecesAlong, static_cast<int>(a), LaunchBound::kNoLeast, kMost});
  if (rank > 2)
    q.bounds.push_back({LaunchBound::Of::FirstAxes, static_cast<int>(rank) - 2, LaunchBound::kNoLeast, kMost});
  return q;
}
Claim of_launch(const LaunchQuestion& question) { return {.kind = ClaimKind::OfLaunch, .question = &question}; }

/// A launch whose blocks have pieces of a tensor, the first parameter; the second is a tensor of as many axes.
struct OfPieces : Program {
  std::vector<Value> dims, other_dims;  ///< i64

  explicit OfPieces(const std::vector<std::int64_t>& piece) {
    const int rank = static_cast<int>(piece.size());
    for (int t = 0; t < 2; ++t) {
      contract.tensors.push_back({static_cast<int>(contract.args.size()), rank, t == 0, true, t == 0});
      pointer(Elem::F32);
      contract.args.push_back({ArgRole::Base, t, -1});
      for (int a = 0; a < rank; ++a) {
        (t == 0 ? dims : other_dims).push_back(arg(Elem::I64));
        contract.args.push_back({ArgRole::Dim, t, a});
      }
      for (int a = 0; a < rank; ++a) {
        arg(Elem::I64);
        contract.args.push_back({ArgRole::Stride, t, a});
      }
    }
    contract.pieces_of_tensor = 0;
    contract.piece = piece;
  }
  /// The launch finds out that an extent, or something else, is at most that.
  void at_most(std::uint32_t term, std::int64_t most) { holds({false, term, constant(most), 1}); }
  std::uint32_t dim(int axis) { return slot(1 + axis); }
  std::uint32_t pieces(int axis) {
    return combined(ExprKind::CeilDiv, dim(axis), constant(contract.piece[static_cast<std::size_t>(axis)]));
  }
  bool fits() const {
    const LaunchQuestion grid = question_of_grid(contract.piece.size());
    return certifies(of_launch(grid));
  }

  /// ceil(dim / extent), as kernels compute it.
  Value count(Value dim, std::int64_t extent, Rounding rounding = Rounding::PositiveInf) {
    const Value narrow = op(Op::TruncI, {dim}, ir::Type::tile(Elem::I32));
    return divide(narrow, i32(extent), rounding, Signedness::Unsigned);
  }
  /// A division of the block's number.
  ir::Operation* divided_by(Value by) {
    if (!number_) number_ = number_of_block();
    return divide(number_, by, Rounding::Zero, Signedness::Unsigned).def();
  }
  bool counts(ir::Operation* division, int axis) const {
    return certifies({.kind = ClaimKind::CountsPieces, .op = division, .index = axis});
  }
  /// In a launch of which `more` says something.
  bool counts_if(ir::Operation* division, int axis, auto&& more) {
    const auto before = std::tuple(contract, certificate, held);
    more();
    const bool result = counts(division, axis);
    std::tie(contract, certificate, held) = before;
    return result;
  }

 private:
  Value number_;
};

/// True if the grid of pieces of 16 numbers along each axis fits where there are at most so many along each, and
/// together along all but the last two.
bool fits(const std::vector<std::int64_t>& pieces, std::int64_t more = 0) {
  OfPieces k(std::vector<std::int64_t>(pieces.size(), 16));
  k.end();
  for (std::size_t a = 0; a < pieces.size(); ++a) k.at_most(k.dim(static_cast<int>(a)), pieces[a] * 16 + more);
  std::int64_t others = 1;
  std::uint32_t product = k.constant(1);
  for (std::size_t a = 0; a + 2 < pieces.size(); ++a) {
    others *= pieces[a];
    product = k.combined(ExprKind::Mul, product, k.pieces(static_cast<int>(a)));
  }
  if (pieces.size() > 3) k.at_most(product, others);
  return k.fits();
}

TEST(CertifyPieces, NoAxisOfTheGridIsTooLong) {
  for (std::size_t rank = 1; rank <= 3; ++rank)
    for (std::size_t axis = 0; axis < rank; ++axis) {
      std::vector<std::int64_t> pieces(rank, 3);
      pieces[axis] = kMost;
      EXPECT_TRUE(fits(pieces)) << axis << " of " << rank;
      EXPECT_TRUE(fits(pieces, -15)) << "the last piece is not full";
      EXPECT_FALSE(fits(pieces, 1)) << axis << " of " << rank << ": a piece of one element more";
      pieces[axis] = kMost + 1;
      EXPECT_FALSE(fits(pieces)) << axis << " of " << rank;
    }
  EXPECT_TRUE(fits({kMost, kMost, kMost})) << "one axis lies along z";
}

/// A launch with a number of blocks, the last argument.
struct OfBlocks : Program {
  Value blocks;

  OfBlocks() {
    arg(Elem::I64);
    contract.args.push_back({});
    contract.blocks_arg = 1;
    contract.args.push_back({ArgRole::Blocks, -1, -1});
    blocks = arg(Elem::I32);
  }
  std::uint32_t number() { return term({ExprKind::Arg, 32, true, contract.blocks_arg, 0, 0}); }
  bool is(Value comparison, bool truth = true) {
    return certifies({.kind = ClaimKind::Condition, .op = comparison.def(), .index = 0, .truth = truth});
  }
};

TEST(CertifyPieces, TheNumberOfBlocksIsAnArgument) {
  using P = ir::ComparisonPredicate;
  OfBlocks k;
  const Value block = k.number_of_block();
  const Value below = k.compare(block, P::Less, k.blocks), last = k.compare(block, P::LessEqual, k.i32(100)),
              same = k.compare(k.number_of_blocks(), P::Equal, k.blocks),
              most = k.compare(k.blocks, P::LessEqual, k.i32((1 << 24) - 1)),
              least = k.compare(k.blocks, P::GreaterEqual, k.i32(1)),
              two = k.compare(k.blocks, P::GreaterEqual, k.i32(2));
  k.end();
  EXPECT_TRUE(k.is(below));
  EXPECT_TRUE(k.is(same));
  EXPECT_TRUE(k.is(most));
  EXPECT_TRUE(k.is(least));
  EXPECT_FALSE(k.is(two));
  EXPECT_FALSE(k.is(last)) << "nothing is known of the launch";
  k.holds({false, k.number(), k.constant(101), 1});
  EXPECT_TRUE(k.is(last));
}

TEST(CertifyPieces, ALaunchOfSoManyBlocks) {
  OfBlocks k;
  k.end();
  const auto many = [&](std::int64_t least) { return k.certifies(of_launch(pieces_in(least, LaunchBound::kNoMost))); };
  EXPECT_FALSE(many(16384));
  k.holds({false, k.constant(16384), k.number(), 1});
  EXPECT_TRUE(many(16384));
  EXPECT_FALSE(many(16385));
  for (const auto of : {LaunchBound::Of::PiecesAlong, LaunchBound::Of::FirstAxes})
    for (const int index : {0, 1}) {
      const LaunchQuestion q{.bounds = {{of, index, LaunchBound::kNoLeast, kMost}}};
      EXPECT_FALSE(k.certifies(of_launch(q))) << "there are no pieces";
    }
}

TEST(CertifyPieces, ALaunchOfFewPieces) {
  OfPieces k({16, 64});
  k.end();
  const auto few = [&](std::int64_t most) { return k.certifies(of_launch(pieces_in(LaunchBound::kNoLeast, most))); };
  EXPECT_FALSE(few(256)) << "nothing is known of the launch";
  k.at_most(k.combined(analysis::ExprKind::Mul, k.pieces(0), k.pieces(1)), 256);
  EXPECT_TRUE(few(256));
  EXPECT_TRUE(few(257));
  EXPECT_FALSE(few(255));
  EXPECT_TRUE(k.certifies(of_launch(pieces_in(1, 256)))) << "a block runs only where there is a piece for it";
  EXPECT_FALSE(k.certifies(of_launch(pieces_in(2, 256))));
}

/// All bounds have to hold, arguments have to be equal, and the numbers have to be there.
TEST(CertifyPieces, AQuestionIsAllThatItSays) {
  OfPieces k({16, 64});
  k.end();
  const int rows = 1, columns = 2;  // entry arguments of the first tensor
  const auto answers = [&](const LaunchQuestion& q) { return k.certifies(of_launch(q)); };
  const LaunchBound long_rows{LaunchBound::Of::Argument, columns, 5, 99},
      any{LaunchBound::Of::Argument, rows, 0, 0x7FFFFFFF};
  EXPECT_TRUE(answers({.bounds = {any}}));
  EXPECT_FALSE(answers({.bounds = {long_rows}}));
  k.at_most(k.dim(1), 99);
  EXPECT_FALSE(answers({.bounds = {long_rows}})) << "they may be shorter";
  k.holds({false, k.constant(5), k.dim(1), 1});
  EXPECT_TRUE(answers({.bounds = {long_rows}}));
  EXPECT_TRUE(answers({.bounds = {any, long_rows}}));
  EXPECT_FALSE(answers({.bounds = {any, long_rows, {LaunchBound::Of::Argument, rows, 0, 7}}}));
  EXPECT_FALSE(answers({.bounds = {}})) << "it says nothing";
  EXPECT_FALSE(answers({.bounds = {any, {}}})) << "the second bound says nothing";
  EXPECT_FALSE(answers({.bounds = {any}, .equal = {{rows, columns}}}));
  EXPECT_TRUE(answers({.bounds = {any}, .equal = {{rows, rows}}}));
  k.holds({false, k.dim(0), k.dim(1), 1});
  EXPECT_FALSE(answers({.bounds = {any}, .equal = {{rows, columns}}})) << "one may be smaller";
  k.holds({false, k.dim(1), k.dim(0), 1});
  EXPECT_TRUE(answers({.bounds = {any}, .equal = {{rows, columns}}}));
  for (const int bad : {-1, 0, 1000}) {  // 0 is an address
    EXPECT_FALSE(answers({.bounds = {{LaunchBound::Of::Argument, bad, -5, LaunchBound::kNoMost}}}));
    EXPECT_FALSE(answers({.bounds = {any}, .equal = {{bad, bad}}}));
  }
  for (const auto of : {LaunchBound::Of::PiecesAlong, LaunchBound::Of::FirstAxes})
    for (const int bad : {-1, 3}) EXPECT_FALSE(answers({.bounds = {{of, bad, -5, LaunchBound::kNoMost}}})) << bad;
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::OfLaunch})) << "it asks nothing";
}

TEST(CertifyPieces, WhatIsNotTheLastTwoAxesSharesOne) {
  EXPECT_TRUE(fits({255, 257, 3, 3}));
  EXPECT_FALSE(fits({256, 256, 3, 3}));
  EXPECT_TRUE(fits({1, kMost, kMost, kMost}));
  EXPECT_FALSE(fits({2, kMost, 3, 3}));
  EXPECT_FALSE(fits({kMost, 2, 3, 3}));
  EXPECT_FALSE(fits({3, 3, kMost + 1, 3})) << "y";
  EXPECT_FALSE(fits({3, 3, 3, kMost + 1})) << "x: which axis lies along it is chosen later";
  EXPECT_TRUE(fits({3, 5, 4369, 3, 3}));
  EXPECT_FALSE(fits({4, 4, 4096, 3, 3}));
}

/// As the analysis finds out: by the numbers of pieces and their products.
TEST(CertifyPieces, ObligationsAreAboutPieces) {
  for (const std::int64_t most : {kMost, kMost + 1}) {
    OfPieces k({1, 2, 16, 64});
    k.end();
    for (int a = 0; a < 4; ++a) k.at_most(k.pieces(a), kMost);
    EXPECT_FALSE(k.fits()) << "nothing says so of the first two together";
    k.at_most(k.combined(ExprKind::Mul, k.pieces(0), k.pieces(1)), most);
    EXPECT_EQ(k.fits(), most == kMost);
    const LaunchQuestion grid = question_of_grid(4);
    Claim of_an_obligation = of_launch(grid);
    of_an_obligation.obligation = 4;
    EXPECT_EQ(k.certifies(of_an_obligation), most == kMost);
    of_an_obligation.obligation = 5;
    EXPECT_FALSE(k.certifies(of_an_obligation)) << "which the launch does not hold";
    k.held &= ~std::uint64_t{1};
    EXPECT_FALSE(k.fits()) << "the first axis may be longer";
  }
}

TEST(CertifyPieces, NoTensorIsLongerThan31Bits) {
  const auto always_fits = [](std::int64_t piece) {
    OfPieces k({piece, piece});
    k.end();
    return k.fits();
  };
  EXPECT_TRUE(always_fits(1 << 16)) << "2^15 pieces";
  EXPECT_FALSE(always_fits(1 << 15)) << "2^16 pieces";
  EXPECT_FALSE(always_fits(1));
}

TEST(CertifyPieces, AGridIsThatOfTheContractAndNoOperation) {
  const LaunchQuestion grid = question_of_grid(2);
  const Claim claim = of_launch(grid);
  OfPieces k({16, 16});
  const Value two = k.i32(2);
  k.end();
  for (const int a : {0, 1}) k.at_most(k.dim(a), 100);
  EXPECT_TRUE(k.certifies(claim));
  Claim bad = claim;
  bad.op = two.def();
  EXPECT_FALSE(k.certifies(bad));
  bad = claim;
  bad.index = -1;
  EXPECT_FALSE(k.certifies(bad));
  k.contract.wide_grid = true;
  EXPECT_FALSE(k.certifies(claim)) << "its blocks are numbered along two axes already";
  k.contract.wide_grid = false;
  EXPECT_TRUE(k.certifies(claim));
  k.contract.pieces_of_tensor = -1;
  EXPECT_FALSE(k.certifies(claim)) << "any grid";
}

// ---- numbers of pieces ----------------------------------------------------------------------------------------------

TEST(CertifyPieces, ADivisorCountsThePiecesOfOneAxis) {
  OfPieces k({16, 64, 1});
  std::vector<ir::Operation*> by_count, more, less, rests;
  for (std::size_t a = 0; a < 3; ++a) {
    const Value n = k.count(k.dims[a], k.contract.piece[a]), one = k.i32(1);
    by_count.push_back(k.divided_by(n));
    rests.push_back(k.with_sign(Op::RemI, k.number_of_block(), n).def());
    more.push_back(k.divided_by(k.binary(Op::AddI, n, one)));
    less.push_back(k.divided_by(k.binary(Op::SubI, n, one)));
  }
  k.end();
  for (int axis = 0; axis < 3; ++axis)
    for (int of = 0; of < 3; ++of) {
      const auto n = static_cast<std::size_t>(of);
      EXPECT_EQ(k.counts(by_count[n], axis), axis == of) << axis << " of the count along " << of;
      EXPECT_EQ(k.counts(rests[n], axis), axis == of) << axis << " of the count along " << of;
      EXPECT_FALSE(k.counts(more[n], axis)) << axis << " of the count along " << of << " and 1";
      EXPECT_FALSE(k.counts(less[n], axis)) << axis << " of the count along " << of << " less 1";
    }
  for (const int index : {-1, 3, 4, INT32_MAX, INT32_MIN}) EXPECT_FALSE(k.counts(by_count[0], index)) << index;
}

TEST(CertifyPieces, ANumberThatIsComputedInAnotherWay) {
  OfPieces k({16, 64});
  const Value dim = k.dims[0];
  ir::Operation* const other_extent = k.divided_by(k.count(dim, 32));
  ir::Operation* const whole_pieces = k.divided_by(k.count(dim, 16, Rounding::Zero));
  ir::Operation* const of_another = k.divided_by(k.count(k.other_dims[0], 16));
  const Value raised = k.binary(Op::AddI, dim, k.b.constant_int(Elem::I64, 15));
  const Value by_hand = k.divide(raised, k.b.constant_int(Elem::I64, 16));
  const Value narrow = k.op(Op::TruncI, {by_hand}, ir::Type::tile(Elem::I32));
  ir::Operation* const as_large = k.divided_by(narrow);
  ir::Operation* const by_one = k.divided_by(k.i32(1));
  k.end();
  EXPECT_FALSE(k.counts(other_extent, 0)) << "pieces of another extent";
  EXPECT_FALSE(k.counts(whole_pieces, 0)) << "the last piece is not full";
  EXPECT_FALSE(k.counts(of_another, 0)) << "another tensor";
  EXPECT_TRUE(k.counts(as_large, 0)) << "(dim + 15) / 16 is as large";
  EXPECT_FALSE(k.counts(by_one, 0));
  EXPECT_TRUE(k.counts_if(of_another, 0, [&] {
    k.contract.equal_args = {{1, 6}};
  })) << "whose first extent is the same";
  EXPECT_FALSE(k.counts_if(of_another, 0, [&] { k.contract.equal_args = {{2, 6}}; })) << "the other extent is";
  EXPECT_TRUE(k.counts_if(whole_pieces, 0, [&] { k.holds({true, k.dim(0), 0, 16}); })) << "all pieces are full";
  EXPECT_FALSE(k.counts_if(whole_pieces, 0, [&] { k.holds({true, k.dim(0), 0, 8}); }));
  EXPECT_TRUE(k.counts_if(by_one, 0, [&] { k.at_most(k.dim(0), 16); })) << "there is one piece";
  EXPECT_FALSE(k.counts_if(by_one, 0, [&] { k.at_most(k.dim(0), 17); })) << "or there are two";
}

/// What is known in an arm is so in that arm alone.
TEST(CertifyPieces, ANumberThatABranchComparesWithTheCount) {
  OfPieces k({16, 64});
  const Value v = k.arg(Elem::I32), n = k.count(k.dims[1], 64);
  k.contract.args.push_back({});
  ir::Operation *inside = nullptr, *outside = nullptr;
  k.branch(
      k.compare(v, ir::ComparisonPredicate::Equal, n), [&] { inside = k.divided_by(v); },
      [&] { outside = k.divide(n, v).def(); });
  ir::Operation* const after = k.divide(n, v).def();
  k.end();
  EXPECT_TRUE(k.counts(inside, 1));
  EXPECT_FALSE(k.counts(inside, 0));
  EXPECT_FALSE(k.counts(outside, 1));
  EXPECT_FALSE(k.counts(after, 1));
}

TEST(CertifyPieces, ACountIsADivisorOfTheContractsLaunch) {
  OfPieces k({16, 64});
  const Value n = k.count(k.dims[1], 64);
  ir::Operation* const division = k.divided_by(n);
  ir::Operation* const product = k.binary(Op::MulI, n, n).def();
  k.end();
  const Claim claim{.kind = ClaimKind::CountsPieces, .op = division, .index = 1};
  EXPECT_TRUE(k.certifies(claim));
  Claim bad = claim;
  bad.op = nullptr;
  EXPECT_FALSE(k.certifies(bad));
  for (ir::Operation* op : {product, n.def(), division->operand(0).def()}) {
    bad.op = op;
    EXPECT_FALSE(k.certifies(bad)) << "not a division by it";
  }
  k.contract.wide_grid = true;
  EXPECT_FALSE(k.certifies(claim)) << "its blocks are numbered along two axes already";
  k.contract.wide_grid = false;
  EXPECT_TRUE(k.certifies(claim));
  k.contract.pieces_of_tensor = -1;
  EXPECT_FALSE(k.certifies(claim)) << "any grid";
}

// ---- at random ------------------------------------------------------------------------------------------------------

/// Launches of any extents: what is certified of those that meet random conditions is so. They are not run, for they
/// have too many blocks.
TEST(CertifyPieces, GridsThatAreCertifiedFit) {
  int certified = 0, fitting = 0, launches = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 rng(seed);
    const auto any = [&](std::initializer_list<std::int64_t> of) { return of.begin()[rng() % of.size()]; };
    std::vector<std::int64_t> piece(1 + rng() % 5);
    for (std::int64_t& extent : piece) extent = any({1, 2, 16, 1024});
    OfPieces k(piece);
    k.end();
    const int rank = static_cast<int>(piece.size());
    // Conditions at and around the limit, which say much or little.
    struct Condition {
      int first, last;  ///< the pieces along these axes together
      std::int64_t most;
    };
    std::vector<Condition> conditions;
    for (int a = 0; a < rank; ++a)
      if (rng() % 8 != 0) conditions.push_back({a, a, any({1, 3, 255, 256, 257, kMost, kMost, kMost + 1})});
    if (rank > 3 && rng() % 2 == 0) conditions.push_back({0, rank - 3, any({kMost, kMost, kMost + 1})});
    for (const Condition& c : conditions) {
      std::uint32_t all = k.pieces(c.first);
      for (int a = c.first + 1; a <= c.last; ++a) all = k.combined(ExprKind::Mul, all, k.pieces(a));
      k.at_most(all, c.most);
    }
    const bool says_so = k.fits();
    certified += says_so ? 1 : 0;
    for (int launch = 0; launch < 200; ++launch) {
      std::vector<std::int64_t> pieces;
      std::int64_t total = 1;
      for (int a = 0; a < rank; ++a) {
        pieces.push_back(any({1, 1, 2, 3, 255, 256, 257, 32768, kMost - 1, kMost, kMost, kMost + 1, 1 << 20}));
        total = std::min(total * pieces.back(), std::int64_t{1} << 40);
      }
      const auto product = [&](int first, int last) {
        std::int64_t n = 1;
        for (int a = first; a <= last; ++a)
          n = std::min(n * pieces[static_cast<std::size_t>(a)], std::int64_t{1} << 40);
        return n;
      };
      const bool meets =
          std::ranges::all_of(conditions, [&](const Condition& c) { return product(c.first, c.last) <= c.most; });
      if (total > INT32_MAX || !meets) continue;
      ++launches;
      bool fits = product(0, rank - 3) <= kMost;
      for (const std::int64_t n : pieces) fits = fits && n <= kMost;
      fitting += fits ? 1 : 0;
      EXPECT_TRUE(fits || !says_so) << "seed " << seed << ": " << testing::PrintToString(pieces);
    }
  }
  std::printf("%d of 300 grids certified; %d of %d launches fit\n", certified, fitting, launches);
  EXPECT_GE(certified, 30);
  EXPECT_LE(certified, 270);
  EXPECT_GE(launches - fitting, 100) << "this test has seen no grid that is too long";
}

}  // namespace
}  // namespace tessera::test
