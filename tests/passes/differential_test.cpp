// Every kernel of the API page computes the same after the passes as before, on the CPU backend, which runs what the
// passes make for a GPU: pointer tiles with masks, split and pipelined loops.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <tuple>

#include "api/kernels.hpp"
#include "lang/run_kernel.hpp"
#include "passes/accepting.hpp"
#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;

template <class T>
Array<T> random_array(std::vector<std::int64_t> shape, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  Array<T> a(std::move(shape));
  return a.each([&](std::int64_t) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(rng() % 37);
    else
      return static_cast<T>(normal(rng));
  });
}

/// What analyses would claim if every tensor were a multiple of its tiles: guards of loads hold, nothing is ragged.
void claim_everything(ir::Module& module) {
  std::vector<ir::Operation*> guards;
  ir::walk(module.functions.front()->body(), [&](ir::Operation& op) {
    if (op.op() == ir::Op::LoadViewTko || op.op() == ir::Op::StoreViewTko) {
      const auto rank = op.single("view").type().tile_shape().size();
      op.set_attr(ir::AttrName::inbounds, ir::BoolArrayAttr{std::vector<bool>(rank, true)});
      if (ir::Operation* guard = op.parent_op(); guard && guard->op() == ir::Op::If && op.op() == ir::Op::LoadViewTko)
        guards.push_back(guard);
    }
  });
  for (ir::Operation* guard : guards) guard->set_operand(0, ir::Builder::before(guard).constant_int(ir::Elem::I1, 1));
}

template <class T>
bool close(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a == b;
  } else {
    const double x = static_cast<float>(a), y = static_cast<float>(b);
    const double unit = sizeof(T) == 2 ? 1.0 / 64 : 1e-5;
    return (std::isnan(x) && std::isnan(y)) || x == y || std::abs(x - y) <= unit * std::max(1.0, std::abs(x));
  }
}

template <class T>
void expect_close(const Array<T>& expected, const Array<T>& found, const char* variant) {
  std::size_t wrong = 0, at = 0;
  for (std::size_t i = 0; i < expected.data.size(); ++i)
    if (!close(expected.data[i], found.data[i]) && wrong++ == 0) at = i;
  EXPECT_EQ(wrong, 0u) << variant << ": of " << expected.data.size() << ", first at " << at << ": expected "
                       << +expected.data[at] << ", found " << +found.data[at];
}
template <class T>
void expect_close(const T&, const T&, const char*) {}  // scalars

struct Variant {
  const char* name;
  passes::Target target;
  passes::Tuning tuning;
  bool aligned_only;
};
std::vector<Variant> variants() {
  passes::Tuning pointers, plain;
  pointers.access = passes::AccessPath::Pointer;
  plain.split_loops = plain.pipeline_mma = false;
  return {{"cpu", {}, {}, false},
          {"sm_90", {90, 132}, {}, false},
          {"sm_90, loops as they are", {90, 132}, plain, false},
          {"sm_90, pointers", {90, 132}, pointers, false},
          {"sm_90, everything claimed", {90, 132}, {}, true},
          {"sm_90, pointers, everything claimed", {90, 132}, pointers, true},
          {"sm_80, bytecode 13.3", {80, 108, 3}, {}, true}};
}

void run_module(const ir::Module& module, cpu::Grid grid, const Slots& slots) {
  cpu::RunOptions options;
  options.threads = 1;
  cpu::Program::compile(module)->run(grid, slots.values(), options);
}

/// Records K, runs it as recorded and after the passes of every variant, over copies of the same arguments.
template <auto K, class... A>
void compare(cpu::Grid grid, bool aligned, const A&... arguments) {
  lang::Specialization specialization;
  for (const auto& p : lang::trace<K>(specialization).params)
    if (p.is_tensor()) {
      lang::TensorFacts facts;
      facts.unit_axis = p.rank - 1;
      specialization.tensors.push_back(facts);
    }
  const auto reference = lang::trace<K>(specialization);
  ASSERT_EQ(problems(*reference.module), "");
  std::tuple<A...> expected{arguments...};
  std::apply(
      [&](auto&... a) {
        Slots slots;
        (slots.add(a), ...);
        if (lang::counts_blocks(reference.params)) slots.add(static_cast<std::int32_t>(grid.x));
        run_module(*reference.module, grid, slots);
      },
      expected);
  for (const Variant& v : variants()) {
    if (v.aligned_only && !aligned) continue;
    const auto module = ir::clone(*reference.module);
    if (v.aligned_only) claim_everything(*module);
    const bool launch_flags = optimize_with_claims(*module, v.target, &v.tuning).abi.launch_flags;
    ASSERT_EQ(problems(*module), "") << v.name;
    std::tuple<A...> found{arguments...};
    std::apply(
        [&](auto&... a) {
          Slots slots;
          (slots.add(a), ...);
          if (lang::counts_blocks(reference.params)) slots.add(static_cast<std::int32_t>(grid.x));
          if (launch_flags)
            slots.add((std::int32_t{1} << calling::kTriggerBit) + 1);  // some tensors have a writer in flight
          run_module(*module, grid, slots);
        },
        found);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (expect_close(std::get<I>(expected), std::get<I>(found), v.name), ...);
    }(std::index_sequence_for<A...>{});
  }
}

constexpr auto kBlocks = [](std::int64_t n, std::int64_t piece) {
  return cpu::Grid{static_cast<std::uint32_t>((n + piece - 1) / piece)};
};

TEST(Differential, Saxpy) {
  for (const std::int64_t n : {512, 500, 1})
    compare<api_kernels::saxpy<128>>(kBlocks(n, 128), n % 128 == 0, random_array<float>({n}, 1), 2.5f,
                                     random_array<float>({n}, 2));
}

TEST(Differential, Softmax) {
  for (const std::int64_t n : {256, 250, 255, 1})
    compare<api_kernels::softmax<256>>(cpu::Grid{5}, n == 256, random_array<bf16>({5, n}, 1),
                                       random_array<bf16>({5, n}, 2));
}

TEST(Differential, AddRmsNorm) {
  for (const std::int64_t n : {128, 100})
    compare<api_kernels::add_rms_norm<128>>(cpu::Grid{7}, n == 128, random_array<bf16>({7, n}, 1),
                                            random_array<bf16>({7, n}, 2), random_array<bf16>({7, n}, 3),
                                            random_array<bf16>({n}, 4), 1e-5f);
}

TEST(Differential, Logsumexp) {
  for (const std::int64_t n : {256, 300, 65, 0})
    compare<api_kernels::logsumexp<64>>(cpu::Grid{3}, n == 256, random_array<float>({3}, 1),
                                        random_array<bf16>({3, n}, 2));
}

/// Rows in chunks, stored through the pieces of a piece.
template <int C>
void scale_long_rows(Mut<f32, 1, 4096> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<1, C>);
  auto Y = y.sub(shape<1, C>);
  auto [row, part] = y.index();
  for (auto c : range(Y.count(1))) Y.store(0, c, X.load(row, part * (4096 / C) + c) * 2.0f);
}

TEST(Differential, LongRows) {
  for (const std::int64_t n : {8192, 5000, 4097, 200})
    compare<scale_long_rows<1024>>(cpu::Grid{static_cast<std::uint32_t>(3 * ((n + 4095) / 4096))}, n == 8192,
                                   random_array<float>({3, n}, 1), random_array<float>({3, n}, 2));
}

TEST(Differential, Gemm) {
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size& s : {Size{128, 96, 64}, Size{100, 90, 50}, Size{33, 31, 16}, Size{64, 32, 0}})
    compare<api_kernels::gemm<f16, 32, 32, 16>>(cpu::Grid{3}, s.m % 32 == 0 && s.n % 32 == 0 && s.k % 16 == 0,
                                                random_array<f16>({s.m, s.n}, 1), random_array<f16>({s.m, s.k}, 2),
                                                random_array<f16>({s.k, s.n}, 3));
}

/// Two sums in one loop, whose zeros are hidden from the assembler: 32 and 16 columns of a piece.
void product_of_parts(const auto& piece, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  auto [wide, narrow] = piece.parts();
  auto A = a.tiles(shape<32, 16>);
  auto W = b.tiles(shape<16, 32>);
  auto N = b.tiles(shape<16, 16>);
  auto [i, j] = wide.index();
  auto last = min(narrow.index()[1], N.count(1) - 1);
  auto s = zeros<f32, 32, 32>();
  auto t = zeros<f32, 32, 16>();
  for (auto k : range(A.count(1))) {
    auto rows = A.load(i, k);
    s = mma(rows, W.load(k, j), s);
    t = mma(rows, N.load(k, last), t);
  }
  wide.store(s);
  narrow.store(t);
}
void parts_a_block(Mut<f32, 32, 48> c, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) { product_of_parts(c, a, b); }
void persistent_parts(MutTiles<f32, 32, 48> c, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  for (auto piece : c.row_order()) product_of_parts(piece, a, b);
}

TEST(Differential, ProductsOfParts) {
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size& s : {Size{64, 96, 64}, Size{70, 100, 50}, Size{32, 48, 0}}) {
    const bool aligned = s.m % 32 == 0 && s.n % 48 == 0 && s.k % 16 == 0;
    const auto a = random_array<f16>({s.m, s.k}, 2), b = random_array<f16>({s.k, s.n}, 3);
    const auto c = random_array<float>({s.m, s.n}, 1);
    const auto pieces = static_cast<std::uint32_t>(((s.m + 31) / 32) * ((s.n + 47) / 48));
    compare<parts_a_block>(cpu::Grid{pieces}, aligned, c, a, b);
    compare<persistent_parts>(cpu::Grid{3}, aligned, c, a, b);
  }
}

TEST(Differential, Attention) {
  for (const std::int64_t keys : {128, 96, 100, 70}) {
    const std::int64_t queries = keys;
    compare<api_kernels::attention<32, 32, 16>>(
        cpu::Grid{static_cast<std::uint32_t>(2 * 4 * ((queries + 31) / 32))}, keys % 32 == 0,
        random_array<bf16>({2, 4, queries, 16}, 1), random_array<bf16>({2, 4, queries, 16}, 2),
        random_array<bf16>({2, 2, keys, 16}, 3), random_array<bf16>({2, 2, keys, 16}, 4), 0.25f);
  }
}

TEST(Differential, BlurEmbedDropoutScanHistogram) {
  compare<api_kernels::blur<16, 32>>(cpu::Grid{6}, false, random_array<float>({40, 60}, 1),
                                     random_array<float>({40, 60}, 2));
  compare<api_kernels::embed<8, 64>>(cpu::Grid{4}, false, random_array<bf16>({32, 64}, 1),
                                     random_array<bf16>({30, 64}, 2), random_array<std::int32_t>({32}, 3));
  compare<api_kernels::dropout<128>>(cpu::Grid{3}, false, random_array<float>({300}, 1), random_array<float>({300}, 2),
                                     0.5f, std::uint64_t{7});
  compare<api_kernels::running_product<64>>(cpu::Grid{5}, true, random_array<float>({5, 64}, 1),
                                            random_array<float>({5, 64}, 2));
  compare<api_kernels::histogram<64>>(cpu::Grid{4}, false, random_array<std::int32_t>({40}, 1),
                                      random_array<std::int32_t>({250}, 2));
}

}  // namespace THIS_FILE
