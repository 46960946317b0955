// No product of the library spills registers, whatever its shape: the forms that the plans choose for random shapes are
// assembled. Skipped without an assembler. TESSERA_TEST_FORMS=1000 assembles more than a few, TESSERA_TEST_SEED=N
// others, TESSERA_TEST_SECONDS=N as many as there is time for (scripts/long-tests.sh).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <set>
#include <string>

#include "tessera/host/contract.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/kernels/batched_gemm.hpp"
#include "tessera/kernels/matmul.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace {

using namespace kernels;
using epilogues::Plain;

/// A tensor of a launch. Transposed: the last but one axis is contiguous. `unit`: rows are apart by a multiple of so
/// many elements.
struct Matrix {
  std::vector<std::int64_t> dims;
  bool transposed = false;
  std::int64_t unit = 1;

  std::vector<std::int64_t> strides() const {
    std::vector<std::int64_t> all(dims.size(), 1);
    std::vector<std::size_t> order(dims.size());
    for (std::size_t a = 0; a < order.size(); ++a) order[a] = a;
    if (transposed) std::swap(order[order.size() - 1], order[order.size() - 2]);
    for (std::size_t a = order.size() - 1; a-- > 0;) all[order[a]] = all[order[a + 1]] * dims[order[a + 1]];
    const std::int64_t row = dims[order.back()], apart = ceil_div(row, unit) * unit;
    for (std::size_t a = order.size() - 1; a-- > 0;) all[order[a]] = all[order[a]] / row * apart;
    return all;
  }
};

/// What the assembler says of K for a launch with these tensors; values are 1.
template <auto K>
jit::CodeReport report_of(int sm, const std::vector<Matrix>& tensors) {
  lang::Specialization s;
  for (const Matrix& t : tensors) {
    lang::TensorFacts facts;
    facts.unit_axis = static_cast<int>(t.dims.size()) - (t.transposed ? 2 : 1);
    for (std::size_t a = 0; a < t.dims.size(); ++a) (t.dims[a] == 1 ? facts.unit_dims : facts.long_dims) |= 1u << a;
    s.tensors.push_back(facts);
  }
  lang::Trace trace = lang::trace<K>(s);
  std::vector<std::uint64_t> slots;
  std::size_t number = 0;
  for (const lang::ParamInfo& p : trace.params) {
    if (p.is_constant()) continue;
    if (!p.is_tensor()) {
      slots.push_back(1);
      continue;
    }
    const Matrix& t = tensors.at(number++);
    slots.push_back(number << 40);
    for (const std::int64_t n : t.dims) slots.push_back(static_cast<std::uint64_t>(n));
    for (const std::int64_t n : t.strides()) slots.push_back(static_cast<std::uint64_t>(n));
  }
  if (lang::counts_blocks(trace.params)) slots.push_back(264);
  const auto contract = detail::launch_contract(trace.params, false, trace.same_extents);
  const jit::Kernel kernel(std::move(trace.module), contract, {trace.name, false, {}});
  return kernel.report(jit::target_for(sm), slots);
}

/// A product, and how its operands lie in memory.
struct Product {
  std::int64_t batch, m, n, k;
  bool a_transposed, b_transposed;
  std::int64_t unit = 1;  ///< of the operands' rows: of copies more than 1

  template <class T, class M>
  ProductSize size() const {
    constexpr int bytes = static_cast<int>(sizeof(T));
    ProductSize s{m, n, k, bytes};
    s.by = multiplier_of<M>();
    const std::int64_t a = ceil_div(a_transposed ? m : k, unit) * unit, b = ceil_div(b_transposed ? k : n, unit) * unit;
    const auto starts = [](std::int64_t row) {
      return row % 64 == 0   ? RowStarts::At64
             : row % 32 == 0 ? RowStarts::At32
             : row % 16 == 0 ? RowStarts::At16
                             : RowStarts::Anywhere;
    };
    s.a = starts(a * bytes), s.b = starts(b * bytes);
    s.batch = batch;
    // Copies start at multiples of `unit` elements, but are as long as the operands.
    s.whole_rows = (a_transposed ? m : k) * bytes % 16 == 0 && (b_transposed ? k : n) * bytes % 16 == 0;
    s.along_k = !a_transposed && b_transposed;
    return s;
  }
  std::vector<Matrix> matrices() const {
    return {{{m, n}}, {{m, k}, a_transposed, unit}, {{k, n}, b_transposed, unit}};
  }
  std::vector<Matrix> batches() const {
    return {{{batch, m, n}}, {{batch, m, k}, a_transposed, unit}, {{batch, k, n}, b_transposed, unit}};
  }
  std::string text() const {
    return concat(batch, "x", m, "x", n, "x", k, a_transposed ? " T" : " N", b_transposed ? "T" : "N",
                  unit > 1 ? " of copies" : "");
  }
};

/// One kernel of a product, and what the assembler says of it.
struct Form {
  const char* name;
  jit::CodeReport (*report)(int sm, const Product& p);
};

template <class T>
consteval int step_of(const GemmTile& t) {
  return t.k_bytes / static_cast<int>(sizeof(T));
}
template <class T, class M, int Row>
jit::CodeReport whole(int sm, const Product& p) {
  constexpr GemmTile t = gemm_tile(multiplier_of<M>(), Row);
  using U = product_t<void, T>;
  if constexpr (t.persistent)
    return report_of<gemm_tiles<Plain, M, step_of<T>(t), U, T, t.m, t.n>>(sm, p.matrices());
  else if constexpr (t.order == Operands::Swapped)
    return report_of<gemm_tile_swapped<Plain, M, step_of<T>(t), U, T, t.m, t.n>>(sm, p.matrices());
  else
    return report_of<gemm_tile<Plain, M, step_of<T>(t), U, T, t.m, t.n>>(sm, p.matrices());
}
template <class T, class M, int Row>
jit::CodeReport batched(int sm, const Product& p) {
  constexpr GemmTile t = gemm_tile(multiplier_of<M>(), Row);
  using U = product_t<void, T>;
  if constexpr (t.persistent)
    return report_of<batched_gemm_tiles<Plain, M, step_of<T>(t), U, T, t.m, t.n>>(sm, p.batches());
  else if constexpr (t.order == Operands::Swapped)
    return report_of<batched_gemm_tile_swapped<Plain, M, step_of<T>(t), U, T, t.m, t.n>>(sm, p.batches());
  else
    return report_of<batched_gemm_tile<Plain, M, step_of<T>(t), U, T, t.m, t.n>>(sm, p.batches());
}
template <class T, class M, int Row>
jit::CodeReport split(int sm, const Product& p) {
  constexpr GemmTile t = gemm_tile(multiplier_of<M>(), Row);
  std::vector<Matrix> tensors = p.matrices();
  tensors[0] = {{kMaxSplits, p.m, p.n}};
  return report_of<partial_products<M, step_of<T>(t), acc_t<M>, T, t.m, t.n>>(sm, tensors);
}
template <class T, class M>
jit::CodeReport shared(int sm, const Product& p) {
  constexpr GemmTile t = gemm_tile(multiplier_of<M>(), kStreamRow);
  std::vector<Matrix> tensors = p.matrices();
  tensors[0] = {{132, t.m, t.n}};
  return report_of<shared_tiles<M, step_of<T>(t), acc_t<M>, T, t.m, t.n>>(sm, tensors);
}

/// Products of one element type: their plans, and the kernels of these.
struct Type {
  const char* name;
  ProductSize (*size)(const Product&);
  int first_sm;
  std::vector<Form> whole, batched, split;  ///< by the row of kGemmTiles, of split-K by that of kSplitRows
  Form shared;
};
template <class T, class M = T>
Type type_of(const char* name, int first_sm = 80) {
  Type type{name, [](const Product& p) { return p.size<T, M>(); }, first_sm, {}, {}, {}, {"stream_k", shared<T, M>}};
  [&]<std::size_t... R>(std::index_sequence<R...>) {
    type.whole = {Form{"gemm", whole<T, M, static_cast<int>(R)>}...};
    type.batched = {Form{"batched_gemm", batched<T, M, static_cast<int>(R)>}...};
  }(std::make_index_sequence<gemm_rows(sizeof(T))>{});
  type.split = {{"split_k", split<T, M, kSplitRows[0]>}};
  if constexpr (kSplitRows[1] < gemm_rows(sizeof(T)))
    type.split.insert(type.split.end(), {{"split_k", split<T, M, kSplitRows[1]>},
                                         {"split_k", split<T, M, kSplitRows[2]>},
                                         {"split_k", split<T, M, kSplitRows[3]>}});
  return type;
}

/// What the plan chooses for the product: the kernel, and a number that tells those of one type apart.
std::pair<Form, int> planned(const Type& type, const Product& p, const Target& target) {
  const ProductSize size = type.size(p);
  if (p.batch > 1) {
    const int row = gemm_heuristic(size, target);
    return {type.batched[static_cast<std::size_t>(row)], 100 + row};
  }
  const MatmulPlan plan = matmul_heuristic(size, target);
  if (plan.way == MatmulWay::StreamK) return {type.shared, 200};
  if (plan.way == MatmulWay::Whole) return {type.whole[static_cast<std::size_t>(plan.row)], plan.row};
  const auto at = std::find(std::begin(kSplitRows), std::end(kSplitRows), plan.row) - std::begin(kSplitRows);
  return {type.split[static_cast<std::size_t>(at)], 300 + plan.row};
}

std::int64_t random_extent(std::mt19937_64& random) {
  const std::int64_t n = std::int64_t{1} << (random() % 14), more = static_cast<std::int64_t>(random()) & (n - 1);
  switch (random() % 4) {
    case 0: return n;
    case 1: return (n + more + 63) / 64 * 64;
    case 2: return (n + more + 7) / 8 * 8;
    default: return n + more;
  }
}
Product random_product(std::mt19937_64& random) {
  const std::int64_t batch = random() % 3 == 0 ? 2 + static_cast<std::int64_t>(random() % 31) : 1;
  const std::int64_t m = random_extent(random), n = random_extent(random), k = random_extent(random);
  return {batch, m, n, k, random() % 2 == 0, random() % 2 == 0};
}

std::uint64_t asked(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Spills : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!jit::assembler_for("sm_90", &why)) GTEST_SKIP() << why;
  }
  const std::vector<Type> types{type_of<bf16>("bf16"),      type_of<f16>("f16"), type_of<f32>("f32"),
                                type_of<f32, tf32>("tf32"), type_of<f64>("f64"), type_of<f8e4m3>("f8e4m3", 89),
                                type_of<i8>("i8")};
};

/// Assembles `most` forms at most, each once for rows that tensor copies can load and once for others.
TEST_F(Spills, NoFormThatAPlanChoosesSpills) {
  const std::uint64_t seed = asked("TESSERA_TEST_SEED", 1), most = asked("TESSERA_TEST_FORMS", 6);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(asked("TESSERA_TEST_SECONDS", 3600));
  std::mt19937_64 random(seed);
  std::set<std::string> seen;
  for (std::uint64_t round = 0; round < 50 * most && seen.size() < most; ++round) {
    if (std::chrono::steady_clock::now() > end) break;
    const Type& type = types[random() % types.size()];
    Product p = random_product(random);
    constexpr int kGpus[] = {90, 90, 90, 80, 100, 120};
    const int sm = kGpus[random() % std::size(kGpus)];
    const Target target{true, 132, sm == 90 || sm == 100, sm >= 90};
    ProductSize size = type.size(p);
    if (copies_rows(-1, size, target)) p.unit = 64 / size.element_bytes, size = type.size(p);
    const auto [form, number] = planned(type, p, target);
    if (sm < type.first_sm) continue;
    if (!seen.insert(concat(sm, type.name, number, size.copied())).second) continue;
    const std::string what =
        concat(form.name, " of ", type.name, ", ", p.text(), ", sm_", sm, ", form ", number, ", seed ", seed);
    const jit::CodeReport r = form.report(sm, p);
    EXPECT_EQ(r.notes.resources.stack, 0u) << what;
    EXPECT_FALSE(r.notes.register_pressure) << what;
    std::printf("%s: %u registers, %u bytes of stack\n", what.c_str(), r.notes.resources.registers,
                r.notes.resources.stack);
    std::fflush(stdout);
  }
}

/// Elements of tf32 are rounded in registers: persistent tiles spilled for it, at shapes that the test above seldom
/// draws.
TEST_F(Spills, NoTileOfTf32DoesAtAnyLayout) {
  const Type& tf32_type = types[3];
  for (const bool rows_of_b : {false, true}) {
    const Product one{1, 1512, 928, 1864, false, rows_of_b}, many{3, 1512, 928, 1864, false, rows_of_b};
    for (std::size_t row = kFirstGpuGemm; row < tf32_type.whole.size(); ++row) {
      EXPECT_EQ(tf32_type.whole[row].report(90, one).notes.resources.stack, 0u) << row << one.text();
      EXPECT_EQ(tf32_type.batched[row].report(90, many).notes.resources.stack, 0u) << row << many.text();
    }
  }
}

/// Neighbours along k of 8 bits are far apart in shared memory, and take registers to come together.
TEST_F(Spills, OperandsOf8BitsMayLieByColumns) {
  const Product both{1, 13120, 1024, 64, true, true}, left{8, 35, 2664, 64, true, false};
  EXPECT_EQ((whole<f8e4m3, f8e4m3, 3>(120, both).notes.resources.stack), 0u);
  EXPECT_EQ((batched<i8, i8, 3>(120, left).notes.resources.stack), 0u);
}

/// The shape of which every type had tiles of 256x256, which spilled.
TEST(ProductPlans, RowsOfOddLengthAreCopiedOrHaveSmallTiles) {
  const Target h200{true, 132, true, true};
  for (const int bytes : {1, 2, 4, 8}) {
    ProductSize size{8205, 5921, 2949, bytes};
    size.a = RowStarts::Anywhere;
    const GemmTile& in_place = kGemmTiles[matmul_heuristic(size, h200).row];
    EXPECT_LE(in_place.m * in_place.n, kLargestTileWithoutCopies) << bytes;
    EXPECT_TRUE(copies_rows(-1, size, h200)) << bytes;
    const GemmTile& copied = kGemmTiles[gemm_heuristic(size.of_copies(), h200)];
    EXPECT_GT(copied.m * copied.n, kLargestTileWithoutCopies) << bytes;
  }
}
TEST(ProductPlans, WhatPassesThroughRegistersHasSmallerTiles) {
  const Target hopper{true, 132, true, true}, ampere{true, 108, false, false}, consumer{true, 170, false, true};
  const auto elements = [](ProductSize size, const Target& target) {
    const GemmTile& t = gemm_tile(size.by, gemm_heuristic(size, target));
    EXPECT_TRUE(fits(t, size, target));
    return t.m * t.n;
  };
  ProductSize bytes{4096, 4096, 4096, 1};
  EXPECT_GT(elements(bytes, hopper), 128 * 128);
  EXPECT_EQ(elements(bytes, ampere), 128 * 128) << "its warps take operands from registers";
  EXPECT_EQ(elements(bytes, consumer), 128 * 128);
  bytes.along_k = false;
  EXPECT_EQ(elements(bytes, hopper), 128 * 128) << "neighbours along k are brought together in registers";
  ProductSize doubles{4096, 4096, 4096, 8};
  doubles.by = Multiplier::Fp64;
  EXPECT_LE(elements(doubles, hopper), 128 * 128) << "a sum of f64 takes two registers";
  ProductSize ragged{4096, 4096, 4095, 2};
  ragged.whole_rows = false;
  EXPECT_GT(elements(ragged, hopper), 128 * 128) << "tensor copies load it";
  EXPECT_EQ(elements(ragged, ampere), kLargestTileWithoutCopies);
  EXPECT_GT(elements({4096, 4096, 4096, 2}, ampere), kLargestTileWithoutCopies);
}
TEST(ProductPlans, OperandsAreCopiedWhereThatPays) {
  const Target h200{true, 132, true, true}, cpu{};
  const auto copies = [](std::int64_t m, std::int64_t n, std::int64_t k, const Target& target, int row = -1) {
    ProductSize size{m, n, k};
    size.b = RowStarts::Anywhere;
    return copies_rows(row, size, target);
  };
  EXPECT_TRUE(copies(640, 925, 9648, h200));
  EXPECT_FALSE(copies(640, 925, 9648, cpu));
  EXPECT_FALSE(copies(16, 33, 64, h200)) << "the launch of the copy takes longer than the product";
  EXPECT_TRUE(copies(16, 33, 64, h200, 5)) << "the tile of 256x256 that is requested would spill";
  EXPECT_FALSE(copies_rows(5, ProductSize{16, 33, 64}, h200)) << "rows start at multiples of 16 bytes";
}

}  // namespace
}  // namespace tessera
