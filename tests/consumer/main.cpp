// What a user's first program needs of the installed library.
#include <cstdio>

#include "tessera/base/dims.hpp"
#include "tessera/base/element.hpp"

int main() {
  const tessera::Dims shape{2, 3};
  std::printf("consumer: %s\n", shape.numel() == 6 && float(tessera::f16(1.5f)) == 1.5f ? "ok" : "wrong");
}
