// The table of the fuzz targets.
#include "fuzz/fuzz.hpp"

namespace tessera::fuzz {

std::span<const Target> targets() {
  static constexpr Target all[] = {
#define TESSERA_FUZZ(name, bytes, doc) {#name, bytes, fuzz_##name, seeds_##name},
#include "fuzz/targets.def"
  };
  return all;
}

const Target* target(std::string_view name) {
  for (const Target& t : targets()) {
    if (name == t.name) return &t;
  }
  return nullptr;
}

}  // namespace tessera::fuzz
