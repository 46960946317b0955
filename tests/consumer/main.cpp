// The program of the README, as a user builds it against Tessera.
#include <tessera/tessera.hpp>
using namespace tessera;

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {  // y: this block's own piece; x: shared, read-only
  y.store(a * x.load_like(y) + y.load());
}

int main() {
  auto x = ones<f32>({1024}).sync();
  auto y = zeros<f32>({1024}).sync();
  y = kernel<saxpy<128>>(std::move(y), 2.0f, x).sync();  // give: ownership in, ownership out; 8 blocks, inferred
  kernel<saxpy<128>>(mut(y), 3.0f, x).sync();            // lend: exclusive while the operation needs it
  print(y);
}
