// Kernels of the public language compiled for GPUs that are not here: through the passes and NVIDIA's assembler to a
// cubin with the right entry. Skipped without an assembler.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "api/kernels.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/jit/build.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace api_kernels;

void checked_copy_of(Mut<f32, 64> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  check(t >= 0.0f, "x must not be negative");
  y.store(sqrt(t));
}

void talking(Mut<i32, 16> y) {
  auto [i] = y.index();
  print("block {} of {}\n", i, num_blocks());
  y.store(full<i32, 16>(7));
}

/// A 64-bit ELF file (ELF-64 object file format, figures 2, 8 and 14: header, section headers, symbols).
class Elf {
 public:
  explicit Elf(std::span<const std::byte> file) : file_(file) {}

  /// Is there a function of this name in the symbol table?
  bool has_function(const std::string& name) const {
    for (std::size_t s = 0; s < sections(); ++s) {
      if (number(header(s) + 4, 4) != 2) continue;  // SHT_SYMTAB
      const std::size_t strings = number(header(number(header(s) + 40, 4)) + 24, 8);
      const std::size_t first = number(header(s) + 24, 8), bytes = number(header(s) + 32, 8);
      for (std::size_t symbol = first; symbol < first + bytes; symbol += 24) {
        if ((number(symbol + 4, 1) & 15) == 2 && name == text(strings + number(symbol, 4))) return true;  // STT_FUNC
      }
    }
    return false;
  }
  /// The contents of a section; empty if there is none of this name.
  std::string section(const std::string& name) const {
    const std::size_t names = number(header(number(62, 2)) + 24, 8);
    for (std::size_t s = 0; s < sections(); ++s) {
      if (name != text(names + number(header(s), 4))) continue;
      return std::string(text(number(header(s) + 24, 8)), number(header(s) + 32, 8));
    }
    return "";
  }

 private:
  std::size_t number(std::size_t at, std::size_t bytes) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(file_[at + i]) << (8 * i);
    return static_cast<std::size_t>(value);
  }
  std::size_t sections() const { return number(60, 2); }
  std::size_t header(std::size_t section) const { return number(40, 8) + section * number(58, 2); }
  const char* text(std::size_t at) const { return reinterpret_cast<const char*>(file_.data()) + at; }
  std::span<const std::byte> file_;
};

class GpuCode : public testing::TestWithParam<int> {
 protected:
  /// True if there is a griddepcontrol.wait among the instructions: 16 bytes, of which 12 bits name the operation.
  static bool waits(std::string_view code) {
    for (std::size_t at = 0; at + 16 <= code.size(); at += 16)
      if (static_cast<unsigned char>(code[at]) == 0x2E && (code[at + 1] & 0xF) == 8) return true;
    return false;
  }
  void SetUp() override {
    std::string why;
    if (!jit::assembler_for("sm_" + std::to_string(GetParam()), &why)) GTEST_SKIP() << why;
  }

  template <auto K>
  jit::Build build(std::vector<int> unit_axes, bool checked = false) {
    lang::Specialization s;
    for (const int axis : unit_axes) s.tensors.push_back({axis, 0, ~0u});
    s.checked = checked;
    const lang::Trace trace = lang::trace<K>(s);
    const auto contract = detail::launch_contract(trace.params, false, trace.same_extents);
    jit::Build made = jit::build(*trace.module, contract, 0, jit::target_for(GetParam()), trace.name);
    const auto& cubin = made.cubin.code.cubin;
    EXPECT_GT(cubin.size(), 1000u);
    EXPECT_EQ(std::memcmp(cubin.data(),
                          "\x7f"
                          "ELF",
                          4),
              0);
    EXPECT_EQ(std::to_integer<int>(cubin[18]) | std::to_integer<int>(cubin[19]) << 8, 190);  // EM_CUDA
    EXPECT_TRUE(Elf(cubin).has_function(made.choices.abi.entry)) << made.choices.abi.entry;
    int slots = 0;
    for (const lang::ParamInfo& p : trace.params) slots += p.num_args();
    EXPECT_EQ(made.choices.abi.num_args, slots);
    EXPECT_GE(made.choices.abi.persistent_blocks, 1);
    EXPECT_TRUE(!made.choices.abi.programmatic_launch || GetParam() >= 90);
    EXPECT_EQ(waits(Elf(cubin).section(".text." + made.choices.abi.entry)), made.choices.abi.programmatic_launch);
    return made;
  }
};

TEST_P(GpuCode, Saxpy) {
  const jit::Build made = build<saxpy<1024>>({0, 0});
  EXPECT_TRUE(made.choices.abi.checks.empty());
  EXPECT_EQ(made.choices.abi.programmatic_launch, GetParam() >= 90);
}
TEST_P(GpuCode, Softmax) { EXPECT_EQ((build<softmax<1024>>({1, 1}).choices.abi.entry), "softmax"); }
TEST_P(GpuCode, Gemm) { EXPECT_FALSE((build<gemm<f16, 128, 128, 64>>({1, 1, 1}).cubin.code.register_pressure)); }

TEST_P(GpuCode, ChecksHaveTheirMessageAndLine) {
  const jit::Build made = build<&checked_copy_of>({0, 0});
  ASSERT_EQ(made.choices.abi.checks.size(), 1u);
  EXPECT_EQ(made.choices.abi.checks[0].message, "x must not be negative");
  EXPECT_NE(std::string(made.choices.abi.checks[0].where.file).find("gpu_code_test.cpp"), std::string::npos);
}

TEST_P(GpuCode, CheckedModeCompiles) {
  EXPECT_FALSE((build<gemm<f16, 64, 64, 32>>({1, 1, 1}, true).choices.abi.checks.empty()));
}

/// With everything that checked mode adds: shadows, assertions, index arithmetic.
template <auto K>
jit::CodeReport checked_form(int gpu, std::vector<int> unit_axes) {
  lang::Specialization s;
  for (const int axis : unit_axes) s.tensors.push_back({axis, 0, ~0u});
  s.checked = true;
  lang::Trace trace = lang::trace<K>(s);
  jit::CompileOptions options;
  options.label = trace.name;
  options.checked = true;
  for (const lang::ParamInfo& p : trace.params)
    if (p.is_tensor()) options.tensors.push_back({p.first_arg, p.spelling});
  const auto contract = detail::launch_contract(trace.params, false, trace.same_extents);
  const jit::Kernel kernel(std::move(trace.module), contract, options);
  return kernel.report(jit::target_for(gpu), {});
}
TEST_P(GpuCode, CheckedFormsAssemble) {
  const int gpu = GetParam();
  const auto expect_code = [](const jit::CodeReport& r) { EXPECT_GT(r.notes.resources.registers, 0u) << r.kernel; };
  expect_code(checked_form<saxpy<1024>>(gpu, {0, 0}));
  expect_code(checked_form<softmax<1024>>(gpu, {1, 1}));
  expect_code(checked_form<softmax<1024>>(gpu, {-1, -1}));
  expect_code(checked_form<gemm<f16, 128, 128, 64>>(gpu, {1, 1, 1}));
  expect_code(checked_form<gemm_blocks<f16, 64, 64, 32>>(gpu, {1, 0, 0}));
  expect_code(checked_form<attention<64, 64, 64>>(gpu, {3, 3, 3, 3}));
  expect_code(checked_form<embed<32, 64>>(gpu, {1, 1, 0}));
  expect_code(checked_form<histogram<256>>(gpu, {0, 0}));
}

void of_eight_bits(Mut<f32, 64, 64> y, In<f8e4m3, dyn, dyn> a, In<f8e4m3, dyn, dyn> b) {
  auto acc = zeros<f32, 64, 64>();
  for (auto i : range(0, a.tiles(shape<64, 64>).count(1)))
    acc = mma(a.tiles(shape<64, 64>).load(0, i), b.tiles(shape<64, 64>).load(i, 0), acc);
  y.store(acc);
}

/// The assembler itself rejects it for GPUs without 8-bit floats, whatever the form.
TEST_P(GpuCode, WhatAGpuLacksIsARejectionAndNothingElseIs) {
  if (GetParam() >= 89) {
    EXPECT_EQ(build<&of_eight_bits>({1, 1, 1}).form, jit::Form::Chosen);
    return;
  }
  try {
    build<&of_eight_bits>({1, 1, 1});
    FAIL() << "no error";
  } catch (const tileiras::Rejection& error) {
    EXPECT_NE(std::string(error.what()).find("kernel of_eight_bits: the assembler rejects"), std::string::npos)
        << error.what();
  }
}

TEST_P(GpuCode, PrintCompiles) { build<&talking>({0}); }

/// What Nsight and cuda-gdb map instructions to: .debug_line to the lines of the recording, .nv_debug_line_sass to
/// those of the PTX between.
TEST_P(GpuCode, ProfilersSeeTheUsersLines) {
  const jit::Build made = build<&checked_copy_of>({0, 0});
  const Elf cubin(made.cubin.code.cubin);
  EXPECT_NE(cubin.section(".debug_line").find("gpu_code_test.cpp"), std::string::npos);
  EXPECT_FALSE(cubin.section(".nv_debug_line_sass").empty());
}

TEST_P(GpuCode, LinesAreLeftOutWhereTheyAreNotAskedFor) {
  const lang::Trace trace = lang::trace<&talking>({});
  tileiras::AssembleOptions options;
  options.gpu = "sm_" + std::to_string(GetParam());
  for (const bool lines : {true, false}) {
    options.line_info = lines;
    const auto assembler = jit::assembler_for(options.gpu, nullptr);
    const auto made = tileiras::assemble(jit::bytecode_for(*trace.module, assembler->newest_bytecode), options);
    EXPECT_NE(Elf(made.cubin).section(".debug_line").empty(), lines);
  }
}

template <auto Padding>
void padded_cast(Mut<i32, 64> y, In<f32, dyn> x) {
  y.store(cast<i32>(x.load_at(shape<64>, 0, Padding)));
}

/// The largest i32 is a literal of the code where padding has to become it (docs/compiler/define_results.md).
TEST_P(GpuCode, InfinitePaddingBecomesTheLargestInteger) {
  const auto has_largest = [](const jit::Build& made) {  // a literal is bits 32 to 63 of an instruction of 16 bytes
    const std::string code = Elf(made.cubin.code.cubin).section(".text." + made.choices.abi.entry);
    for (std::size_t at = 0; at + 16 <= code.size(); at += 16)
      if (std::string_view(code).substr(at + 4, 4) == "\xff\xff\xff\x7f") return true;
    return false;
  };
  EXPECT_TRUE(has_largest(build<&padded_cast<pad::pos_inf>>({0, 0})));
  EXPECT_FALSE(has_largest(build<&padded_cast<pad::zero>>({0, 0}))) << "one instruction is enough for others";
}

INSTANTIATE_TEST_SUITE_P(Targets, GpuCode, testing::Values(80, 90));

}  // namespace THIS_FILE
