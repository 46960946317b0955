// The smallest program: a kernel is an ordinary function, Mut is this block's own piece of a tensor.
#include "common.hpp"

using namespace tessera;

template <int B>
void hello(Mut<i32, B> y) {
  auto [i] = y.index();  // the index of this block's piece
  print("hello from block {}", i);
  y.store(y.load() + i);
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Says hello from every block.", {{"n", "elements", "16"}});
  return example::guarded([&] {
    const int n = args.size("n");
    auto y = zeros<i32>({n}).sync();
    y = kernel<hello<4>>(std::move(y)).sync();  // ownership goes in, ownership comes back
    print(y);

    const auto found = host(y).sync();
    double wrong = 0;
    for (int i = 0; i < n; ++i) wrong += found[static_cast<std::size_t>(i)] != i / 4;
    return example::report("hello", std::to_string(n), wrong, 0, 0);
  });
}
