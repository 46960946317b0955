// Obligations of the API page's kernels: their text, for which shapes they hold, and the kernel
// after they are applied.
#include "tessera/analysis/facts.hpp"

#include <algorithm>
#include <set>

#include "analysis/support.hpp"
#include "passes/accepting.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/ir/dead_code.hpp"
#include "tessera/lang/trace.hpp"
#include "tessera/passes/passes.hpp"
#include "tessera/passes/predicates.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::test {
namespace {

using namespace api_kernels;
using Names = std::vector<std::string>;

/// The bit of the obligation with this text; fails the test if there is none.
std::uint64_t bit(const Recorded& r, const std::string& text) {
  for (std::size_t i = 0; i < r.facts.obligations().size(); ++i) {
    if (r.facts.obligations()[i].text == text) return std::uint64_t{1} << i;
  }
  ADD_FAILURE() << "no obligation \"" << text << "\" among\n" << r.obligations();
  return 0;
}

TEST(Facts, SoftmaxAsksForWhatItsRowsNeed) {
  const Recorded r = recorded<softmax<1024>>();
  const std::uint64_t guard =
      bit(r, "arg1.dim(0) <= arg2.dim(0) and ceil(arg1.dim(1) / 1024) <= ceil(arg2.dim(1) / 1024)");
  const std::uint64_t y = bit(r, "arg1.dim(1) is a multiple of 1024"), x = bit(r, "arg2.dim(1) is a multiple of 1024");
  struct Row {
    std::vector<std::vector<std::int64_t>> dims;
    std::uint64_t expected;
  };
  const Row table[] = {
      {{{8, 1024}, {8, 1024}}, guard | y | x},
      {{{8, 1000}, {8, 1000}}, guard},
      {{{8, 1000}, {8, 1024}}, guard | x},
      {{{9, 1024}, {8, 1024}}, y | x},
      {{{8, 2048}, {8, 1024}}, y | x},
      {{{8, 2047}, {8, 1024}}, x},
      {{{1, 1}, {1, 1}}, guard},
      {{{8, 1024}, {9, 1025}}, guard | y},
  };
  for (const Row& row : table)
    EXPECT_EQ(r.held(row.dims) & (guard | y | x), row.expected) << row.dims[0][1] << ", " << row.dims[1][1];
}

TEST(Facts, GuardsComeBeforeInboundsBeforeDivisibility) {
  const Recorded r = recorded<attention<64, 64, 64>>();
  auto last = analysis::ObligationUse::Guard;
  for (const auto& o : r.facts.obligations()) {
    EXPECT_LE(last, o.use);
    last = o.use;
    const bool of_arguments =
        o.use == analysis::ObligationUse::Divisibility || o.use == analysis::ObligationUse::Vectors;
    EXPECT_TRUE(of_arguments || o.where.known());
  }
  EXPECT_LE(r.facts.obligations().size(), 64u);
}

TEST(Facts, WholeTilesLeaveNoGuard) {
  EXPECT_EQ(inbounds(*recorded<saxpy<1024>>().claimed({{4096}, {4096}})), (Names{"1", "1", "1"}));
  const auto softmax_module = recorded<softmax<1024>>().claimed({{77, 1024}, {77, 1024}});
  EXPECT_EQ(count(*softmax_module, ir::Op::If), 0);
  EXPECT_EQ(inbounds(*softmax_module), (Names{"11", "11"}));
  const auto persistent = recorded<gemm<f16, 128, 128, 64>>().claimed({{1024, 512}, {1024, 256}, {256, 512}});
  EXPECT_EQ(count(*persistent, ir::Op::If), 0);
  EXPECT_EQ(inbounds(*persistent), (Names{"11", "11", "11"}));
  const auto blocks = recorded<gemm_blocks<f16, 128, 128, 64>>().claimed({{1024, 512}, {1024, 256}, {256, 512}});
  EXPECT_EQ(count(*blocks, ir::Op::If), 0);
  EXPECT_EQ(inbounds(*blocks), (Names{"11", "11", "11"}));
  const auto whole = recorded<attention<64, 64, 64>>().claimed(
      {{2, 8, 1024, 64}, {2, 8, 1024, 64}, {2, 2, 1024, 64}, {2, 2, 1024, 64}});
  EXPECT_EQ(count(*whole, ir::Op::If), 1);  // the causal mask of the diagonal
  EXPECT_EQ(inbounds(*whole), (Names{"1111", "1111", "1111", "1111"}));
}

TEST(Facts, RaggedShapesKeepOnlyWhatDoesNotHold) {
  const auto rows = recorded<softmax<1024>>().claimed({{77, 1000}, {77, 1000}});
  EXPECT_EQ(count(*rows, ir::Op::If), 0);
  EXPECT_EQ(inbounds(*rows), (Names{"10", "10"}));
  const auto k = recorded<gemm<f16, 128, 128, 64>>().claimed({{1024, 512}, {1024, 250}, {250, 512}});
  EXPECT_EQ(count(*k, ir::Op::If), 0);
  Names accesses = inbounds(*k);  // of a and b in either order: compilers evaluate the arguments of mma differently
  std::sort(accesses.begin(), accesses.end());
  EXPECT_EQ(accesses, (Names{"01", "10", "11"}));
  const auto short_b = recorded<gemm<f16, 128, 128, 64>>().claimed({{1024, 512}, {1024, 256}, {128, 512}});
  EXPECT_EQ(count(*short_b, ir::Op::If), 1);  // b has fewer tiles along k than a
  const auto short_x = recorded<softmax<1024>>().claimed({{77, 1024}, {76, 1024}});
  EXPECT_EQ(count(*short_x, ir::Op::If), 1);
}

TEST(Facts, WithoutSlotsNothingHolds) { EXPECT_EQ(recorded<softmax<1024>>().facts.evaluate({}), 0u); }

TEST(Facts, OddAddressesAndStridesAreNotAssumed) {
  const Recorded r = recorded<softmax<1024>>();
  auto slots = r.slots({{8, 1024}, {8, 1024}});
  const std::uint64_t aligned = bit(r, "arg1.address is a multiple of 16");
  EXPECT_NE(r.facts.evaluate(slots) & aligned, 0u);
  slots[0] += 2;
  EXPECT_EQ(r.facts.evaluate(slots) & aligned, 0u);
  const auto before = r.facts.evaluate(slots);
  slots[3] = 1023;  // the row stride
  EXPECT_NE(r.facts.evaluate(slots), before);
}

TEST(Facts, AStrideIsBelievedToBeOneOfWholeVectorsIfItIsPositiveAndIn32Bits) {
  const Recorded r = recorded<softmax<1024>>();
  constexpr std::size_t kStride = 3;
  constexpr std::uint64_t kWhole = 8;  // f16
  const auto believed = [&](std::int64_t stride) {
    auto slots = r.slots({{8, 1024}, {8, 1024}});
    slots[kStride] = static_cast<std::uint64_t>(stride);
    const std::uint64_t held = r.facts.evaluate(slots);
    const auto& claims = r.facts.claims();
    return std::any_of(claims.begin(), claims.end(), [&](const analysis::Claim& c) {
      const bool about = c.kind == analysis::ClaimKind::ArgBounded ||
                         (c.kind == analysis::ClaimKind::ArgDivisible && c.divisor == kWhole);
      return about && c.index == kStride && c.holds(held);
    });
  };
  EXPECT_TRUE(believed(1024));
  EXPECT_TRUE(believed(8));
  EXPECT_FALSE(believed(0)) << "tensor maps have no such stride";
  EXPECT_FALSE(believed(-8));
  EXPECT_FALSE(believed(1023));
  EXPECT_FALSE(believed(std::int64_t{1} << 32));
}

TEST(Facts, RowsThatFitOnePieceAreFoundWithoutADivision) {
  const Recorded r = recorded<softmax<1024>>();
  const std::uint64_t one_piece = bit(r, "arg1.dim(1) <= 1024");
  EXPECT_NE(r.held({{8, 1024}, {8, 1024}}) & one_piece, 0u);
  EXPECT_NE(r.held({{8, 3}, {8, 3}}) & one_piece, 0u);
  EXPECT_EQ(r.held({{8, 1025}, {8, 1025}}) & one_piece, 0u);
  const auto divisions = [&](std::int64_t columns) {
    const auto module = r.claimed({{8, columns}, {8, columns}});
    ir::remove_dead_code(*module->functions[0]);
    return count(*module, ir::Op::DivI) + count(*module, ir::Op::RemI);
  };
  EXPECT_EQ(divisions(1000), 0);
  EXPECT_GT(divisions(2048), 0);
  // Not worth a variant of a kernel with products.
  EXPECT_EQ((recorded<attention<64, 64, 64>>().obligations().find("arg1.dim(1) <= 1")), std::string::npos);
}

// What a row surely fills of its tile needs no mask: half and three quarters are asked, of rows that fit. What it
// surely leaves empty needs no tile: five and six eighths are asked, of the tile, of half and of a quarter of it.
TEST(Facts, RowsThatNearlyFillTheirTileAreKnown) {
  const Recorded r = recorded<softmax<1024>>();
  const auto half = bit(r, "arg2.dim(1) <= 1023 and 513 <= arg2.dim(1)"),
             most = bit(r, "arg2.dim(1) <= 1023 and 769 <= arg2.dim(1)");
  const std::pair<std::int64_t, std::uint64_t> rows[] = {
      {1, 0}, {512, 0}, {513, half}, {768, half}, {769, half | most}, {1023, half | most}, {1024, 0}, {1025, 0}};
  for (const auto& [columns, expected] : rows)
    EXPECT_EQ(r.held({{8, columns}, {8, columns}}) & (half | most), expected) << columns;
  const auto bounds = [&](std::int64_t columns) { return ir::print(*r.claimed({{8, columns}, {8, columns}})); };
  EXPECT_NE(bounds(1000).find("bounded<769, 1023>"), std::string::npos);
  const std::pair<std::int64_t, const char*> known[] = {
      {1, "<1, 256>"},     {128, "<1, 256>"},   {129, "<129, 160>"}, {160, "<129, 160>"}, {161, "<129, 192>"},
      {193, "<1, 256>"},   {256, "<1, 256>"},   {257, "<257, 320>"}, {321, "<257, 384>"}, {385, "<257, 512>"},
      {512, "<257, 512>"}, {513, "<513, 640>"}, {700, "<513, 768>"}, {769, "<769, 1023>"}};
  for (const auto& [columns, range] : known)
    EXPECT_NE(bounds(columns).find(std::string("bounded") + range + ", %arg"), std::string::npos) << columns;
  EXPECT_EQ(bounds(1024).find(", 1023>, %arg"), std::string::npos);
}

void weighted_rows(Mut<f32, 1, 512> y, In<f32, dyn, dyn> x, In<f32, dyn> weight) {
  y.store(x.load_like(y) * weight.load_like(y, axes<1>));
}
TEST(Facts, VectorsAreKnownToFillTheirTileWhereTheyAreAsLongAsRows) {
  const Recorded r = recorded<weighted_rows>();
  const auto known = [&](std::int64_t columns, std::int64_t weights) {
    const std::string text = ir::print(*r.claimed({{8, columns}, {8, columns}, {weights}}));
    int n = 0;
    for (std::size_t at = 0; (at = text.find("bounded<385, 511>", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(known(500, 500), 3);
  EXPECT_EQ(known(500, 499), 2) << "a vector of another length, such as what is left of a flat tensor";
  EXPECT_EQ(known(300, 500), 0);
}

void across_rows(Mut<f32, 512, 2> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y)); }
void chunks_of_rows(Mut<f32, 1, 16> y, In<f32, dyn, dyn> x) {
  auto [row, zero] = y.index();
  auto X = x.tiles(shape<1, 512>);
  auto sums = zeros<f32, 1, 512>();
  for (auto c : range(X.count(1))) sums = sums + X.load(row, c);
  y.store(broadcast(sum(sums, axis<1>), shape<1, 16>));
}
void first_chunk(Mut<f32, 1, 16> y, In<f32, dyn, dyn> x) {
  auto [row, zero] = y.index();
  y.store(broadcast(sum(x.tiles(shape<1, 512>).load(row, 0), axis<1>), shape<1, 16>));
}
void first_chunk_and_others(Mut<f32, 1, 16> y, In<f32, dyn, dyn> x) {
  auto [row, zero] = y.index();
  auto X = x.tiles(shape<1, 512>);
  auto sums = X.load(row, 0);
  for (auto c : range(X.count(1))) sums = sums + X.load(row, c);
  y.store(broadcast(sum(sums, axis<1>), shape<1, 16>));
}
template <auto K>
bool asks_how_full() {
  const Recorded r = recorded<K>();
  const auto asks = [&](analysis::ObligationUse use) {
    return std::ranges::any_of(r.facts.obligations(), [&](const auto& o) { return o.use == use; });
  };
  const bool how_full = asks(analysis::ObligationUse::Mask);
  EXPECT_EQ(how_full || asks(analysis::ObligationUse::Pieces) || asks(analysis::ObligationUse::Copies) ||
                asks(analysis::ObligationUse::Waves),
            r.facts.predicates().refinements() != 0);
  return how_full;
}
TEST(Facts, NoVariantsForWhatHasFewMasks) {
  EXPECT_TRUE(asks_how_full<softmax<512>>()) << "two vectors a thread of one warp";
  EXPECT_FALSE(asks_how_full<softmax<256>>()) << "one";
  EXPECT_FALSE(asks_how_full<saxpy<1024>>()) << "a vector";
  EXPECT_FALSE((asks_how_full<gemm<f16, 128, 1024, 64>>())) << "products";
  EXPECT_FALSE(asks_how_full<across_rows>()) << "not along the rows";
  EXPECT_FALSE(asks_how_full<chunks_of_rows>()) << "a block takes many";
  EXPECT_TRUE(asks_how_full<first_chunk>());
  EXPECT_FALSE(asks_how_full<first_chunk_and_others>()) << "the loop's masks stay";
}

// What such obligations say is never needed: the word without them has code for all launches that share the rest.
TEST(Facts, RefinementsAreAskedLast) {
  const auto refining = [](analysis::ObligationUse use) { return use >= analysis::ObligationUse::Pieces; };
  const Recorded r = recorded<softmax<1024>>();
  const std::uint64_t refines = r.facts.predicates().refinements();
  for (std::size_t i = 0; i < r.facts.obligations().size(); ++i)
    EXPECT_EQ((refines >> i) & 1, refining(r.facts.obligations()[i].use) ? 1u : 0u) << i;
  EXPECT_NE(r.held({{8, 1000}, {8, 1000}}), r.held({{8, 600}, {8, 600}}));
  EXPECT_EQ(r.held({{8, 1000}, {8, 1000}}) & ~refines, r.held({{8, 600}, {8, 600}}) & ~refines);
  const auto again = analysis::LaunchPredicates::read(r.facts.predicates().bytes());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->refinements(), refines);
}

TEST(Facts, BoundsThatNoLaunchHoldsTogetherAreLeftOut) {
  const Recorded r = recorded<softmax<1024>>();
  EXPECT_EQ(problems(*r.claimed(~std::uint64_t{0})), "");
}

// The masks of a row that nearly fills its tile are split, and its accesses stay as wide as they were.
TEST(Facts, PassesUnmaskWhatIsKnown) {
  const Recorded r = recorded<softmax<1024>>();
  const auto optimized = [&](std::int64_t columns, const char* tuning) {
    auto module = r.claimed({{8, columns}, {8, columns}});
    const passes::Tuning t = passes::parse_tuning(tuning);
    optimize_with_claims(*module, passes::Target{90, 132}, &t);
    return module;
  };
  const auto wide = [](const ir::Module& m) {
    const analysis::Divisibility known(*m.functions[0]);
    std::int64_t bytes = 0;
    ir::walk(m.functions[0]->body(), [&](const ir::Operation& op) {
      if (op.op() == ir::Op::LoadPtrTko) bytes = analysis::vector_bytes(op, known);
    });
    return bytes;
  };
  const auto nearly = optimized(1000, ""), short_row = optimized(200, ""), off = optimized(1000, "unmask=0");
  EXPECT_EQ(count(*nearly, ir::Op::OrI), 2) << "of the load, of the store";
  EXPECT_EQ(count(*short_row, ir::Op::OrI), 0);
  EXPECT_EQ(count(*off, ir::Op::OrI), 0);
  EXPECT_EQ(wide(*nearly), 16);
  EXPECT_EQ(wide(*short_row), 16);
}

template <class T, int R, int C>
void copy_part(Mut<T, R, C> y, In<T, dyn, dyn> x) {
  y.store(x.load_like(y, partial));
}
template <class T>
void copy_pixels(Mut<T, 1, 256, 4> y, In<T, dyn, dyn, 4> x) {
  y.store(x.load_like(y, partial));
}
/// Bytes that a thread loads and stores at a time.
template <auto K>
std::set<std::int64_t> widths(const std::vector<std::int64_t>& dims, std::uint64_t moved = 0) {
  const Recorded r = recorded<K>();
  auto slots = r.slots({dims, dims});
  slots[0] += moved;
  auto module = r.claimed(r.facts.evaluate(slots));
  const passes::Tuning t;
  optimize_with_claims(*module, passes::Target{90, 132}, &t);
  const analysis::Divisibility known(*module->functions[0]);
  std::set<std::int64_t> found;
  ir::walk(module->functions[0]->body(), [&](const ir::Operation& op) {
    if (analysis::access_of(op)) found.insert(analysis::vector_bytes(op, known));
  });
  return found;
}
void places_and_gathers(Acc<f32, dyn> y, In<f32, dyn> table, In<i32, dyn> index) {
  auto [i] = block_id<1>();
  y.add(index.tiles(shape<128>).load(i), table.gather(index.tiles(shape<128>).load(i)));
}
/// Rows of a gather whose first element is what `start` adds to a multiple of the row's tile.
template <class F>
void gathered_rows(const Mut<f32, 8, 64>& y, const In<f32, dyn, dyn>& x, F start) {
  auto out = y;
  auto [i, j] = y.origin();
  auto r = iota<i32, 8, 1>(axis<0>) + i;
  auto c = iota<i32, 1, 64>(axis<1>) + j;
  out.store(x.gather(r, start(r, c)));
}
void straight_rows(Mut<f32, 8, 64> y, In<f32, dyn, dyn> x) {
  gathered_rows(y, x, [](auto, auto c) { return c; });
}
void shifted_rows(Mut<f32, 8, 64> y, In<f32, dyn, dyn> x) {
  gathered_rows(y, x, [](auto r, auto c) { return c + r % 3; });
}
void moved_rows(Mut<f32, 8, 64> y, In<f32, dyn, dyn> x) {
  gathered_rows(y, x, [](auto r, auto c) { return (c + 2) + r * 4; });
}
void walking_rows(Mut<f32, 8, 64> y, In<f32, dyn, dyn> x, Scalar<i32> n) {
  auto [i, j] = y.origin();
  auto r = iota<i32, 8, 1>(axis<0>) + i;
  auto c = iota<i32, 1, 64>(axis<1>) + j;
  auto total = zeros<f32, 8, 64>();
  for (auto k : range(n)) {
    total += x.gather(r, c) * cast<f32>(k);
    c += 2;
  }
  y.store(total);
}
/// Counts loads only.
template <auto K>
std::set<std::int64_t> load_widths(const std::vector<std::int64_t>& dims, bool number = false) {
  const Recorded r = recorded<K>();
  auto slots = r.slots({dims, dims});
  if (number) slots.push_back(4);
  auto module = r.claimed(r.facts.evaluate(slots));
  const analysis::Divisibility known(*module->functions[0]);
  std::set<std::int64_t> found;
  ir::walk(module->functions[0]->body(), [&](const ir::Operation& op) {
    if (op.op() == ir::Op::LoadPtrTko) found.insert(analysis::vector_bytes(op, known));
  });
  return found;
}
// Rows of a gather are as wide as where they begin allows, also where a loop moves them.
TEST(Facts, WhereRowsOfGathersBegin) {
  using Widths = std::set<std::int64_t>;
  EXPECT_EQ((load_widths<straight_rows>({256, 256})), Widths{16});
  EXPECT_EQ((load_widths<straight_rows>({256, 254})), Widths{8});
  EXPECT_EQ((load_widths<shifted_rows>({256, 256})), Widths{4});
  EXPECT_EQ((load_widths<moved_rows>({256, 256})), Widths{8});
  EXPECT_EQ((load_widths<walking_rows>({256, 256}, true)), Widths{8});
}

// Rows that are no multiples of 16 bytes are moved by what divides them.
TEST(Facts, PartsOfVectors) {
  using Widths = std::set<std::int64_t>;
  EXPECT_EQ((widths<copy_part<f32, 4, 64>>({100, 752})), Widths{16});
  EXPECT_EQ((widths<copy_part<f32, 4, 64>>({100, 750})), Widths{8});
  EXPECT_EQ((widths<copy_part<f32, 4, 64>>({100, 751})), Widths{4});
  EXPECT_EQ((widths<copy_part<f32, 4, 64>>({100, 752}, 8)), (Widths{8, 16})) << "y begins between two vectors";
  EXPECT_EQ((widths<copy_part<f32, 4, 64>>({100, 752}, 4)), (Widths{4, 16}));
  EXPECT_EQ((widths<copy_part<f16, 4, 64>>({100, 1004})), Widths{8});
  EXPECT_EQ((widths<copy_part<f16, 4, 64>>({100, 1002})), Widths{4});
  EXPECT_EQ((widths<copy_part<f16, 4, 64>>({100, 1001})), Widths{2});
  EXPECT_EQ((widths<copy_part<f64, 4, 64>>({100, 751})), Widths{8});
  EXPECT_EQ((widths<copy_part<u8, 4, 64>>({100, 1004})), Widths{4});
  EXPECT_EQ((widths<copy_part<u8, 4, 64>>({100, 1002})), Widths{1}) << "pairs of bytes have no obligation";
  EXPECT_EQ((widths<copy_pixels<u8>>({100, 500, 4})), Widths{4}) << "a pixel at a time";
  const Recorded r = recorded<&places_and_gathers>();
  const auto of_vectors = [](const auto& o) { return o.use == analysis::ObligationUse::Vectors; };
  EXPECT_EQ(std::ranges::count_if(r.facts.obligations(), of_vectors), 1) << "of the index alone";
}

TEST(Facts, ACausalLoopNeverLeavesItsTensor) {
  // The loop ends at min(count, ...): its bound is the count, whatever the other side does.
  const Recorded r = recorded<attention<64, 64, 64>>();
  for (const auto& o : r.facts.obligations()) {
    if (o.use != analysis::ObligationUse::Inbounds) continue;
    EXPECT_EQ(o.text.find("min("), std::string::npos) << o.text;
  }
}

TEST(Facts, TheGuardOfAWideGridBoundsWhatWasComputedBeforeIt) {
  lang::Specialization wide = row_major(lang::trace<softmax<1024>>({}).params);
  wide.wide_grid = true;
  lang::Trace trace = lang::trace<softmax<1024>>(wide);
  analysis::LaunchContract contract = contract_of(trace.params);
  contract.wide_grid = true;
  analysis::Facts facts = analysis::Facts::analyze(*trace.module, contract, passes::predicate_table());
  const Recorded r{std::move(trace), std::move(contract), std::move(facts)};
  const auto module = r.claimed({{20'000'000, 1024}, {20'000'000, 1024}});
  EXPECT_EQ(count(*module, ir::Op::If), 1);  // the blocks beyond the last piece
  EXPECT_EQ(inbounds(*module), (Names{"11", "11"}));
}

void pieces_of_two_ranks(Mut<f32, 1, 1, 64> y, Mut<f32, 1> sums, In<f32, dyn> x) {
  auto row = y.load();
  auto offset = reshape(x.load_like(sums), shape<1, 1, 1>);
  sums.store(reshape(sum(row + offset, axis<2>), shape<1>));
}
TEST(Facts, TensorsOfDifferentRanksCountTheSameBlocks) {
  const auto module = recorded<pieces_of_two_ranks>().claimed({{8, 16, 64}, {128}, {128}});
  EXPECT_EQ(count(*module, ir::Op::If), 0);
  EXPECT_EQ(inbounds(*module), (Names{"111", "1", "1"}));
}

/// What a convolution loads: a window's tiles are further on than those of the output.
void later_tiles(Mut<f32, 1, 64> y, In<f32, dyn, dyn> x, Scalar<i32> apart, In<f32, dyn> weights) {
  auto [row, column] = y.index();
  auto sums = zeros<f32, 1, 64>();
  for (auto f : range(weights.dim(0))) sums = sums + x.tiles(shape<1, 64>).load(row + f * apart + 3, column);
  y.store(sums);
}
TEST(Facts, IndicesWithAnOffsetStayInsideALargerTensor) {
  const Recorded r = recorded<later_tiles>();
  const auto guards = [&](std::int64_t rows_of_x, std::int64_t apart) {
    auto slots = r.slots({{8, 128}, {rows_of_x, 128}, {5}});
    for (std::size_t i = 0; i < r.contract.args.size(); ++i)
      if (r.contract.args[i].role == analysis::ArgRole::Value) slots[i] = static_cast<std::uint64_t>(apart);
    return count(*r.claimed(r.facts.evaluate(slots)), ir::Op::If);
  };
  EXPECT_EQ(guards(8 + 4 * 10 + 3, 10), 0);
  EXPECT_EQ(guards(8 + 4 * 10 + 2, 10), 1) << "the last row would be outside";
  EXPECT_EQ(guards(1000, -1), 1) << "an index may be negative";
}

/// The guard of a load is meant to hold, also where launches are imaginable in which it never does.
void tiles_from(Mut<f32, 1, 64> y, In<f32, dyn, dyn> x, Scalar<i32> first) {
  auto [row, column] = y.index();
  y.store(x.tiles(shape<1, 64>).load(row + first, column));
}
TEST(Facts, GuardsOfLoadsAreMeantToHold) {
  const Recorded r = recorded<tiles_from>();
  const auto guards = [&](std::int64_t first) {
    auto slots = r.slots({{8, 128}, {100, 128}});
    for (std::size_t i = 0; i < r.contract.args.size(); ++i)
      if (r.contract.args[i].role == analysis::ArgRole::Value) slots[i] = static_cast<std::uint64_t>(first);
    return count(*r.claimed(r.facts.evaluate(slots)), ir::Op::If);
  };
  EXPECT_EQ(guards(92), 0);
  EXPECT_EQ(guards(93), 1);
  EXPECT_EQ(guards(65536), 1);
}

void one_number_a_block(Mut<f32, 1, 64> y, In<f32, dyn> scale) {
  auto [row, column] = y.index();
  y.store(y.load() * scale.gather(row));
}
TEST(Facts, ParityOfWhatNoVectorCrossesIsNotAsked) {
  const Recorded r = recorded<one_number_a_block>();
  EXPECT_EQ(r.obligations().find("arg2.dim(0) is a multiple"), std::string::npos) << r.obligations();
  EXPECT_EQ(r.obligations().find("arg1.dim(0) is a multiple"), std::string::npos) << r.obligations();
  EXPECT_NE(r.obligations().find("arg1.dim(1) is a multiple of 64"), std::string::npos) << r.obligations();
}

/// Kernels whose module is not what the contract describes have no facts, and no claim.
TEST(Facts, AContractOfAnotherKernelSaysNothing) {
  const Recorded r = recorded<softmax<1024>>();
  const analysis::Facts facts =
      analysis::Facts::analyze(*r.trace.module, recorded<saxpy<16>>().contract, passes::predicate_table());
  EXPECT_TRUE(facts.obligations().empty());
  EXPECT_TRUE(facts.claims().empty());
}

// What load_like requires to be the same is one number: nothing is asked of it, and what is asked is asked once.
template <auto K>
Recorded with_same_extents() {
  Recorded r = recorded<K>();
  for (const lang::SameExtent& e : r.trace.same_extents) {
    EXPECT_FALSE(e.or_one);
    r.contract.equal_args.push_back({e.loaded.slot, e.piece.slot});
  }
  r.facts = analysis::Facts::analyze(*r.trace.module, r.contract, passes::predicate_table());
  return r;
}
TEST(Facts, ExtentsThatAreTheSameAreOneNumber) {
  const Recorded apart = recorded<saxpy<1024>>(), r = with_same_extents<saxpy<1024>>();
  EXPECT_NE(apart.obligations().find("arg3.dim(0)"), std::string::npos);
  EXPECT_EQ(count(*apart.claimed(std::uint64_t{0}), ir::Op::If), 1);
  EXPECT_EQ(r.obligations().find("arg3.dim(0)"), std::string::npos) << r.obligations();
  EXPECT_LT(r.facts.obligations().size(), apart.facts.obligations().size());
  EXPECT_EQ(count(*r.claimed(std::uint64_t{0}), ir::Op::If), 0) << "the region of y is one of x's";
  EXPECT_EQ(inbounds(*r.claimed({{4096}, {4096}})), (std::vector<std::string>{"1", "1", "1"}));
  const std::string text = ir::print(*r.claimed({{4096}, {4096}}));
  std::size_t known = 0;  // that both extents are multiples of the tile
  for (std::size_t at = 0; (at = text.find("div_by<1024>", at)) != std::string::npos; ++at) ++known;
  EXPECT_EQ(known, 2u) << text;
  EXPECT_EQ(r.facts.slot_mask(5), 0u) << "x's extent is not read";

  const Recorded rows = with_same_extents<weighted_rows>();
  EXPECT_EQ(count(*rows.claimed(rows.held({{8, 500}, {8, 500}, {500}})), ir::Op::If), 0);
}

}  // namespace
}  // namespace tessera::test
