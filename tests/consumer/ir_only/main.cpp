// Tile IR without the rest of the library.
#include <cstdio>

#include "tessera/ir/semantics.hpp"

int main() {
  const auto bits = tessera::ir::from_double(tessera::ir::Elem::F16, 1.5);
  std::printf("consumer: %s\n", bits == 0x3E00 ? "ok" : "wrong");
}
