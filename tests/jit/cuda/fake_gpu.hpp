// A simulated GPU, for the tests of a whole launch: the runtime's fake driver, whose kernels are
// host functions, and an assembler that is a script and hands out an image that names one of them.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <tessera/tessera.hpp>

#include "jit/ahead/collect.hpp"
#include "jit/cuda/fake_machine.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/kernel.hpp"
#include "tessera/passes/predicates.hpp"

namespace fake_gpu {

namespace fs = std::filesystem;

inline void bundled(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 4.0f); }
inline void bundled_plain(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 5.0f); }

inline void bundled_careful(Mut<f32, 64> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  check(t >= 0.0f, "x must not be negative");
  y.store(t * 6.0f);
}

inline void bundled_rows(Mut<f32, 1, 256> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y) * 7.0f); }

/// What the driver was asked to launch last.
inline std::atomic<unsigned> last_grid{0};

/// Arguments: y, its extent and stride, x, its extent and stride.
inline void run_scaled(const fake::Call& call, float factor, std::int32_t* record) {
  last_grid = call.grid[0];
  const std::size_t n = call.args[1];
  auto* y = static_cast<float*>(call.memory(0, n * 4));
  const auto* x = static_cast<const float*>(call.memory(3, n * 4));
  for (std::size_t i = 0; y && x && i < n; ++i) {
    if (record && x[i] < 0 && record[0] == 0) {
      record[0] = 1;
      record[1] = static_cast<std::int32_t>(i / 64) + 1;
      record[2] = record[3] = 1;
    }
    y[i] = factor * x[i];
  }
}
inline void run_twice(const fake::Call& call) { run_scaled(call, 2, nullptr); }
inline void run_bundled(const fake::Call& call) { run_scaled(call, 4, nullptr); }
/// Without a launch flags.
inline void run_bundled_careful(const fake::Call& call) {
  run_scaled(call, 6, reinterpret_cast<std::int32_t*>(call.args[6]));
}
/// Arguments: y, its extents and strides, x, its extents and strides.
inline void run_bundled_rows(const fake::Call& call) {
  const std::size_t n = call.args[1] * call.args[2];
  auto* y = static_cast<float*>(call.memory(0, n * 4));
  const auto* x = static_cast<const float*>(call.memory(5, n * 4));
  for (std::size_t i = 0; y && x && i < n; ++i) y[i] = 7 * x[i];
}
inline void run_careful(const fake::Call& call) {
  run_scaled(call, 2, reinterpret_cast<std::int32_t*>(call.args[7]));  // after the launch flags
}
inline void run_persistent(const fake::Call& call) {
  last_grid = call.grid[0];
  auto* y = static_cast<float*>(call.memory(0, call.args[1] * 4));
  for (std::size_t i = 0; y && i < call.args[1]; ++i) y[i] = 3;
}

struct Machine : FakeMachine<Machine> {
  int runs() const { return jit_rig::runs_in(folder); }
  /// The bundle holds `bundled` for lengths that fill its pieces, `bundled_plain`, whose chosen form was rejected, and
  /// `bundled_careful`, of an assembler that reads bytecode 13.3; and `bundled_rows` for what rows of a multiple of 4
  /// elements have in common.
  void write_bundle() const {
    jit::write_bundle(
        folder + "/bundle",
        {entry<&bundled>("bundled", jit::Form::Chosen), entry<&bundled_plain>("bundled_plain", jit::Form::Bare),
         entry<&bundled_careful>("bundled_careful", jit::Form::Chosen, 3), rows_entry()});
  }
  /// The entry of bundled_rows.
  static std::pair<jit::CacheKey, jit::CachedCubin> rows_entry() {
    alignas(256) static float memory[64];
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    return made<&bundled_rows>("bundled_rows", jit::Form::Chosen, 4, {{1, 0, 3}, {1, 0, 3}},
                               {address, 3, 200, 200, 1, address, 3, 200, 200, 1}, true);
  }
  /// `common`: without obligations that only refine.
  template <auto K>
  static std::pair<jit::CacheKey, jit::CachedCubin> made(const char* name, jit::Form form, int minor,
                                                         std::vector<lang::TensorFacts> tensors,
                                                         std::vector<std::uint64_t> slots, bool common) {
    lang::Specialization s;
    s.tensors = std::move(tensors);
    const lang::Trace trace = lang::trace<K>(s);
    const jit::LaunchContract contract = detail::launch_contract(trace.params, false, trace.same_extents);
    const auto facts = analysis::Facts::analyze(*trace.module, contract, passes::predicate_table());
    jit::CachedCubin code;
    code.cubin = fake::FakeDriver::image(name);
    code.label = name;
    code.gpu = "sm_90";
    const std::uint64_t held = facts.evaluate(slots) & ~(common ? facts.predicates().refinements() : 0);
    passes::Target target{90, 132};
    target.bytecode_minor = minor;
    const jit::Prepared chosen = jit::prepare(*trace.module, facts, held, target);
    return {jit::form_key(jit::bundle_key(*trace.module, contract, facts, held, chosen), form), code};
  }

 private:
  template <auto K>
  static std::pair<jit::CacheKey, jit::CachedCubin> entry(const char* name, jit::Form form, int minor = 4) {
    alignas(256) static float memory[64];
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    return made<K>(name, form, minor, {{0, 0, 1}, {0, 0, 1}}, {address, 256, 1, address, 256, 1}, false);
  }
  friend FakeMachine;
  Machine() : FakeMachine("fake-gpu") {
    setenv("TESSERA_CACHE_DIR", (folder + "/cache").c_str(), 1);
    setenv("TESSERA_BUNDLE", (folder + "/bundle").c_str(), 1);
    write_bundle();
    driver.add_kernel("twice", {6, run_twice});
    driver.add_kernel("bundled", {6, run_bundled});
    driver.add_kernel("bundled_plain", {6, run_bundled});
    driver.add_kernel("bundled_careful", {7, run_bundled_careful});
    driver.add_kernel("bundled_rows", {10, run_bundled_rows});
    driver.add_kernel("careful", {8, run_careful});
    driver.add_kernel("persistent", {3, run_persistent});
    start();
  }
};

class FakeGpu : public testing::Test {
 protected:
  FakeGpu() : machine(Machine::get()), runs_before(machine.runs()) {}
  ~FakeGpu() override {
    machine.driver.run_all();
    EXPECT_EQ(machine.driver.violation(), "");
  }
  void assembler_gives(const char* kernel, bool waits = false) const {
    machine.write_image("image", kernel, waits);
    machine.write_assembler("cp " + machine.folder + "/image \"$last\"");
  }
  Tensor<f32, 1> tensor(std::vector<float> values) const { return from(values, {std::ssize(values)}).sync(); }
  static std::vector<float> iota(int n) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
    return v;
  }
  int runs() const { return machine.runs() - runs_before; }
  Machine& machine;
  int runs_before;
};

}  // namespace fake_gpu
