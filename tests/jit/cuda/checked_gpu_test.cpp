// Checked mode on a GPU, from the user's tensors to the error, on the runtime's fake driver: memory is the host's, and
// what a launch runs is the very module that the assembler was given, by the CPU's evaluator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <tessera/tessera.hpp>

#include "jit/compile/pipeline.hpp"
#include "jit/cuda/fake_machine.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/lang/trace.hpp"

namespace {

using namespace tessera;
namespace fake = runtime::cuda::fake;
using testing::HasSubstr;

int load_line = 0;
void copied(Mut<f32, 64> y, In<f32, dyn> x) {
  load_line = __LINE__ + 1;
  y.store(x.load_like(y));
}
void doubled(Mut<f32, 64> y) { y.store(y.load() * 2.0f); }
void halves(Mut<f32, 4, 16> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y) * 0.5f); }
void threes(Mut<f32, 64> y) { y.store(full<f32, 64>(3.0f)); }
void unchecked(Mut<f32, 64> y) { y.store(full<f32, 64>(5.0f)); }
void through_pointer(unsafe_::Ptr<f32> p) { unsafe_::store(p + iota<i32, 64>(), full<f32, 64>(4.0f)); }

/// What kernel K runs: what the jit makes of it.
template <auto K>
std::shared_ptr<const cpu::Program> program;
template <auto K>
void run_program(const fake::Call& call) {
  program<K>->run({call.grid[0], call.grid[1], call.grid[2]}, call.args);
}

struct Machine : fake_gpu::FakeMachine<Machine> {
  /// `K` as the launches of this file specialize it: a matrix by its last axis, no extent is 1.
  template <auto K>
  void add(const std::string& name, bool checked) {
    lang::Specialization s;
    s.checked = checked;
    jit::CompileOptions options;
    options.checked = checked;
    for (const lang::ParamInfo& p : lang::trace<K>(s).params) {
      if (!p.is_tensor()) continue;
      s.tensors.push_back({p.rank - 1, 0, (1u << p.rank) - 1});
      options.tensors.push_back({p.first_arg, p.spelling});
    }
    const lang::Trace trace = lang::trace<K>(s);
    const jit::Prepared p = jit::prepare(*trace.module, {90, 132}, options);
    program<K> = cpu::Program::compile(*p.module);
    driver.add_kernel(name, {ir::entry_of(*p.module).body().num_args(), run_program<K>});
    write_image(name, name);
  }

 private:
  friend FakeMachine;
  Machine() : FakeMachine("checked-gpu") {
    setenv("TESSERA_CACHE", "0", 1);
    add<&copied>("copied", true);
    add<&doubled>("doubled", true);
    add<&halves>("halves", true);
    add<&threes>("threes", true);
    add<&unchecked>("unchecked", false);
    add<&through_pointer>("through_pointer", true);
    // Hands out the image of the kernel that the bytecode names.
    write_assembler(
        "for k in copied doubled halves threes unchecked through_pointer; do\n"
        "  if grep -q $k \"$in\"; then name=$k; fi\ndone\n"
        "cp " +
        folder + "/$name \"$last\"");
    start();
  }
};

class CheckedGpu : public testing::Test {
 protected:
  CheckedGpu() : machine(Machine::get()) { set_check_mode(true); }
  ~CheckedGpu() override {
    set_check_mode(false);
    machine.driver.run_all();
    EXPECT_EQ(machine.driver.violation(), "");
  }
  /// Copies x by a kernel: the error's text, or empty and the elements arrive.
  template <class X>
  std::string error_of_copy(X&& x) {
    return error_of([&] {
      const auto y = kernel<&copied>(empty<f32>({x.dim(0)}), x).sync();
      EXPECT_EQ(host(y).sync(), host(x).sync());
    });
  }
  template <class F>
  std::string error_of(F f) {
    try {
      f();
    } catch (const DeviceError& error) { return error.what(); }
    return "";
  }
  Machine& machine;
};
constexpr const char* kNever = "of an element that nothing has written: argument";

TEST_F(CheckedGpu, ReadingWhatNobodyWroteIsAnErrorWithItsLine) {
  const auto x = empty<f32>({200}).sync();
  const std::string text = error_of_copy(x);
  EXPECT_THAT(text, AllOf(HasSubstr("kernel copied"), HasSubstr("in block ("),
                          HasSubstr("checked_gpu_test.cpp:" + std::to_string(load_line)),
                          HasSubstr("load of an element that nothing has written: argument 2 (In<f32, dyn>)")));
  EXPECT_EQ(error_of_copy(ones<f32>({200}).sync()), "") << "the device stays usable";
  EXPECT_EQ(error_of_copy(from(std::vector<f32>(200, 3.0f), {200}).sync()), "");
}

TEST_F(CheckedGpu, WhatKernelsWroteIsWritten) {
  auto y = empty<f32>({200}).sync();
  EXPECT_THAT(error_of([&] { kernel<&doubled>(mut(y)).sync(); }), HasSubstr(kNever));
  y = empty<f32>({200}).sync();
  kernel<&threes>(mut(y)).sync();
  EXPECT_EQ(error_of_copy(y), "");
  kernel<&doubled>(mut(y)).sync();
  EXPECT_EQ(host(y).sync(), std::vector<f32>(200, 6.0f));
}

TEST_F(CheckedGpu, PartsAndViewsKeepTheirPlaces) {
  auto y = empty<f32>({200}).sync();
  kernel<&threes>(mut(y).slice<0>(64, 200)).sync();
  EXPECT_THAT(error_of_copy(y), HasSubstr(kNever));
  EXPECT_EQ(error_of_copy(y.slice<0>(64, 200)), "");
  EXPECT_THAT(error_of_copy(y.slice<0>(63, 200)), HasSubstr(kNever));
  auto a = empty<f32>({8, 24}).sync();
  kernel<&halves>(mut(a).slice<0>(2, 7).slice<1>(3, 20), ones<f32>({5, 17}).sync()).sync();
  const auto from_part = [&](int top, int left) {
    return error_of([&] {
      const auto b = kernel<&halves>(empty<f32>({5, 17}), a.slice<0>(top, top + 5).slice<1>(left, left + 17)).sync();
      EXPECT_EQ(host(b).sync(), std::vector<f32>(85, 0.25f));
    });
  };
  EXPECT_EQ(from_part(2, 3), "");
  for (const auto& [top, left] : {std::pair{1, 3}, {3, 3}, {2, 2}, {2, 4}})
    EXPECT_THAT(from_part(top, left), HasSubstr(kNever)) << top << " " << left;
}

TEST_F(CheckedGpu, CopiesMarkWhatTheyWrite) {
  auto y = empty<f32>({200}).sync();
  copy_into(mut(y).slice<0>(10, 110), ones<f32>({100}).sync()).sync();
  EXPECT_EQ(error_of_copy(y.slice<0>(10, 110)), "");
  EXPECT_THAT(error_of_copy(y.slice<0>(9, 110)), HasSubstr(kNever));
  EXPECT_THAT(error_of_copy(y.slice<0>(10, 111)), HasSubstr(kNever));
  copy_into(mut(y), zeros<f32>({200}).sync()).sync();
  EXPECT_EQ(error_of_copy(y), "");
  EXPECT_EQ(error_of_copy(clone(y).sync()), "");
}

TEST_F(CheckedGpu, WhatNoShadowIsToldOfCountsAsWritten) {
  auto y = empty<f32>({64}).sync(), z = empty<f32>({64}).sync();
  set_check_mode(false);
  kernel<&unchecked>(mut(y)).sync();
  const auto unwatched = empty<f32>({64}).sync();
  set_check_mode(true);
  EXPECT_EQ(error_of_copy(y), "");
  EXPECT_EQ(error_of_copy(unwatched), "") << "it was made when checked mode was off";
  EXPECT_THAT(error_of_copy(z), HasSubstr(kNever));
  kernel<&through_pointer>.blocks(1)(unsafe_::address(z)).sync();
  EXPECT_EQ(error_of_copy(z), "");
}

TEST_F(CheckedGpu, ThroughStreamsAndAfterFailures) {
  const Stream a(machine.device()), b(machine.device());
  auto y = empty<f32>({200}).on(a);
  y = kernel<&threes>(std::move(y)).on(a);
  auto z = kernel<&copied>(empty<f32>({200}), y).on(b);
  EXPECT_EQ(host(z).sync(), std::vector<f32>(200, 3.0f));
  const auto bad = kernel<&copied>(empty<f32>({200}), empty<f32>({200})).on(a);
  EXPECT_THAT(error_of([&] { (void)host(bad).sync(); }), HasSubstr(kNever));
  z = kernel<&copied>(std::move(z), y).on(b);
  EXPECT_EQ(host(z).sync(), std::vector<f32>(200, 3.0f));
}

}  // namespace
