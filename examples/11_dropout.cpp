// Dropout with random numbers that depend only on the seed and the element's offset: the same on every device and for
// every tile size.
#include "common.hpp"

using namespace tessera;

template <int B>
void dropout(Mut<f32, B> y, In<f32, dyn> x, Scalar<f32> p, Scalar<u64> seed) {
  auto u = random::uniform<f32>(seed, y.offsets());
  y.store(where(u < p, 0.0f, x.load_like(y) / (1.0f - p)));
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Drops elements with probability 1/4 and scales the rest.",
                           {{"n", "elements", "1000000"}, {"seed", "seed", "42"}});
  return example::guarded([&] {
    const int n = args.size("n"), seed = args.size("seed");
    const float p = 0.25f;
    auto x = random::normal<f32>({n}, 1).sync();
    auto y = kernel<dropout<1024>>(empty_like(x), x, p, seed).sync();
    auto z = kernel<dropout<256>>(empty_like(x), x, p, seed).sync();  // other tiles, the same numbers
    const double ms = example::fastest_ms(5, [&] { kernel<dropout<1024>>(mut(y), x, p, seed).sync(); });

    // The reference draws the numbers on the host: uniform<f32> with the same seed gives the same number for offset i
    // as the kernel.
    const auto hx = host(x).sync(), u = host(random::uniform<f32>({n}, seed).sync()).sync();
    std::vector<float> expected(hx.size());
    double dropped = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      dropped += u[i] < p;
      expected[i] = u[i] < p ? 0.0f : hx[i] / (1.0f - p);
    }
    std::printf("dropped %.4f of the elements\n", dropped / n);
    const auto hy = host(y).sync();
    const double error = std::max(example::relative_error(hy, expected), example::relative_error(host(z).sync(), hy));
    return example::report("dropout", std::to_string(n), error, 0, ms);
  });
}
