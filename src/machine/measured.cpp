// The measured facts of one H200.
#include "tessera/machine/measured.hpp"

namespace tessera::machine {
namespace {

constexpr double not_timed = 1e9;  // nanoseconds of a step: never the least

constexpr TileTimes kTiles[] = {
#define TESSERA_WAVE(m, n, step, edge, tile_step, tile_edge) {m, n, {step, edge}, {tile_step, tile_edge}},
#include "machine/h200.def"
};

constexpr Measured kH200 = [] {
  Measured m;
  m.gpu = "NVIDIA H200";
#define TESSERA_MEASURED(name, value) m.name = value;
#include "machine/h200.def"
  m.tiles = kTiles;
  return m;
}();

}  // namespace

const Measured& measured() noexcept { return kH200; }

}  // namespace tessera::machine
