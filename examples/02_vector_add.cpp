// z = x + y. Inputs are shared and read-only (In), the output is split into pieces, one block per piece (Mut).
#include "common.hpp"

using namespace tessera;

template <int B>
void add(Mut<f32, B> z, In<f32, dyn> x, In<f32, dyn> y) {
  z.store(x.load_like(z) + y.load_like(z));
}

int main(int argc, char** argv) {
  const example::Args args(
      argc, argv, "Adds two vectors.",
      {{"n", "elements", "1000003"}, {"x", "a .npy file of f32, rank 1"}, {"y", "another, of the same length"}});
  return example::guarded([&] {
    const int n = args.size("n");
    auto x = example::load_or(args.file("x"), random::normal<f32>({n}, 1));
    auto y = example::load_or(args.file("y"), random::normal<f32>({n}, 2));

    auto z = kernel<add<1024>>(empty_like(x), x, y).sync();  // a new output; the last piece is clipped
    const double ms = example::fastest_ms(5, [&] { kernel<add<1024>>(mut(z), x, y).sync(); });

    const auto hx = host(x).sync(), hy = host(y).sync();
    std::vector<float> expected(hx.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = hx[i] + hy[i];
    return example::report("vector add", std::to_string(hx.size()), example::relative_error(host(z).sync(), expected),
                           0, ms);
  });
}
