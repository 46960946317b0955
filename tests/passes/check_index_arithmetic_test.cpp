// What accesses depend on is computed twice and compared; data may wrap.
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/lang/lang.hpp"
#include "tessera/lang/trace.hpp"
#include "tessera/passes/lower_checks.hpp"
#include "tessera/passes/passes.hpp"

namespace THIS_FILE {

using namespace tessera;

void by_product(Mut<i32, 16> y, In<i32, dyn> x, Scalar<i32> n) { y.store(x.tiles(shape<16>).load(n * n) + n * 3); }
void by_loop(Mut<i32, 16> y, In<i32, dyn> x, Scalar<i32> n) {
  Scalar<i32> at = n;
  auto sum = zeros<i32, 16>();
  for (auto i : range(3)) {
    sum += x.tiles(shape<16>).load(at) + i * 7;
    at = at + n;
  }
  y.store(sum);
}
void data_only(Mut<i32, 16> y, Scalar<i32> n) { y.store(y.load() * n + n * n); }

void data_beside_an_index(Mut<i32, 16> y, In<i32, dyn> x, Scalar<i32> n) {
  y.store(x.tiles(shape<16>).load(n - 46340) * (n * n));
}

/// Extremes of floats reach memory through pointers to integers.
void of_an_extreme(Mut<i32, 16> y, Acc<f32, dyn> x, Scalar<i32> n) {
  x.max((iota<i32, 16>() + 1) * n, 1.0f);
  y.store(y.load());
}

std::size_t count(const ir::Module& module, ir::Op op) {
  std::size_t n = 0;
  for (const auto& f : module.functions) ir::walk(f->body(), [&](const ir::Operation& o) { n += o.op() == op; });
  return n;
}

template <auto K>
std::unique_ptr<ir::Module> checked(std::size_t tensors) {
  lang::Specialization s;
  for (std::size_t i = 0; i < tensors; ++i) s.tensors.push_back({0, 0, ~0u});
  lang::Trace trace = lang::trace<K>(s);
  passes::check_index_arithmetic(*trace.module->functions[0]);
  ir::verify_or_throw(*trace.module);
  return std::move(trace.module);
}

/// Runs one block: y of 16, x of 64 elements, both contiguous.
template <auto K>
std::string run(std::int32_t n) {
  const auto module = checked<K>(2);
  std::vector<std::int32_t> y(16, 1), x(64, 1);
  const auto address = [](const auto& v) { return reinterpret_cast<std::uintptr_t>(v.data()); };
  std::vector<std::uint64_t> slots;
  for (const auto& [base, size] : {std::pair{address(y), y.size()}, {address(x), x.size()}}) {
    slots.insert(slots.end(), {base, size, 1});  // dimension, stride
  }
  slots.push_back(static_cast<std::uint32_t>(n));
  try {
    cpu::Program::compile(*module)->run({1, 1, 1}, slots);
  } catch (const DeviceError& e) { return e.what(); }
  return "";
}

TEST(CheckIndexArithmetic, IndicesOfAnExtremeOfFloats) {
  EXPECT_NE(run<&of_an_extreme>(1 << 30).find("index arithmetic overflows i32"), std::string::npos);
  EXPECT_EQ(run<&of_an_extreme>(2), "");
}

TEST(CheckIndexArithmetic, AProductThatWraps) {
  EXPECT_NE(run<&by_product>(65536).find("index arithmetic overflows i32"), std::string::npos) << "2^32 is index 0";
  EXPECT_EQ(run<&by_product>(1), "");
  EXPECT_EQ(run<&by_product>(46340), "") << "the largest square; outside reads padding";
  EXPECT_NE(run<&by_product>(46341), "");
  EXPECT_EQ(run<&by_product>(-46340), "");
}

TEST(CheckIndexArithmetic, ASumThatALoopCarries) {
  EXPECT_EQ(run<&by_loop>(1), "");
  EXPECT_EQ(run<&by_loop>(536870911), "") << "four times that fits";
  EXPECT_NE(run<&by_loop>(536870912 + 1).find("overflows"), std::string::npos);
}

TEST(CheckIndexArithmetic, DataMayWrap) {
  const auto with = checked<&data_only>(1);
  lang::Specialization s;
  s.tensors.push_back({0, 0, ~0u});
  const lang::Trace without = lang::trace<&data_only>(s);
  EXPECT_EQ(ir::print(*with), ir::print(*without.module)) << "nothing is added";
  EXPECT_EQ(run<&data_beside_an_index>(46341), "") << "its square wraps, and is stored";
}

TEST(CheckIndexArithmetic, TheAssemblerAcceptsIt) {
  std::string why;
  if (!jit::assembler_for("sm_90", &why)) GTEST_SKIP() << why;
  const auto module = checked<&by_loop>(2);
  passes::Target target;
  target.sm = 90;
  passes::optimize(*module, target);
  EXPECT_EQ(passes::lower_checks(*module->functions.front()).size(), 1u);
  EXPECT_GT(jit::make_cubin(*module, "sm_90", "by_loop").code.cubin.size(), 1000u);
}

TEST(CheckIndexArithmetic, BecomesAMarkInTheRecord) {
  const auto module = checked<&by_product>(2);
  ASSERT_GT(count(*module, ir::Op::Assert), 0u);
  const auto lowered = passes::lower_checks(*module->functions.front());
  ir::verify_or_throw(*module);
  ASSERT_FALSE(lowered.empty());
  EXPECT_EQ(lowered[0].message, "index arithmetic overflows i32");
  EXPECT_NE(std::string(lowered[0].where.file).find("check_index_arithmetic_test.cpp"), std::string::npos);
}

}  // namespace THIS_FILE
