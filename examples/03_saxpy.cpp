// y = a x + y in place: give the tensor away and get it back, or lend it with mut().
#include "common.hpp"

using namespace tessera;

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Scales and adds in place.", {{"n", "elements", "1048576"}});
  return example::guarded([&] {
    const int n = args.size("n");
    auto x = random::uniform<f32>({n}, 1).sync();
    auto y = zeros<f32>({n}).sync();

    y = kernel<saxpy<1024>>(std::move(y), 2.0f, x).sync();  // give: ownership in, ownership out
    kernel<saxpy<1024>>(mut(y), 3.0f, x).sync();            // lend: exclusive while the operation needs it

    const auto hx = host(x).sync();
    std::vector<float> expected(hx.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 3.0f * hx[i] + 2.0f * hx[i];
    const double error = example::relative_error(host(y).sync(), expected);
    const double ms = example::fastest_ms(5, [&] { kernel<saxpy<1024>>(mut(y), 0.5f, x).sync(); });
    return example::report("saxpy", std::to_string(n), error, 1e-7, ms);
  });
}
