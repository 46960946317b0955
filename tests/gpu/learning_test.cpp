// Kernels that learn on a GPU: each launch has the bits that the first one had, whichever code it ran.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include <tessera/jit/learning.hpp>
#include <tessera/tessera.hpp>

namespace {

using namespace tessera;

constexpr int kRows = 257, kColumns = 1024, kLaunches = 300;

void waves(Mut<f32, 4, 1024> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(sin(t) * exp(-abs(t)) + t / (1.0f + t * t));
}
void softmax(Mut<f32, 1, 1024> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  auto e = exp(t - max(t, axis<1>));
  y.store(e / sum(e, axis<1>));
}
void bits_of_rows(Mut<i32, 4, 1> y, In<i32, dyn, dyn> x) {
  auto [i, zero] = y.origin();
  y.store(sum(x.load_at(shape<4, 1024>, i, 0) & 255, axis<1>));
}

std::vector<float> numbers() {
  std::vector<float> all(kRows * kColumns);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i * 2654435761u % 4096) / 512.0f - 4.0f;
  return all;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Launches until learning has ended, and afterwards; every result is compared with that of a kernel that does not
/// learn.
template <auto K, class T, class X>
void check_bits(const X& x, std::int64_t columns) {
  const auto launched = [&] {
    auto y = full<T>({kRows, columns}, T{77}).sync();
    kernel<K>(mut(y), x).sync();
    const auto all = host(y).sync();
    return std::vector<T>(all.begin(), all.end());
  };
  std::vector<T> expected;
  {
    const LearningScope off(false);
    expected = launched();
  }
  int different = 0;
  const LearningScope learns;
  for (int i = 0; i < kLaunches; ++i) {
    different += !same_bits(launched(), expected);
    if (i == 0) finish_compiling_for_learning();
  }
  EXPECT_EQ(different, 0) << "of " << kLaunches << " launches";
}

TEST(LearningOnAGpu, ChangesNoBit) {
  if (default_device({}).kind() != DeviceKind::Cuda)
    GTEST_SKIP() << "needs a GPU: on the CPU there is nothing to learn";
  const auto x = from(numbers(), {kRows, kColumns}).sync();
  check_bits<&waves, f32>(x, kColumns);
  check_bits<&softmax, f32>(x, kColumns);
  std::vector<i32> whole(kRows * kColumns);
  std::iota(whole.begin(), whole.end(), -70000);
  check_bits<&bits_of_rows, i32>(from(whole, {kRows, kColumns}).sync(), 1);
}

}  // namespace
