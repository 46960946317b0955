// The program of the README, as a user builds it against Tessera.
#include <tessera/tessera.hpp>
using namespace tessera;

template <int N>
void softmax(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {  // y: this block's own row; x: shared, read-only
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = x.load_like(y, pad::neg_inf);  // the region of x that y occupies
  t = exp(t - max(t, axis<1>));
  y.store(t / sum(t, axis<1>));
}
int main() {
  auto x = random::normal<f32>({1000, 1000}, 1).sync();
  print(kernel<softmax<1024>>(empty_like(x), x).sync());  // 1000 blocks, one for each row
}
