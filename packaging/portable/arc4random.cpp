// arc4random() for programs that carry libstdc++ (TESSERA_PORTABLE). Debian 12's libstdc++.a calls it in
// std::random_device, and the C library has it from 2.36 on. This one reads the kernel's random numbers, as that one
// does, so that the program also runs where the C library is older.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() {
  std::uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();  // it cannot fail for so few bytes
  return number;
}
