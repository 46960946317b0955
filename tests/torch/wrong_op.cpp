// Derivatives that do not fit their operator: loading the library ends with an error. TESSERA_WRONG_OPERATOR chooses
// one.
#include <cstdlib>
#include <string_view>
#include <tessera/torch.hpp>

using namespace tessera;

namespace {

void product(Mut<f32, 128> z, In<f32, dyn> x, In<f32, dyn> y) { z.store(x.load_like(z) * y.load_like(z)); }
void products(Mut<f32, 128> dx, Mut<f32, 128> dy, In<f32, dyn> dz, In<f32, dyn> x, In<f32, dyn> y) {
  dx.store(dz.load_like(dx) * y.load_like(dx));
  dy.store(dz.load_like(dy) * x.load_like(dy));
}

}  // namespace

TESSERA_TORCH_LIBRARY(tessera_wrong, m) {
  const char* chosen = std::getenv("TESSERA_WRONG_OPERATOR");
  const std::string_view wrong = chosen == nullptr ? "" : chosen;
  m.op("product(x, y)", like<0>, [](View<f32, 1> x, View<f32, 1> y) { return kernel<product>(empty_like(x), x, y); });
  const auto right = [](View<f32, 1> dz, View<f32, 1> x, View<f32, 1> y) {
    return kernel<products>(empty_like(x), empty_like(y), dz, x, y);
  };
  if (wrong == "parameters") {
    m.autograd("product", saves<argument<0>>, like<1, 2>, right);
  } else if (wrong == "results") {
    m.autograd("product",
               [](View<f32, 1> dz, View<f32, 1> x, View<f32, 1> y) { return kernel<product>(empty_like(x), dz, y); });
  } else if (wrong == "kept") {
    m.autograd("product", saves<argument<0>, argument<2>>, like<1, 2>, right);
  } else {
    m.autograd("product", right);
  }
}
