// On the GPU: Constants are no arguments of the compiled kernel, each value has code of its own, and checked mode finds
// host state that changes.
#include <algorithm>

#include "gpu/gpu_test.hpp"
#include "host/expect_error.hpp"

namespace gpu_test {
using namespace tessera;

namespace {

enum class Ends { Open, Closed };

void between(Mut<f32, 64> y, Constant<int> n, Scalar<f32> a, Constant<Ends> ends, In<f32, dyn> x, Constant<bool> b) {
  auto t = x.load_like(y) * a;
  for (int i = 0; i < n; ++i) t = t + 1.0f;
  if (b) t = -t;
  if (ends == Ends::Closed) t = clamp(t, -5.0f, 5.0f);
  y.store(t);
}

int state = 0;
void reading(Mut<f32, 64> y) { y.store(y.load() + full<f32, 64>(static_cast<f32>(state))); }

class Constants : public Gpu {
 protected:
  void TearDown() override { set_check_mode(false); }
};

TEST_F(Constants, EachValueHasItsCode) {
  const auto x = ones<f32>({100}).sync();
  for (int round = 0; round < 2; ++round) {
    for (const int n : {0, 4}) {
      for (const bool b : {false, true}) {
        for (const Ends ends : {Ends::Open, Ends::Closed}) {
          auto y = kernel<between>(zeros<f32>({100}), n, 2.0f, ends, x, b).sync();
          const float all = (b ? -1.0f : 1.0f) * static_cast<float>(2 + n);
          const float expected = ends == Ends::Open ? all : std::clamp(all, -5.0f, 5.0f);
          EXPECT_EQ(host(y).sync(), std::vector<f32>(100, expected));
        }
      }
    }
  }
}

TEST_F(Constants, CheckedModeFindsHostStateThatChanges) {
  set_check_mode(true);
  state = 1;
  auto y = kernel<reading>(zeros<f32>({64})).sync();
  y = kernel<reading>(std::move(y)).sync();
  state = 2;
  EXPECT_ERROR(TraceError, y = kernel<reading>(std::move(y)).sync(), "kernel reading", "constant_test.cpp");
  state = 1;
  y = kernel<reading>(std::move(y)).sync();
  EXPECT_EQ(host(y).sync(), std::vector<f32>(64, 3.0f));
}

}  // namespace
}  // namespace gpu_test
