// What safety costs: a kernel's twin that opts out of bounds (unsafe_::assume_inbounds) must become the same program as
// the safe kernel does where its launch fulfils all obligations. And what opting out means where it is not true.
#include <gtest/gtest.h>

#include <string>

#include "passes/accepting.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/ir/ir.hpp"
#include "tessera/kernels/attention.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/softmax.hpp"
#include "tessera/passes/apply_claims.hpp"
#include "tessera/passes/predicates.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace {

using kernels::AttentionMask;
using unsafe_::assume_inbounds;

// -- the library's kernels and their twins: the same body through handles that claim to stay inside --

template <class T, int N>
void softmax_twin(Mut<T, 1, N> y, In<T, dyn, dyn> x) {
  kernels::softmax_row<false, T, N>(assume_inbounds(y), assume_inbounds(x));
}

using Plain = kernels::epilogues::Plain;
template <class T, int BM, int BN, int BK>
void gemm_twin(MutTiles<T, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  kernels::gemm_tiles<Plain, T, BK, T, T, BM, BN>(assume_inbounds(c), assume_inbounds(a), assume_inbounds(b));
}
template <class T, int BM, int BN, int BK>
void gemm_block_twin(Mut<T, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  kernels::gemm_tile<Plain, T, BK, T, T, BM, BN>(assume_inbounds(c), assume_inbounds(a), assume_inbounds(b));
}

template <AttentionMask Mask, class T, int BM, int BN, int D>
void attention_twin(Mut<T, 1, 1, BM, D> o, In<T, dyn, dyn, dyn, dyn> q, In<T, dyn, dyn, dyn, dyn> k,
                    In<T, dyn, dyn, dyn, dyn> v, Scalar<f32> scale, Scalar<i32> window) {
  kernels::attention_forward<Mask, T, BM, BN, D>(assume_inbounds(o), assume_inbounds(q), assume_inbounds(k),
                                                 assume_inbounds(v), scale, window);
}

/// The program for an H200 of a launch on row-major tensors that fulfils all obligations, or none: as text, without the
/// lines and the name of the kernel.
template <auto K>
std::string program(bool fulfilled) {
  std::vector<lang::ParamInfo> params = lang::kernel_param_infos<K>();
  lang::lay_out(params);
  lang::Specialization specialization;
  for (const lang::ParamInfo& p : params) {
    if (p.is_tensor()) specialization.tensors.push_back({p.rank - 1, 0, (1u << p.rank) - 1});
  }
  const lang::Trace trace = lang::trace<K>(specialization);
  const auto contract = detail::launch_contract(params, false, trace.same_extents);
  const auto copy = ir::clone(*trace.module);
  const auto facts = analysis::Facts::analyze(*copy, contract, passes::predicate_table());
  passes::apply_claims(*copy, facts, fulfilled ? ~std::uint64_t{0} : 0);
  passes::Tuning tuning;
  tuning.early_reads = false;  // no launch flags, so that every branch is one for bounds
  test::optimize_with_claims(*copy, {.sm = 90, .num_sms = 132}, &tuning);
  std::string text = ir::print(*copy);
  const std::string name = copy->functions[0]->name;
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at))
    text.replace(at, name.size(), "K");
  return text;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

template <auto Safe, auto Twin>
void expect_one_program() {
  EXPECT_EQ(program<Safe>(true), program<Twin>(true));
  EXPECT_NE(program<Safe>(false), program<Twin>(false)) << "without proofs the safe kernel has guards";
}

TEST(UnsafeTwins, SoftmaxIsTheSameProgram) {
  expect_one_program<kernels::softmax_row<false, bf16, 1024>, softmax_twin<bf16, 1024>>();
  expect_one_program<kernels::softmax_row<false, bf16, 16384>, softmax_twin<bf16, 16384>>();
}

TEST(UnsafeTwins, GemmIsTheSameProgram) {
  expect_one_program<kernels::gemm_tiles<Plain, bf16, 64, bf16, bf16, 128, 256>, gemm_twin<bf16, 128, 256, 64>>();
  expect_one_program<kernels::gemm_tile<Plain, f16, 64, f16, f16, 128, 128>, gemm_block_twin<f16, 128, 128, 64>>();
}

TEST(UnsafeTwins, AttentionIsTheSameProgram) {
  expect_one_program<kernels::attention_forward<AttentionMask::Full, bf16, 64, 128, 128>,
                     attention_twin<AttentionMask::Full, bf16, 64, 128, 128>>();
  expect_one_program<kernels::attention_forward<AttentionMask::Causal, bf16, 64, 128, 64>,
                     attention_twin<AttentionMask::Causal, bf16, 64, 128, 64>>();
}

TEST(UnsafeTwins, NothingIsLeftOfBoundsWithoutAnyProof) {
  const std::string safe = program<kernels::softmax_row<false, bf16, 1024>>(false);
  const std::string twin = program<softmax_twin<bf16, 1024>>(false);
  EXPECT_EQ(count(twin, "if "), 0u) << twin;
  EXPECT_GT(count(twin, "inbounds"), 0u) << twin;
  EXPECT_EQ(count(safe, "inbounds"), 0u) << safe;
}

// -- on the CPU --

template <int B>
void everything(Mut<f32, B> y, In<f32, dyn> x, In<i32, dyn> ids) {
  auto X = assume_inbounds(x);
  auto Y = assume_inbounds(y);
  auto [i] = y.index();
  auto sum = X.load_like(y) + assume_inbounds(x.tiles(shape<B>)).load(i) + X.load_at(shape<B>, i * B);
  sum += X.gather(assume_inbounds(ids).load_like(y)) + Y.load();
  auto parts = Y.sub(shape<B / 2>);
  Y.store(sum);
  parts.store(0, parts.load(0) * 2.0f);
}

template <int B>
void outside_tile(Mut<f32, B> y, In<f32, dyn> x, Scalar<i32> tile) {
  y.store(assume_inbounds(x.tiles(shape<B>)).load(tile));
}
template <int B>
void outside_element(Mut<f32, B> y, In<f32, dyn> x, Scalar<i32> from) {
  y.store(assume_inbounds(x).load_at(shape<B>, from));
}
template <int B>
void whole_piece(Mut<f32, B> y) {
  assume_inbounds(y).store(full<f32, B>(1.0f));
}

class OnTheCpu : public testing::Test {
 protected:
  void SetUp() override { set_default_device(Device::cpu()); }
  void TearDown() override { set_check_mode(false); }
  template <class F>
  static std::string rejection(F f) {
    try {
      f();
    } catch (const DeviceError& error) { return error.what(); }
    return "nothing was reported";
  }
};

TEST_F(OnTheCpu, EveryAccessComputesWhatTheSafeOneDoes) {
  for (const bool checked : {false, true}) {
    set_check_mode(checked);
    auto x = arange<f32>(256).sync(), y = ones<f32>({256}).sync();
    auto ids = full<i32>({256}, 3).sync();
    kernel<everything<64>>(mut(y), x, ids).sync();
    const auto found = host(y).sync();
    for (int i = 0; i < 256; ++i) {
      const float sum = 3.0f * static_cast<float>(i) + 3.0f + 1.0f;
      EXPECT_EQ(found[static_cast<std::size_t>(i)], i % 64 < 32 ? 2 * sum : sum) << i;
    }
  }
}

TEST_F(OnTheCpu, CheckedModeReportsAClaimThatIsNotTrue) {
  set_check_mode(true);
  auto x = ones<f32>({100}).sync(), y = zeros<f32>({64}).sync(), z = zeros<f32>({100}).sync();
  kernel<outside_tile<64>>(mut(y), x, 0).sync();  // the nearest true claims
  kernel<outside_element<64>>(mut(y), x, 36).sync();
  kernel<whole_piece<64>>(mut(y)).sync();
  const auto expect = [](const std::string& text, const char* argument) {
    EXPECT_NE(text.find("unsafe_::assume_inbounds of " + std::string(argument)), std::string::npos) << text;
    EXPECT_NE(text.find("unsafe_twins_test.cpp:"), std::string::npos) << text;
  };
  expect(rejection([&] { kernel<outside_tile<64>>(mut(y), x, 1).sync(); }), "argument 2");
  expect(rejection([&] { kernel<outside_tile<64>>(mut(y), x, -1).sync(); }), "argument 2");
  expect(rejection([&] { kernel<outside_element<64>>(mut(y), x, 37).sync(); }), "argument 2");
  expect(rejection([&] { kernel<whole_piece<64>>(mut(z)).sync(); }), "argument 1");
}

}  // namespace
}  // namespace tessera
