// Faults of the driver and of the device on real hardware: rejected launches and allocations leave the device usable;
// an illegal address ends the context, and its first cause, with the kernel's name, is what every later call says. The
// latter happens in child processes. Needs a GPU: on TESSERA_DEVICE=cpu the tests are skipped.
#include <array>
#include <cstdio>
#include <cstdlib>

#include "gpu/errors.hpp"
#include "gpu/gpu_test.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

class Faults : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (device_under_test().kind() == DeviceKind::Cpu) GTEST_SKIP() << "needs a GPU: TESSERA_DEVICE is cpu";
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child that has not seen the driver
  }
};

void doubled(Mut<f32, 128> y) { y.store(y.load() * 2.0f); }
void expect_usable() {
  auto y = ones<f32>({1000}).sync();
  kernel<doubled>(mut(y)).sync();
  EXPECT_EQ(host(y).sync(), std::vector<f32>(1000, 2.0f));
}

/// The cubin of a kernel without arguments that does nothing, for a GPU of the given number.
std::vector<std::byte> empty_cubin(const std::string& gpu) {
  ir::Module module;
  ir::Builder(module.add_function("nothing").body()).create(ir::Op::Return, {}, {});
  return jit::make_cubin(module, gpu, "nothing").code.cubin;
}
std::shared_ptr<const runtime::Launchable> load(std::span<const std::byte> cubin, const char* entry = "nothing") {
  runtime::cuda::KernelImage image;
  image.cubin = cubin;
  image.abi.entry = entry;
  image.label = "kernel nothing";
  return runtime::cuda::load_kernel(device_under_test(), image);
}
std::string own_gpu() { return "sm_" + std::to_string(runtime::cuda::device_info(device_under_test()).sm()); }

TEST_F(Faults, ImagesForOtherGpusAndWithoutTheEntry) {
  std::string why;
  if (!jit::assembler_for(own_gpu(), &why)) GTEST_SKIP() << why;
  const std::string other = own_gpu() == "sm_80" ? "sm_90" : "sm_80";
  expect_parts(error_of<CompileError>([&] { load(empty_cubin(other)); }), {"kernel nothing", "the driver rejects"});
  expect_parts(error_of<DeviceError>([&] { load(empty_cubin(own_gpu()), "another"); }),
               {"kernel nothing", "cuModuleGetFunction"});
  EXPECT_NE(load(empty_cubin(own_gpu())), nullptr);
  expect_usable();
}

// Complete ELF files whose code is garbage: the driver reports an error, or loads a module that is never run. In a
// child, because drivers have crashed on such files.
void load_garbage() {
  if (!unusable().empty()) std::exit(3);
  std::vector<std::byte> cubin = empty_cubin(own_gpu());
  for (std::size_t i = cubin.size() / 4; i < cubin.size() / 2; ++i) cubin[i] = std::byte(i * 2654435761u >> 24);
  try {
    load(cubin);
    std::exit(0);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    expect_usable();
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  }
}
TEST_F(Faults, GarbageInWholeImages) {
  std::string why;
  if (!jit::assembler_for(own_gpu(), &why)) GTEST_SKIP() << why;
  EXPECT_EXIT(load_garbage(), testing::ExitedWithCode(0), "");
}

TEST_F(Faults, ALaunchThatIsRejected) {
  std::string why;
  if (!jit::assembler_for(own_gpu(), &why)) GTEST_SKIP() << why;
  const auto nothing = load(empty_cubin(own_gpu()));
  const Stream s(device_under_test());
  const auto submit = [&](runtime::LaunchGrid grid) {
    s.core()->submit({nothing, grid, {}, {}, "kernel nothing", SourceLocation::current()});
    Stream(s).synchronize();
  };
  // 65535 blocks along y are the most (CUDA C++ Programming Guide, technical specifications).
  expect_parts(error_of<DeviceError>([&] {
                 submit({1, 65536, 1});
               }),
               {"kernel nothing", "faults_test.cpp", "CUDA_ERROR_INVALID_VALUE", "cuLaunchKernel"});
  submit({1, 65535, 1});
  expect_usable();
}

TEST_F(Faults, MoreMemoryThanTheCardHas) {
  // In rows of a mebibyte: one axis holds less than 2^31 elements, and a card has more bytes.
  constexpr std::int64_t row = std::int64_t{1} << 20;
  const std::int64_t all = static_cast<std::int64_t>(runtime::cuda::device_info(device_under_test()).memory) / row;
  auto y = ones<f32>({1000}).sync();
  // All of the card's memory, of which the driver needs some; and more than that, for which the driver is not called.
  for (const std::int64_t rows : {all, 2 * all})
    expect_parts(error_of<DeviceError>([&] {
                   (void)empty<u8>({rows, row}).sync();
                 }),
                 {"out of memory", std::to_string(rows * row) + " bytes requested"});
  const Stream s(device_under_test());
  expect_parts(error_of<DeviceError>([&] { (void)empty<u8>({2 * all, row}).on(s); }), {"out of memory"});
  kernel<doubled>(mut(y)).sync();
  EXPECT_EQ(host(y).sync()[999], 2.0f) << "what was there before is untouched";
  // One and a half times the card in eighths, which leave room for others: what was freed is found again.
  for (int round = 0; round < 12; ++round) {
    const auto much = empty<u8>({all / 8, row}).sync();
    EXPECT_EQ(much.dim(0), all / 8);
  }
  expect_usable();
}

// -- an illegal address -----------------------------------------------------------------------------------------------

void wild_store(unsafe_::Ptr<f32> y) { unsafe_::store(y + iota<i32, 128>(), full<f32, 128>(1.0f)); }
void wild_load(unsafe_::Ptr<f32> y, Mut<f32, 128> z) { z.store(unsafe_::load(y + iota<i32, 128>())); }

/// Ends the process with 0 if everything is as expected, else prints what is not.
class Verdict {
 public:
  void expect(bool right, const char* what, const std::string& text) {
    if (right) return;
    std::fprintf(stderr, "NOT AS EXPECTED: %s: %s\n", what, text.c_str());
    ++wrong_;
  }
  [[noreturn]] void end() const { std::exit(wrong_ == 0 ? 0 : 1); }

 private:
  int wrong_ = 0;
};

/// `fault` enqueues a kernel of this name with an illegal address.
template <class F>
[[noreturn]] void run_fault(const char* name, F fault) {
  Verdict verdict;
  if (!unusable().empty()) std::exit(3);
  auto y = ones<f32>({1000}).sync();
  const auto held = ones<f32>({1000}).sync();  // dies after the fault
  const std::string first = error_of<DeviceError>(fault);
  verdict.expect(first.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos, "the driver's name", first);
  verdict.expect(first.find(name) != std::string::npos, "the kernel's name at first", first);
  verdict.expect(first.find("faults_test.cpp") != std::string::npos, "the launch's line at first", first);
  const auto later = [&](const char* what, auto call) {
    const std::string text = error_of<DeviceError>(call);
    verdict.expect(text.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos, what, text);
    verdict.expect(text.find(name) != std::string::npos, what, text);
  };
  for (int round = 0; round < 2; ++round) {
    later("a launch", [&] { kernel<doubled>(mut(y)).sync(); });
    later("a readback", [&] { (void)host(held).sync(); });
    later("an allocation", [&] { (void)zeros<f32>({100}).sync(); });
    later("a stream", [&] {
      Stream s(device_under_test());
      s.synchronize();
    });
    later("waiting", [&] {
      Stream s = Stream::default_of(device_under_test());
      kernel<doubled>(mut(y)).on(s);
      s.synchronize();
    });
  }
  const Stream cpu = Stream::default_of(Device::cpu());
  auto other = ones<f32>({10}).on(cpu);
  kernel<doubled>(mut(other)).on(cpu);
  verdict.expect(host(other).sync() == std::vector<f32>(10, 2.0f), "the CPU is not concerned", "");
  verdict.end();
}

[[noreturn]] void store_to_nowhere() {
  run_fault("wild_store", [] {
    kernel<wild_store>.blocks(4).on_device(device_under_test())(
        unsafe_::address(reinterpret_cast<float*>(0x10000)))  // NOLINT: no address of ours
        .sync();
  });
}
[[noreturn]] void load_from_nowhere() {
  run_fault("wild_load", [] {
    auto z = zeros<f32>({1024}).sync();
    kernel<wild_load>(unsafe_::address(reinterpret_cast<float*>(0x10000)), mut(z)).sync();  // NOLINT
  });
}
TEST_F(Faults, IllegalStoreIsTheFirstCauseOfEveryLaterError) {
  EXPECT_EXIT(store_to_nowhere(), testing::ExitedWithCode(0), "");
}
TEST_F(Faults, IllegalLoadIsTheFirstCauseOfEveryLaterError) {
  EXPECT_EXIT(load_from_nowhere(), testing::ExitedWithCode(0), "");
}
TEST_F(Faults, ThisProcessIsNotConcerned) { expect_usable(); }

}  // namespace
}  // namespace gpu_test
