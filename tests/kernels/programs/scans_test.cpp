// Scans of every length compile in seconds and do not spill, along any axis and beside anything: kernels that are
// chosen at random are assembled. Skipped without an assembler. TESSERA_TEST_FORMS=1000 assembles more than a few,
// TESSERA_TEST_SEED=N others, TESSERA_TEST_SECONDS=N as many as there is time for.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>

#include "kernels/programs/scan_kernels.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::test {
namespace {

/// What the assembler says of the kernel.
jit::CodeReport report_of(const ScanKernel& k, int sm) {
  ScanRecorder recorder(k);
  lang::Specialization facts;
  std::vector<std::uint64_t> slots;
  std::uint64_t number = 0;
  for (const lang::ParamInfo& p : recorder.params()) {
    const auto rank = static_cast<std::size_t>(p.rank);
    constexpr std::uint64_t extent = 512;
    facts.tensors.push_back({p.rank - 1, 0, (1u << p.rank) - 1});
    slots.push_back(++number << 40);
    slots.insert(slots.end(), rank, extent);
    std::vector<std::uint64_t> strides(rank, 1);
    for (std::size_t a = rank - 1; a-- > 0;) strides[a] = strides[a + 1] * extent;
    slots.insert(slots.end(), strides.begin(), strides.end());
  }
  lang::Trace trace = recorder.trace(facts);
  const auto contract = detail::launch_contract(trace.params, false, trace.same_extents);
  const jit::Kernel kernel(std::move(trace.module), contract, {trace.name, false, {}});
  return kernel.report(jit::target_for(sm), slots);
}

template <class T, std::size_t N>
const T& one_of(const T (&all)[N], std::mt19937_64& random) {
  return all[random() % N];
}

constexpr int kMaxBytes = 1 << 15;  // of a tile
constexpr int kBatches = 2;
constexpr unsigned kFewBytes = 64;  // of stack, beside what the kernel takes without its scan

/// A kernel with a scan along `axis` of `rank`, of which the other extents, the type and the function are random.
ScanKernel random_kernel(int rank, int axis, int extent, ScanPlace place, std::mt19937_64& random) {
  constexpr ElementType kElements[] = {ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64,
                                       ElementType::i8,  ElementType::i16,  ElementType::i32, ElementType::i64,
                                       ElementType::u8,  ElementType::u16,  ElementType::u32, ElementType::u64};
  constexpr int kOthers[] = {1, 2, 8, 16, 32, 64, 128, 256};
  constexpr int kFactors[] = {16, 32, 64, 128};  // extents of operands of products
  constexpr ScanFunction kFunctions[] = {ScanFunction::Sum, ScanFunction::Product, ScanFunction::Largest,
                                         ScanFunction::LastNonzero};
  ScanKernel k;
  k.place = place;
  k.axis = axis;
  k.backward = random() % 2 == 0;
  k.function = one_of(kFunctions, random);
  k.element = one_of(kElements, random);
  // Tiles that leave a block of few warps registers: what else is in the kernel spills of larger ones by itself.
  const bool multiplies = place != ScanPlace::Alone && place != ScanPlace::Reductions;
  const bool is_factor = place == ScanPlace::Operand || place == ScanPlace::Result;
  const auto stretched = [&](int n, int a) { return multiplies && n == 1 && a >= rank - 2 ? 64 : n; };
  const int unit = std::max(multiplies ? 4 : 1, size_of(k.element));
  int bytes = unit * stretched(extent, axis);
  for (int a = 0; a < rank; ++a) {
    if (a == axis) {
      k.shape.push_back(extent);
      continue;
    }
    const bool of_matrix = multiplies && a >= rank - 2;
    const int least = of_matrix ? 16 : 1;
    int other = of_matrix ? one_of(kFactors, random) : one_of(kOthers, random);
    if (of_matrix && !is_factor && random() % 3 == 0) other = 1;
    if (multiplies && a < rank - 2) other = std::min(other, kBatches);
    while (bytes * stretched(other, a) > kMaxBytes && other > least) other /= 2;
    bytes *= stretched(other, a);
    k.shape.push_back(other);
  }
  return k;
}

struct Place {
  int rank, axis, extent;
  ScanPlace place;
};
/// Every extent along every axis at every place, in random order.
std::vector<Place> places(std::mt19937_64& random) {
  std::vector<Place> all;
  for (int rank = 1; rank <= 3; ++rank)
    for (int axis = 0; axis < rank; ++axis)
      for (int extent = 1; extent <= 256; extent *= 2)
        for (int p = 0; p < static_cast<int>(std::size(kScanPlaces)); ++p) {
          const auto place = static_cast<ScanPlace>(p);
          if ((place == ScanPlace::Operand || place == ScanPlace::Result) && (rank == 1 || extent < 16)) continue;
          if (place >= ScanPlace::Scales && axis < rank - 2 && extent > kBatches) continue;
          all.push_back({rank, axis, extent, place});
        }
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

std::uint64_t asked(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}
/// Processor time of the assembler so far.
double assembler_seconds() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

class Scans : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!jit::assembler_for("sm_90", &why)) GTEST_SKIP() << why;
  }
  static void expect_good_code(const ScanKernel& k, int sm) {
    const std::string what = concat(k.text(), ", sm_", sm);
    const double before = assembler_seconds();
    const auto start = std::chrono::steady_clock::now();
    std::printf("%s: ", what.c_str());
    std::fflush(stdout);
    try {
      const jit::CodeReport r = report_of(k, sm);
      // Several forms are assembled at once; a busy machine stretches the time.
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      const double seconds = std::min(assembler_seconds() - before, passed.count());
      std::printf("%.1f seconds, %u registers, %u bytes of stack, form %s\n", seconds, r.notes.resources.registers,
                  r.notes.resources.stack, jit::name_of(r.form));
      EXPECT_LE(seconds, 20) << what;
      if (r.notes.resources.stack > kFewBytes) {
        ScanKernel plain = k;
        plain.function = ScanFunction::None;
        const unsigned without = report_of(plain, sm).notes.resources.stack;
        EXPECT_LE(r.notes.resources.stack, without + std::max(kFewBytes, without / 8)) << what;
      }
      EXPECT_LT(r.form, jit::Form::Fallback) << what;
    } catch (const Error& e) { ADD_FAILURE() << what << ": " << e.what(); }
    std::fflush(stdout);
  }
};

TEST_F(Scans, OfEveryExtentAlongEveryAxisCompile) {
  const std::uint64_t seed = asked("TESSERA_TEST_SEED", 1), most = asked("TESSERA_TEST_FORMS", 16);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(asked("TESSERA_TEST_SECONDS", 3600));
  std::mt19937_64 random(seed);
  std::vector<Place> left;
  for (std::uint64_t i = 0; i < most && std::chrono::steady_clock::now() < end; ++i) {
    if (left.empty()) left = places(random);
    const Place p = left.back();
    left.pop_back();
    constexpr int kGpus[] = {90, 80, 100, 120};
    expect_good_code(random_kernel(p.rank, p.axis, p.extent, p.place, random), kGpus[i % std::size(kGpus)]);
  }
}

/// Columns of 32 and 64 elements beside a product, which the assembler rejects as scans, and tiles that are scanned
/// along their first axis.
TEST_F(Scans, OfChunksBesideProductsCompile) {
  expect_good_code({ElementType::f32, {64, 1}, 0, false, ScanFunction::Sum, ScanPlace::Scales}, 90);
  expect_good_code({ElementType::f32, {32, 1}, 0, false, ScanFunction::Sum, ScanPlace::Scales}, 100);
  expect_good_code({ElementType::f32, {64, 1}, 0, true, ScanFunction::Sum, ScanPlace::Scales}, 120);
  expect_good_code({ElementType::f32, {32, 256}, 0, false, ScanFunction::Sum, ScanPlace::Alone}, 90);
}

/// With four blocks on an SM a thread has 64 registers, because the assembler adds four warps for tensor copies.
TEST_F(Scans, BesideProductsOfFewRowsLeaveThreadsRegisters) {
  EXPECT_EQ(
      report_of({ElementType::i8, {8, 1}, 0, true, ScanFunction::Largest, ScanPlace::Masks}, 90).notes.resources.stack,
      0u);
}

}  // namespace
}  // namespace tessera::test
