// Shared by the test programs of this folder: they skip with a reason if no GPU can be used, and compare the results of
// a kernel on both devices row by row.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "gpu/sides.hpp"

namespace gpu_test {

/// The reason why nothing can run on the device under test; empty if it can. Determined once, by running a kernel.
inline const std::string& unusable() {
  static const std::string reason = [] {
    try {
      const tessera::Device device = device_under_test();
      tessera::set_default_device(device);
      // With a driver that runs nothing, kernels are only compiled (tests/assemble/gpu_programs.py).
      if (std::getenv("NULL_DRIVER_SM")) return std::string();
      constexpr auto probe = [](tessera::Mut<tessera::i32, 16> y) { y.store(tessera::iota<tessera::i32, 16>()); };
      const auto y = tessera::kernel<probe>(tessera::empty<tessera::i32>({16})).sync();
      return std::string(tessera::host(y).sync()[15] == 15 ? "" : "the first kernel computes a wrong number");
    } catch (const std::exception& e) { return std::string(e.what()); }
  }();
  return reason;
}

/// Fixture: without a GPU or an assembler its tests are skipped; with TESSERA_DEVICE set, that is a failure.
class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (unusable().empty()) return;
    if (std::getenv("TESSERA_DEVICE")) {
      std::fprintf(stderr, "%s\n", unusable().c_str());  // a death test's child is seen by its stderr alone
      FAIL() << unusable();
    }
    GTEST_SKIP() << "needs a GPU: " << unusable();
  }
};

/// One operation of a bundle, a kernel that computes many and writes each to a row of its own.
struct Row {
  const char* name;
  double tolerance = 0;  ///< 0: bit for bit; else the relative norm
};

/// Compares the rows of two results of `rows.size()` rows.
template <class T>
void expect_rows(std::span<const Row> rows, const Both<std::vector<T>>& both, const char* type) {
  const std::size_t n = both.cpu.size() / rows.size();
  ASSERT_EQ(both.cpu.size(), both.gpu.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto part = [&](const std::vector<T>& v) {
      return std::vector<T>(v.begin() + static_cast<std::ptrdiff_t>(r * n),
                            v.begin() + static_cast<std::ptrdiff_t>((r + 1) * n));
    };
    const auto cpu = part(both.cpu), gpu = part(both.gpu);
    EXPECT_EQ(rows[r].tolerance == 0 ? exact(cpu, gpu) : close(cpu, gpu, rows[r].tolerance), "")
        << rows[r].name << " of " << type;
  }
}

template <class T>
const char* type_name() {
  return tessera::info(tessera::element_type<T>).name;
}

/// Writes tiles to consecutive rows of a piece.
template <class Sub>
class RowWriter {
 public:
  explicit RowWriter(Sub sub) : sub_(sub) {}
  template <class X>
  void operator()(const X& tile) {
    sub_.store(row_++, 0, tile);
  }

 private:
  Sub sub_;
  int row_ = 0;
};

/// Sets hints in the environment during its lifetime.
struct Hints {
  explicit Hints(const char* text) : before_(getenv("TESSERA_TUNING") ? getenv("TESSERA_TUNING") : "") {
    setenv("TESSERA_TUNING", text, 1);
  }
  ~Hints() { before_.empty() ? unsetenv("TESSERA_TUNING") : setenv("TESSERA_TUNING", before_.c_str(), 1); }

 private:
  std::string before_;
};

}  // namespace gpu_test
