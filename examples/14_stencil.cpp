// Heat spreading over a plate: a five-point stencil applied many times, the two tensors take turns as input and output.
#include "common.hpp"

using namespace tessera;

template <int BM, int BN>
void heat_step(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x, Scalar<f32> rate) {
  auto [i, j] = y.origin();  // first element of the piece
  auto at = [&](int di, int dj) {
    return x.load_at(shape<BM, BN>, i + di, j + dj);
  };  // outside the plate it is 0 degrees
  auto here = at(0, 0);
  y.store(here + rate * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - 4.0f * here));
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Simulates heat on a plate whose border is kept cold.",
                           {{"m", "rows", "300"}, {"n", "columns", "500"}, {"steps", "steps", "20"}});
  return example::guarded([&] {
    const int m = args.size("m"), n = args.size("n"), steps = args.size("steps");
    const float rate = 0.2f;
    auto x = random::uniform<f32>({m, n}, 1).sync();
    std::vector<float> plate = host(x).sync(), next(plate.size());
    auto y = empty_like(x).sync();

    const double ms = example::fastest_ms(1, [&] {
      for (int s = 0; s < steps; ++s) {
        kernel<heat_step<32, 64>>(mut(y), x, rate).sync();
        std::swap(x, y);
      }
    });

    auto at = [&](int i, int j) {
      return i < 0 || j < 0 || i >= m || j >= n ? 0.0f : plate[static_cast<std::size_t>(i) * n + j];
    };
    for (int s = 0; s < steps; ++s) {
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
          next[static_cast<std::size_t>(i) * n + j] =
              at(i, j) + rate * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1) - 4.0f * at(i, j));
      std::swap(plate, next);
    }
    const std::string size = std::to_string(m) + "x" + std::to_string(n) + ", " + std::to_string(steps) + " steps";
    return example::report("stencil", size, example::relative_error(host(x).sync(), plate), 1e-6, ms);
  });
}
