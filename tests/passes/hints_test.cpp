// Hints follow from what a kernel does, and overrides are checked.
#include <algorithm>
#include <bit>
#include <tuple>

#include "passes/accepting.hpp"
#include "passes/hints.hpp"
#include "passes/passed.hpp"
#include "passes/product_loop.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/error.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

passes::Choices choose(ir::Function& f, passes::Target target = kHopper, passes::Tuning tuning = {}) {
  return passes::choose_hints(f, target, tuning);
}

struct Row {
  Kernel k;
  ir::Function* f = nullptr;
  explicit Row(std::int32_t n, Elem from_elem = Elem::BF16, Elem to_elem = Elem::BF16) {
    const Value from = k.view(from_elem, {1, n}), to = k.view(to_elem, {1, n}), zero = k.i32(0);
    const Value tile = k.load(from, {zero, zero})->result();
    const Type stored = to.type().view_tile();
    k.store(from_elem == to_elem ? tile : k.op(Op::FToF, {tile}, stored), to, {zero, zero});
    f = &k.function();
  }
};

TEST(Hints, WhatIsOnlyMovedHasAVectorForEachThread) {
  struct Case {
    std::int32_t n;
    Elem from, to;
    int warps;
  };
  // One H200, 2^28 elements: add and saxpy of 1024 f32 a block with 8 warps 4.37 and 4.35 TB/s, of f16 with 4 4.35.
  for (const Case& c : {Case{128, Elem::BF16, Elem::BF16, 1}, Case{512, Elem::BF16, Elem::BF16, 2},
                        Case{1024, Elem::BF16, Elem::BF16, 4}, Case{2048, Elem::BF16, Elem::BF16, 8},
                        Case{16384, Elem::BF16, Elem::BF16, 8}, Case{512, Elem::F32, Elem::F32, 4},
                        Case{1024, Elem::F32, Elem::F32, 8}, Case{1024, Elem::F32, Elem::BF16, 4},
                        Case{1024, Elem::BF16, Elem::F32, 4}, Case{1024, Elem::I1, Elem::I1, 2}}) {
    Row row(c.n, c.from, c.to);
    EXPECT_EQ(choose(*row.f).warps, c.warps) << c.n;
    EXPECT_EQ(problems_of(row.k.module), "");
  }
}

/// Each element of a row is multiplied with itself so many times. bench/notes/choose_hints.md has the measurements.
TEST(Hints, WhatComputesMuchHasSeveralVectorsForEachThread) {
  struct Case {
    int operations;
    Elem elem;
    int warps;
  };
  for (const Case& c : {Case{0, Elem::F32, 8}, Case{16, Elem::F32, 8}, Case{64, Elem::F32, 2}, Case{8, Elem::BF16, 4},
                        Case{32, Elem::BF16, 1}}) {
    Kernel k;
    const Value from = k.view(c.elem, {1, 1024}), to = k.view(c.elem, {1, 1024}), zero = k.i32(0);
    Value tile = k.load(from, {zero, zero})->result();
    for (int i = 0; i < c.operations; ++i) tile = k.op(Op::MulF, {tile, tile}, tile.type());
    k.store(tile, to, {zero, zero});
    const passes::Choices chosen = choose(k.function());
    EXPECT_EQ(chosen.warps, c.warps) << c.operations << " operations on elements of " << ir::info(c.elem).bytes
                                     << " bytes";
    EXPECT_EQ(chosen.occupancy, c.warps < 4 ? 7 : 0) << "72 registers for each thread, if it computes much";
  }
}

/// Two halves of a tensor are two tiles, also where they lie in one partition; neighbours in a stencil are the same
/// bytes.
TEST(Hints, BytesAreThoseOfDifferentTiles) {
  const auto estimate = [](bool halves, int operations) {
    Kernel k;
    const Value from = k.view(Elem::F32, {1, 1024}), to = k.view(Elem::F32, {1, 1024}), zero = k.i32(0);
    const Value block = k.b.create(Op::GetTileBlockId, {}, {zero.type(), zero.type(), zero.type()})->result(0);
    const Value other = halves ? k.op(Op::AddI, {block, block}, zero.type()) : block;
    Value tile = k.load(from, {zero, block})->result();
    tile = k.op(Op::AddF, {tile, k.load(from, {zero, other})->result()}, tile.type());
    for (int i = 1; i < operations; ++i) tile = k.op(Op::MulF, {tile, tile}, tile.type());
    k.store(tile, to, {zero, zero});
    return analysis::instructions_per_byte(k.function());
  };
  const double instructions = 24 + 3 * 4;  // three accesses of single elements
  EXPECT_NEAR(estimate(false, 24), instructions / 8, 0.01);
  EXPECT_NEAR(estimate(true, 24), instructions / 12, 0.01);
}

TEST(Hints, MayBeLeftToTheAssembler) {
  Row row(4096);
  passes::Tuning tuning;
  tuning.choose_hints = false;
  passes::Choices left;
  left.abi.persistent_blocks = kHopper.num_sms;
  const passes::Choices made = choose(*row.f, kHopper, tuning);
  left.features = made.features;
  EXPECT_EQ(made, left);
  EXPECT_TRUE(row.f->hints.entries.empty());
  tuning.warps = 4;  // except for what is requested
  EXPECT_EQ(choose(*row.f, kHopper, tuning).warps, 4);
  EXPECT_FALSE(row.f->hints.entries.empty());
}

TEST(Hints, ARowThatIsTooLongForTheRegistersOfEightWarpsGetsSixteen) {
  for (const auto& [n, warps] : {std::pair{16384, 8}, {32768, 16}, {65536, 16}}) {
    Row row(n);
    EXPECT_EQ(choose(*row.f).warps, warps) << n;
  }
}

TEST(Hints, MayBeSpreadOverMoreWarps) {
  for (const auto& [times, warps] : {std::pair{1, 4}, {2, 8}, {4, 16}}) {
    Row row(1024);
    passes::Tuning tuning;
    tuning.spread = times;
    EXPECT_EQ(choose(*row.f, kHopper, tuning).warps, warps) << times;
  }
  Row row(1024);
  passes::Tuning tuning;
  tuning.spread = 2;
  tuning.warps = 1;
  EXPECT_EQ(choose(*row.f, kHopper, tuning).warps, 1) << "requested hints are not spread";
  tuning.spread = 3;
  EXPECT_THROW(choose(*row.f, kHopper, tuning), CompileError);
}

/// In a loop: rows of weights, each times one row of activations, added up.
struct RowTimesWeights {
  Kernel k;
  ir::Function* f = nullptr;
  RowTimesWeights(std::int32_t rows, std::int32_t n, bool in_loop, bool computed = false) {
    const Value weights = k.view(Elem::BF16, {rows, n}), x = k.view(Elem::BF16, {1, n}), zero = k.i32(0);
    const Type tile = weights.type().view_tile();
    Operation* loop = k.b.create(
        Op::For, {zero, k.arg(Elem::I32), k.i32(1), k.b.constant_float(Elem::BF16, 0, tile.shape())}, {tile});
    const Value row = k.op(Op::Broadcast, {k.load(x, {zero, zero})->result()}, tile);
    if (!in_loop) row.def()->move_before(loop), row.def()->operand(0).def()->move_before(row.def());
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(zero.type()), sum = body.add_arg(tile);
    const ir::Builder outside = k.b;
    if (in_loop) row.def()->operand(0).def()->move_to_end(body), row.def()->move_to_end(body);
    k.b.set_to_end(body);
    Value times = row;
    if (computed) {  // the row is the product of two loaded rows
      const Value loaded = k.load(x, {zero, zero})->result(), other = k.load(x, {zero, i})->result();
      times = k.op(Op::Broadcast, {k.binary(Op::MulF, loaded, other)}, tile);
    }
    const Value product = k.binary(Op::MulF, k.load(weights, {zero, i})->result(), times);
    k.b.create(Op::Continue, {k.binary(Op::AddF, sum, product)}, {});
    k.b = outside;
    k.keep(loop->result());
    f = &k.function();
  }
};

TEST(Hints, ARowThatIsRepeatedInALoopHasAVectorForEachThread) {
  // Without the row, 512 elements a warp: 4, 4, 2 and 8.
  for (const auto& [rows, n, warps] : {std::tuple{4, 512, 2}, {2, 1024, 4}, {2, 512, 2}, {8, 1024, 4}}) {
    RowTimesWeights in_loop(rows, n, true);
    EXPECT_EQ(choose(*in_loop.f).warps, warps) << rows << " x " << n;
    RowTimesWeights before(rows, n, false);
    EXPECT_EQ(choose(*before.f).warps, std::min(rows * n / 512, 8)) << "once is not worth fewer warps";
    RowTimesWeights computed(rows, n, false, true);
    EXPECT_EQ(choose(*computed.f).warps, warps) << "a product of rows of " << n << " is as long as they are";
  }
}

/// sum of the row, and the sum of what differs from it: over one tile, or over what a loop has added up.
struct ChainOfSums {
  Kernel k;
  ir::Function* f = nullptr;
  ChainOfSums(std::int32_t n, bool in_chunks, std::uint64_t aligned = 16, bool chained = true, Elem elem = Elem::F32) {
    const Value from = k.view(elem, {n}), zero = k.i32(0);
    Operation* tensor = from.def()->operand(0).def();
    const Value base = tensor->operand(0);
    tensor->set_operand(
        0, ir::Builder::before(tensor)
               .create(Op::Assume, {base}, {base.type()}, {{ir::AttrName::predicate, ir::DivByAttr{aligned, {}, {}}}})
               ->result());
    Value tile = in_chunks ? added_up(from) : k.load(from, {zero}, {true})->result();
    if (elem != Elem::F32) tile = k.op(Op::FToF, {tile}, Type::tile(Elem::F32, {n}));
    if (chained) tile = k.binary(Op::SubF, tile, broadcast(sum(tile), tile.type()));
    k.keep(sum(tile));
    f = &k.function();
  }
  Value broadcast(Value scalar, Type type) {
    const Value one = k.op(Op::Reshape, {scalar}, scalar.type().with_shape(std::vector<std::int64_t>{1}));
    return k.op(Op::Broadcast, {one}, type);
  }
  Value sum(Value tile) {
    const Type element = Type::tile(Elem::F32);
    Operation* reduce = k.b.create(Op::Reduce, {tile}, {element},
                                   {{ir::AttrName::dim, ir::IntAttr{Elem::I32, 0}},
                                    {ir::AttrName::identities, ir::ArrayAttr{{ir::FloatAttr{Elem::F32, 0}}}}});
    ir::Block& body = reduce->add_region();
    const Value x = body.add_arg(element), y = body.add_arg(element);
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    k.b.create(Op::Yield, {k.binary(Op::AddF, x, y)}, {});
    k.b = outside;
    return reduce->result();
  }
  Value added_up(Value from) {
    const Value start = k.b.constant_float(Elem::F32, 0, from.type().view_tile().shape());
    Operation* loop = k.b.create(Op::For, {k.i32(0), k.arg(Elem::I32), k.i32(1), start}, {start.type()});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(Type::tile(Elem::I32)), total = body.add_arg(start.type());
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    k.b.create(Op::Continue, {k.binary(Op::AddF, total, k.load(from, {i}, {true})->result())}, {});
    k.b = outside;
    return loop->result();
  }
};

TEST(Hints, TwoBlocksOfSixteenWarpsWhoseRowsFitTwiceAsTheyAreLoaded) {
  for (const auto& [n, elem, occupancy] :
       {std::tuple{32768, Elem::BF16, 2}, {32768, Elem::F32, 0}, {65536, Elem::BF16, 0}}) {
    ChainOfSums row(n, false, 16, true, elem);
    const passes::Choices found = choose(*row.f);
    EXPECT_EQ(found.warps, 16) << n;
    EXPECT_EQ(found.occupancy, occupancy) << n << ": 65536 registers, 16 of a thread beside its row";
  }
  ChainOfSums odd(32768, false, 2, true, Elem::BF16);
  EXPECT_EQ(choose(*odd.f).occupancy, 0) << "narrow accesses take a register for each element";
}

TEST(Hints, ASumHasThirtyTwoElementsAThread) {
  for (const auto& [n, warps] : {std::pair{512, 1}, {1024, 1}, {2048, 2}, {4096, 4}, {16384, 8}}) {
    ChainOfSums sum(n, false, 16, false);
    EXPECT_EQ(choose(*sum.f).warps, warps) << n;
    EXPECT_EQ(choose(*sum.f).occupancy, n == 16384 ? 3 : 0) << "64 elements a thread, and 16 registers beside them";
  }
}

TEST(Hints, ReductionsThatWaitForEachOtherTakeFewerWarpsButNotBehindALoop) {
  ChainOfSums tile(4096, false), chunks(4096, true);
  EXPECT_EQ(choose(*tile.f).warps, 2);
  EXPECT_EQ(choose(*chunks.f).warps, 8);
  ChainOfSums odd(4096, false, 4), odd_and_large(16384, false, 4);
  EXPECT_EQ(choose(*odd.f).warps, 4) << "one element at a time";
  ChainOfSums one(4096, false, 16, false), odd_one(4096, false, 4, false), odd_chunks(4096, true, 4, false);
  EXPECT_EQ(choose(*one.f).warps, 4);
  EXPECT_EQ(choose(*odd_one.f).warps, 2);
  const passes::Choices walk = choose(*odd_chunks.f);
  EXPECT_EQ(std::tuple(walk.warps, walk.occupancy), std::tuple(16, 2));
  ChainOfSums short_chunks(1024, true, 4, false);
  EXPECT_EQ(choose(*short_chunks.f).warps, 1) << "no barriers";
  EXPECT_EQ(choose(*odd_and_large.f).occupancy, 0);
}

TEST(Hints, AWidthThatIsNotKnownIsNotNarrow) {
  Kernel k;
  const std::vector<std::int32_t> tile{1, 1024}, steps{1, 1024};
  const Value rows = k.view(Elem::BF16, tile), tensor = rows.def()->operand(0), zero = k.i32(0);
  const Value walk = k.op(Op::MakeStridedView, {tensor}, Type::strided_view(tensor.type(), tile, steps, {}, {}));
  const Operation *by_rows = k.load(rows, {zero, zero}), *by_steps = k.load(walk, {zero, zero});
  const analysis::Divisibility known(k.function());
  EXPECT_TRUE(analysis::is_narrow(*by_rows, known)) << "of base, strides and extents nothing is known";
  EXPECT_FALSE(analysis::is_narrow(*by_steps, known));
}

TEST(Hints, WalksOverLongChunksPrefetchLoads) {
  for (const std::int32_t chunk : {1024, 4096}) {
    ChainOfSums narrow_alone(chunk, true), chosen(chunk, true);
    passes::Tuning tuning;
    tuning.ahead = 1;
    optimize_with_claims(narrow_alone.k.module, kHopper, &tuning);
    optimize_with_claims(chosen.k.module, kHopper);
    EXPECT_EQ(narrow_alone.k.text() == chosen.k.text(), chunk == 1024) << chunk;
  }
}

TEST(Hints, AThirdBlockAMultiprocessorWhereAllWarpsWaitAtBarriers) {
  ChainOfSums large(16384, false), small(4096, false);
  EXPECT_EQ(choose(*large.f).warps, 8);
  EXPECT_EQ(choose(*large.f).occupancy, 3);  // 64 elements a thread stay, and 16 registers beside them
  EXPECT_EQ(choose(*small.f).occupancy, 0);
}

TEST(Hints, ProductsByAccumulatorsAThread) {
  struct Case {
    std::int32_t m, n, k;
    int warps, ctas, occupancy, latency;
  };
  // The best found by search on an H200 for 4096 cubed and 8192 cubed (docs/compiler/choose_hints.md).
  for (const Case& c : {Case{128, 64, 64, 4, 1, 1, 4}, Case{128, 128, 64, 4, 1, 2, 3}, Case{256, 128, 64, 8, 1, 1, 6},
                        Case{256, 256, 64, 8, 2, 1, 4}}) {
    ProductLoop loop(c.m, c.n, c.k);
    const passes::Choices found = choose(*loop.f);
    EXPECT_EQ(found.warps, c.warps) << c.m << "x" << c.n;
    EXPECT_EQ(found.ctas, c.ctas) << c.m << "x" << c.n;
    EXPECT_EQ(found.occupancy, c.occupancy) << c.m << "x" << c.n;
    EXPECT_EQ(found.latency, c.latency) << c.m << "x" << c.n;
    EXPECT_EQ(found.abi.persistent_blocks, 132 * c.occupancy / c.ctas);
    EXPECT_EQ(problems_of(loop.k.module), "");
  }
  // A block that takes one tile after the other is alone, with deeper loads.
  ProductLoop persistent(128, 128, 64);
  const Type i32 = Type::tile(Elem::I32);
  ir::Builder::before(persistent.loop).create(Op::GetNumTileBlocks, {}, {i32, i32, i32});
  const passes::Choices found = choose(*persistent.f);
  EXPECT_EQ(std::tuple(found.occupancy, found.latency), std::tuple(1, 6));
}

TEST(Hints, PartsCountTogether) {
  const auto hints = [](std::int32_t m, std::int32_t n, std::int32_t n2) {
    ProductsOfParts p(m, n, n2);
    const passes::Choices c = choose(*p.f);
    EXPECT_EQ(problems_of(p.k.module), "");
    return std::tuple(c.warps, c.ctas, c.occupancy, c.latency);
  };
  // Steps that fit beside the tiles that are stored, and two; the rows are loaded once for both parts.
  EXPECT_EQ(hints(128, 64, 32), std::tuple(4, 1, 1, 6)) << "one tile per block";
  EXPECT_EQ(hints(128, 128, 32), std::tuple(8, 1, 1, 7)) << "five steps";
  EXPECT_EQ(hints(128, 128, 64), std::tuple(8, 1, 1, 6)) << "four";
  EXPECT_EQ(hints(256, 128, 32), std::tuple(8, 2, 1, 7)) << "each of two CTAs loads half of the rows";
  EXPECT_EQ(hints(256, 128, 64), std::tuple(8, 2, 1, 6));
}

/// More warps than parts of 16x8 would repeat each product, without tensor cores.
TEST(Hints, WarpsFollowFromTheLargestProduct) {
  const auto warps = [](std::int32_t n, std::int32_t n2, int spread) {
    ProductsOfParts p(16, n, n2);
    passes::Tuning tuning;
    tuning.spread = spread;
    return choose(*p.f, kHopper, tuning).warps;
  };
  EXPECT_EQ(warps(16, 16, 1), 2) << "not 4 for two products";
  EXPECT_EQ(warps(16, 16, 2), 2);
  EXPECT_EQ(warps(64, 8, 1), 4);
  EXPECT_EQ(warps(64, 8, 2), 8) << "the larger one has eight parts";
  EXPECT_EQ(warps(8, 8, 4), 1);
}

/// What is computed for all pairs of two rows, which are loaded.
void sums_over_pairs(Mut<f32, 64> y, In<f32, dyn> x) {
  auto here = reshape(x.load_like(y), shape<64, 1>);
  auto X = x.tiles(shape<64>);
  auto total = zeros<f32, 64, 1>();
  for (auto k : range(X.count(0))) total += sum(abs(reshape(X.load(k), shape<1, 64>) - here), axis<1>);
  y.store(reshape(total, shape<64>));
}
/// Each step of a loop reduces what it loads.
void sums_of_steps(Mut<f32, 8> y, In<f32, dyn, dyn> x) {
  auto [i] = y.index();
  auto X = x.tiles(shape<8, 512>);
  auto total = zeros<f32, 8, 1>();
  for (auto k : range(X.count(1))) total += sum(X.load(i, k), axis<1>);
  y.store(reshape(total, shape<8>));
}
TEST(Hints, ReductionsInALoopThatLoadsTakeFewerWarps) {
  const Passed p = passed<&sums_of_steps>({{640}, {640, 4096}}, {});
  EXPECT_EQ(choose(*p.module->functions.front()).warps, 2);
}
TEST(Hints, AThreadComputesSixtyFourElementsAtMost) {
  const Passed p = passed<&sums_over_pairs>({{640}, {640}}, {});
  EXPECT_EQ(choose(*p.module->functions.front()).warps, 2);
}

TEST(Hints, ProductsOfAnySizesHaveAPowerOfTwoOfWarps) {
  for (const std::int32_t n : {8, 16, 32})
    for (const std::int32_t n2 : {8, 16, 32, 64}) {
      ProductsOfParts p(16, n, n2);
      const int warps = choose(*p.f).warps;
      EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(warps))) << warps << " for " << n << " and " << n2;
      EXPECT_EQ(problems_of(p.k.module), "");
    }
}

TEST(Hints, ChainsOfProducts) {
  ProductLoop d64(64, 128, 64, Elem::BF16, 64), d128(64, 128, 128, Elem::BF16, 128),
      d256(128, 128, 256, Elem::BF16, 256);
  for (ProductLoop* l : {&d64, &d128}) {
    const passes::Choices c = choose(*l->f);
    EXPECT_EQ(c.warps, 4);
    EXPECT_EQ(c.occupancy, 2);
    EXPECT_EQ(c.latency, 2);
  }
  const passes::Choices c = choose(*d256.f);
  EXPECT_EQ(c.warps, 8);
  EXPECT_EQ(c.occupancy, 1);
  EXPECT_EQ(c.ctas, 1);
}

/// The second product of each step in both arms of a branch.
void put_last_product_into_branch(ProductLoop& l) {
  const Operation* end = l.loop->region(0).terminator();
  Operation* product = end->operand(0).def();
  ir::Builder b = ir::Builder::before(product);
  Operation* branch = b.create(Op::If, {l.k.arg(Elem::I1)}, {product->result().type()});
  for (int arm = 0; arm < 2; ++arm) {
    b.set_to_end(branch->add_region());
    const Value again =
        b.create(Op::MmaF, {product->operand(0), product->operand(1), product->operand(2)}, {product->result().type()})
            ->result();
    b.create(Op::Yield, {again}, {});
  }
  product->result().replace_all_uses_with(branch->result());
  product->erase();
}

TEST(Hints, ArmsOfABranchDoNotHoldTheirAccumulatorsTogether) {
  // 64 x 64 and 64 x 128 elements fit four warps; with the second product counted twice they would not.
  ProductLoop plain(64, 64, 128, Elem::BF16, 128), branch(64, 64, 128, Elem::BF16, 128);
  put_last_product_into_branch(branch);
  ASSERT_EQ(problems_of(branch.k.module), "");
  const passes::Choices expected = choose(*plain.f), found = choose(*branch.f);
  EXPECT_EQ(expected.warps, 4);
  EXPECT_EQ(found.warps, expected.warps);
  EXPECT_EQ(found.occupancy, expected.occupancy);
}

TEST(Hints, LatencyIsSetOnTheLoadsOfTheLoopOnly) {
  ProductLoop chain(64, 128, 64, Elem::BF16, 64);
  choose(*chain.f);
  std::size_t hinted = 0, plain = 0;
  ir::walk(chain.f->body(), [&](const Operation& op) {
    if (op.op() == Op::LoadViewTko) ++(passes::hint(op, "latency") ? hinted : plain);
  });
  EXPECT_EQ(hinted, 2u);
  EXPECT_EQ(plain, 1u) << "the left operand is loaded before the loop";
}

TEST(Hints, ACorrectionOfAResultHasOneStepInFlight) {
  for (const bool corrects : {false, true}) {
    ProductLoop l(64, 64, 64, Elem::BF16, 64);
    put_into_branch(l, corrects ? product_is_large(l) : l.k.arg(Elem::I1));
    EXPECT_EQ(choose(*l.f).latency, 2);
    const ir::Attribute* latency = passes::hint(*l.keys, "latency");
    ASSERT_TRUE(latency);
    EXPECT_EQ(latency->as<ir::IntAttr>()->value, corrects ? 1 : 2);
  }
}

TEST(Hints, NoClustersBeforeHopper) {
  ProductLoop big(256, 256, 64);
  EXPECT_EQ(choose(*big.f, {80, 108}).ctas, 1);
  EXPECT_EQ(choose(*big.f, {120, 188}).ctas, 1);
}

TEST(Hints, ThinChainsLoadAsFarAheadAsFits) {
  // 16 queries against steps of n keys of depth 128: 8 KB to 64 KB a step, two CTAs.
  for (const auto& [n, latency] : {std::pair{16, 6}, {64, 3}, {128, 2}}) {
    ProductLoop chain(16, n, 128, Elem::BF16, 128);
    const passes::Choices c = choose(*chain.f);
    EXPECT_EQ(c.occupancy, 2) << n;
    EXPECT_EQ(c.latency, latency) << n;
  }
}

TEST(Hints, ThinProductsKeepThreeStepsOfEachCtaInFlight) {
  // 64 rows of weights times 8 of activations, by the length of a step: 18, 36 and 72 KB.
  for (const auto& [k, occupancy] : {std::pair{128, 4}, {256, 2}, {512, 1}}) {
    ProductLoop loop(64, 8, k);
    const passes::Choices c = choose(*loop.f);
    EXPECT_EQ(c.occupancy, occupancy) << k;
    EXPECT_EQ(c.latency, 3) << k;
    EXPECT_EQ(c.warps, 4);
  }
}

TEST(Hints, SmallTilesShareAMultiprocessorInLaunchesOfManyPieces) {
  const auto chosen = [](std::int32_t m, std::int32_t n, passes::Pieces pieces) {
    ProductLoop loop(m, n, 64);
    const passes::Choices c = passes::choose_hints(*loop.f, kHopper, {}, {}, pieces);
    return std::pair{c.occupancy, c.latency};
  };
  EXPECT_EQ(chosen(128, 64, passes::Pieces::Unknown), (std::pair{1, 4}));
  EXPECT_EQ(chosen(128, 64, passes::Pieces::Several), (std::pair{2, 4}));
  EXPECT_EQ(chosen(64, 64, passes::Pieces::Unknown).first, 1);
  EXPECT_EQ(chosen(64, 64, passes::Pieces::Several), (std::pair{3, 4})) << "three";
  EXPECT_EQ(chosen(256, 128, passes::Pieces::Several), chosen(256, 128, passes::Pieces::Unknown)) << "large tiles";
}
TEST(Hints, LongStepsOfSmallTilesShareAMultiprocessor) {
  // 48, 24 and 48 KB a step, of which the last waits for memory.
  for (const auto& [m, k, occupancy, latency] : {std::tuple{128, 128, 2, 2}, {128, 64, 1, 4}, {32, 256, 1, 4}}) {
    ProductLoop loop(m, 64, k);
    const passes::Choices c = choose(*loop.f);
    EXPECT_EQ(std::tuple(c.occupancy, c.latency), std::tuple(occupancy, latency)) << m;
  }
}

TEST(Hints, SumsOfEightBitsAreKeptTwiceUnlessFast) {
  for (const auto& [fast, in_place] : {std::pair{false, true}, {true, true}, {true, false}}) {
    ProductLoop loop(128, 128, 128, Elem::F8E4M3FN);
    ir::walk(loop.f->body(), [&, fast = fast, in_place = in_place](Operation& op) {
      if (op.op() != Op::MmaF) return;
      if (fast) op.set_attr(ir::AttrName::fast_acc, ir::UnitAttr{});
      if (!in_place) op.set_operand(2, loop.loop->operand(3));
    });
    EXPECT_EQ(choose(*loop.f).warps, fast && in_place ? 4 : 8);
  }
}

TEST(Hints, OverridesWinAndAreChecked) {
  Row row(1024);
  passes::Tuning tuning;
  tuning.warps = 8;
  tuning.occupancy = 3;
  const passes::Choices c = choose(*row.f, kHopper, tuning);
  EXPECT_EQ(c.warps, 8);
  EXPECT_EQ(c.occupancy, 3);
  EXPECT_NE(row.k.text().find("num_worker_warps_per_cta = 8"), std::string::npos);
  for (const int bad : {0, 3, 64, -1}) {
    passes::Tuning wrong;
    wrong.warps = bad;
    EXPECT_THROW(choose(*row.f, kHopper, wrong), CompileError) << bad;
  }
  passes::Tuning clusters;
  clusters.ctas = 2;
  EXPECT_THROW(choose(*row.f, {80, 108}, clusters), CompileError);
  EXPECT_NO_THROW(choose(*row.f, kHopper, clusters));
}

}  // namespace THIS_FILE
