// Which scans the assembler may compute: along an axis that neighbouring lanes lie along, in kernels without products.
// The others have the same results when they are expanded, for all types and special values.
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/rounds.hpp"
#include "kernels/programs/scan_kernels.hpp"
#include "passes/pass_support.hpp"
#include "passes/passed.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;

ir::Value scan_of(Kernel& k, ir::Value x, std::int64_t axis) {
  ir::Operation* scan = k.b.create(ir::Op::Scan, {x}, {x.type()},
                                   {{ir::AttrName::dim, ir::IntAttr{ir::Elem::I64, axis}},
                                    {ir::AttrName::reverse, false},
                                    {ir::AttrName::identities, ir::ArrayAttr{{ir::IntAttr{ir::Elem::I32, 0}}}}});
  ir::Block& body = scan->add_region();
  const ir::Type i32 = x.type().with_shape({});
  const ir::Value a = body.add_arg(i32), b = body.add_arg(i32);
  ir::Builder in(body);
  in.create(ir::Op::Yield, {in.create(ir::Op::AddI, {a, b}, {i32})->result()}, {});
  return scan->result();
}
/// How many scans of the kernel are left when `x` is scanned along `axis`.
std::size_t scans_left(Kernel& k, ir::Value x, std::int64_t axis) {
  std::vector<ir::Value> first_element{scan_of(k, x, axis)};
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

  Kernel beside;
  const ir::Value a = tile_of(beside, {ir::kDynamic, 1}, {16, 16}), line = tile_of(beside, {1}, {64});
  const ir::Value small = beside.op(ir::Op::TruncI, {a}, a.type().with_element(ir::Elem::I8));
  beside.keep(beside.op(ir::Op::MmaI, {small, small, a}, a.type(),
                        {{ir::AttrName::signedness_lhs, ir::Signedness::Signed},
                         {ir::AttrName::signedness_rhs, ir::Signedness::Signed}}));
  EXPECT_EQ(scans_left(beside, line, 0), 0u) << "a line that does not depend on the product";
}

TEST(ExpandScans, AlongOneElementThereIsNothingToScan) {
  EXPECT_EQ(scans_of({ir::kDynamic, 1}, {1, 16}, 0), 0u);
  EXPECT_EQ(scans_of({ir::kDynamic, 1}, {1, 1}, 1), 0u);
  EXPECT_EQ(scans_of({ir::kDynamic, 1}, {1, 2}, 1), 1u);
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

/// One tile that is scanned along both axes. Parts of it, which the first expansion makes, may change its layout.
TEST(ExpandScans, BesideAnExpansionNoScanIsLeft) {
  Kernel k;
  const ir::Value x = tile_of(k, {ir::kDynamic, 1}, {8, 16});
  const ir::Value rows = scan_of(k, x, 1);
  k.keep(rows);
  EXPECT_EQ(scans_left(k, x, 0), 0u);
}

/// A tile that a reduction gives two warps, and one of eight warps: with twice the tile and 32 other registers of each
/// thread, three and two blocks fit.
TEST(ExpandScans, WarpsAndBlocksHaveTheRegistersOfTheScan) {
  struct Case {
    std::vector<std::int32_t> tile;
    int warps, occupancy;
  };
  for (const auto& [tile, warps, occupancy] : {Case{{64, 64}, 4, 5}, Case{{32, 256}, 8, 2}, Case{{128, 128}, 8, 1}}) {
    Kernel k;
    const ir::Value x = tile_of(k, {ir::kDynamic, 1}, tile), y = scan_of(k, x, 0);
    const ir::Type i32 = x.type().with_shape({});
    ir::Operation* sum = k.b.create(ir::Op::Reduce, {x}, {x.type().with_shape(std::vector<std::int64_t>{tile[0]})},
                                    {{ir::AttrName::dim, ir::IntAttr{ir::Elem::I64, 1}},
                                     {ir::AttrName::identities, ir::ArrayAttr{{ir::IntAttr{ir::Elem::I32, 0}}}}});
    ir::Block& body = sum->add_region();
    const ir::Value a = body.add_arg(i32), b = body.add_arg(i32);
    ir::Builder in(body);
    in.create(ir::Op::Yield, {in.create(ir::Op::AddI, {a, b}, {i32})->result()}, {});
    k.keep(sum->result());
    k.keep(y);
    ir::Function& f = k.function();
    const passes::ScannedRegisters registers = passes::expand_scans(f);
    EXPECT_EQ(registers.tile, tile[0] * tile[1]);
    EXPECT_EQ(registers.beside, 0) << "no loop";
    const passes::Choices choices = passes::choose_hints(f, {90, 132}, {}, {}, passes::Pieces::Unknown, registers);
    EXPECT_EQ(choices.warps, warps) << tile[0] << " x " << tile[1];
    EXPECT_EQ(choices.occupancy, occupancy) << tile[0] << " x " << tile[1];
  }
}

void scanned(Mut<f32, 32, 128> y, In<f32, dyn, dyn> x) { y.store(cumsum(x.load_like(y), axis<0>)); }
void scanned_and_carried(Mut<f32, 32, 128> y, In<f32, dyn, dyn> x) {
  auto tiles = x.tiles(shape<32, 128>);
  auto sum = zeros<f32, 32, 128>();
  for (auto i : range(tiles.count(0))) sum += cumsum(tiles.load(i, 0), axis<0>);
  y.store(sum);
}
void scanned_in_parts(Mut<f32, 32, 128> y, In<f32, dyn, dyn> x) {
  auto tiles = x.tiles(shape<32, 128>);
  auto before = zeros<f32, 1, 128>();
  for (auto i : range(tiles.count(0))) {
    auto tile = tiles.load(i, 0);
    y.store(cumsum(tile, axis<0>) + before);
    before += sum(tile, axis<0>);
  }
}
TEST(ExpandScans, WhatALoopCarriesTakesRegistersToo) {
  const auto occupancy = [](const Passed& p, int warps = 8) {
    EXPECT_EQ(p.choices.warps, warps);
    return p.choices.occupancy;
  };
  const std::vector<std::vector<std::int64_t>> dims{{32, 128}, {320, 128}};
  EXPECT_EQ(occupancy(passed<&scanned>(dims, {})), 4) << "twice the tile and 32: 64 registers";
  EXPECT_EQ(occupancy(passed<&scanned_and_carried>(dims, {})), 2)
      << "a tile that is carried and one that is loaded: 32 more";
  EXPECT_EQ(occupancy(passed<&scanned_in_parts>(dims, {}), 4), 5)
      << "a tile that is prefetched is not carried: twice the tile and 32, 96 registers";
}

// ---- results --------------------------------------------------------------------------------------------------------

std::size_t elements_of(const std::vector<int>& shape) {
  std::size_t n = 1;
  for (const int extent : shape) n *= static_cast<std::size_t>(extent);
  return n;
}

/// The bits of `v` in an element of type `e`; a floating type holds it exactly.
std::uint64_t bits_of(ElementType e, double v) {
  std::uint64_t bits = 0;
  const auto store = [&](auto number) { std::memcpy(&bits, &number, sizeof number); };
  switch (e) {
    case ElementType::f64: store(v); break;
    case ElementType::f32: store(static_cast<float>(v)); break;
    case ElementType::f16: store(f16(static_cast<float>(v))); break;
    case ElementType::bf16: store(bf16(static_cast<float>(v))); break;
    default: break;
  }
  return bits;
}
double value_of(ElementType e, std::uint64_t bits) {
  const auto load = [&](auto number) {
    std::memcpy(&number, &bits, sizeof number);
    return static_cast<double>(number);
  };
  switch (e) {
    case ElementType::f64: return load(double{});
    case ElementType::f32: return load(float{});
    case ElementType::f16:
      return static_cast<double>(static_cast<float>(f16::from_bits(static_cast<std::uint16_t>(bits))));
    case ElementType::bf16:
      return static_cast<double>(static_cast<float>(bf16::from_bits(static_cast<std::uint16_t>(bits))));
    default: return 0;
  }
}

/// Any bits for integers, so that sums wrap. For floats numbers of which sums and products are exact in any order, and,
/// where `special` says so, infinities, NaN and zeros of either sign among them.
std::vector<std::byte> numbers(const ScanKernel& k, bool special, std::mt19937_64& random) {
  std::vector<std::byte> bytes;
  const bool floating = info(k.element).cls == ElementClass::Float;
  const auto size = static_cast<std::size_t>(size_of(k.element));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < elements_of(k.shape); ++i) {
    std::uint64_t bits = random();
    if (floating) {
      const std::uint64_t choice = random() % 64;
      double v = choice % 2 == 0 ? 1 : -1;
      if (k.function == ScanFunction::Sum && choice >= 48) v = 0;
      if (k.function == ScanFunction::LastNonzero && choice >= 32) v = 0;
      if (special && choice >= 40) v = choice % 2 == 0 || k.function == ScanFunction::LastNonzero ? 0. : -0.;
      if (special && choice < 6) v = choice < 2 ? kInfinity : choice < 4 ? -kInfinity : kNan;
      bits = bits_of(k.element, v);
    } else if (k.function == ScanFunction::LastNonzero && random() % 2 == 0) {
      bits = 0;
    }
    for (std::size_t b = 0; b < size; ++b) bytes.push_back(static_cast<std::byte>(bits >> (8 * b)));
  }
  return bytes;
}

/// The result of the kernel on the CPU. The tile is loaded by columns, so that no scan of it is left to the assembler.
std::vector<std::byte> run(const ir::Module& module, const ScanKernel& k, std::vector<std::byte>& x) {
  std::vector<std::byte> y(x.size());
  std::vector<std::uint64_t> slots;
  for (const bool by_columns : {false, true}) {
    slots.push_back(reinterpret_cast<std::uintptr_t>((by_columns ? x : y).data()));
    for (const int n : k.shape) slots.push_back(static_cast<std::uint64_t>(n));
    std::vector<std::uint64_t> strides(k.shape.size(), 1);
    for (std::size_t a = strides.size() - 1; a-- > 0;)
      strides[a] = strides[a + 1] * static_cast<std::uint64_t>(k.shape[a + 1]);
    if (by_columns && strides.size() > 1) {
      strides.front() = 1;
      for (std::size_t a = 1; a < strides.size(); ++a)
        strides[a] = strides[a - 1] * static_cast<std::uint64_t>(k.shape[a - 1]);
    }
    slots.insert(slots.end(), strides.begin(), strides.end());
  }
  cpu::RunOptions options;
  options.threads = 1;
  cpu::Program::compile(module)->run({1, 1, 1}, slots, options);
  return y;
}

/// A product of constants at the start of the kernel, which nothing uses.
void add_product(ir::Function& f) {
  ir::Builder b = ir::Builder::before(f.body().front());
  const auto zeros = [&](ir::Elem e) {
    const ir::Type type = ir::Type::tile(e, {16, 16});
    return b.constant(type, ir::DenseAttr{type, std::vector<std::byte>(ir::info(e).bytes), true});
  };
  const ir::Value factor = zeros(ir::Elem::I8), sum = zeros(ir::Elem::I32);
  b.create(
      ir::Op::MmaI, {factor, factor, sum}, {sum.type()},
      {{ir::AttrName::signedness_lhs, ir::Signedness::Signed}, {ir::AttrName::signedness_rhs, ir::Signedness::Signed}});
}

/// Expects that the expanded kernel has the bits of the recorded one; one NaN is as good as another.
void expect_same(const ScanKernel& k, bool beside_product, std::mt19937_64& random) {
  ScanRecorder recorder(k);
  lang::Specialization facts;
  const int rank = static_cast<int>(k.shape.size());
  facts.tensors = {{rank - 1, 0, 0}, {0, 0, 0}};
  const lang::Trace trace = recorder.trace(facts);
  const auto expanded = ir::clone(*trace.module);
  ir::Function& f = *expanded->functions.front();
  if (beside_product) add_product(f);
  ASSERT_GT(passes::expand_scans(f).tile, 0) << k.text();
  ASSERT_EQ(problems_of(*expanded), "") << k.text();
  ASSERT_EQ(count(f, ir::Op::Scan), 0u) << k.text();
  const bool in_halves = beside_product || k.shape[static_cast<std::size_t>(k.axis)] > 512;
  ASSERT_EQ(count(f, in_halves ? ir::Op::Cat : ir::Op::Reduce), 0u) << k.text();
  for (const bool special : {false, true}) {
    std::vector<std::byte> x = numbers(k, special, random);
    const std::vector<std::byte> expected = run(*trace.module, k, x), found = run(*expanded, k, x);
    const auto size = static_cast<std::size_t>(size_of(k.element));
    for (std::size_t i = 0; i < expected.size(); i += size) {
      std::uint64_t e = 0, n = 0;
      std::memcpy(&e, &expected[i], size), std::memcpy(&n, &found[i], size);
      const double a = value_of(k.element, e), b = value_of(k.element, n);
      ASSERT_TRUE(e == n || (a != a && b != b)) << k.text() << ", element " << i / size << ": expected " << a << " ("
                                                << e << "), found " << b << " (" << n << ")";
    }
  }
}

constexpr ElementType kElements[] = {ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64,
                                     ElementType::i8,  ElementType::i16,  ElementType::i32, ElementType::i64,
                                     ElementType::u8,  ElementType::u16,  ElementType::u32, ElementType::u64};
constexpr ScanFunction kFunctions[] = {ScanFunction::Sum, ScanFunction::Product, ScanFunction::Largest,
                                       ScanFunction::LastNonzero};

void expect_same_for_all(bool beside_product) {
  struct Along {
    std::vector<int> shape;
    int axis;
  };
  const Along all[] = {{{2, 4}, 0},   {{4, 2}, 1},    {{4, 16}, 1},    {{32, 2}, 0},    {{2, 64}, 1},   {{128, 2}, 0},
                       {{2, 256}, 1}, {{2, 8, 4}, 1}, {{16, 2, 2}, 0}, {{2, 4, 32}, 2}, {{4, 64, 2}, 1}};
  std::mt19937_64 random(39);
  std::size_t number = 0;
  for (const ElementType element : kElements)
    for (const ScanFunction function : kFunctions)
      for (const Along& a : all)
        for (const bool backward : {false, true})
          if (number++ % test::one_in(8) == 0)
            expect_same({element, a.shape, a.axis, backward, function, ScanPlace::Alone}, beside_product, random);
}
TEST(ExpandScans, InPartsResultsAreThoseOfTheScan) { expect_same_for_all(false); }
TEST(ExpandScans, InHalvesBesideAProductResultsAreThoseOfTheScan) { expect_same_for_all(true); }
/// In parts, long axes take the assembler minutes.
TEST(ExpandScans, AlongLongAxesResultsAreThoseOfTheScan) {
  std::mt19937_64 random(41);
  for (const auto& [extent, function] :
       {std::pair{512, ScanFunction::Sum}, {1024, ScanFunction::LastNonzero}, {4096, ScanFunction::Sum}})
    for (const bool backward : {false, true})
      expect_same({ElementType::f32, {2, extent}, 1, backward, function, ScanPlace::Alone}, false, random);
}

}  // namespace THIS_FILE
