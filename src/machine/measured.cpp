// The measured facts of one H200.
#include "tessera/machine/measured.hpp"

#include <algorithm>

namespace tessera::machine {
namespace {

constexpr double not_timed = 1e9;  // nanoseconds of a step: never the least

struct Row {
  Multiplier by;
  TileTimes times;
};
constexpr Row kRows[] = {
#define TESSERA_WAVE(by, m, n, step, edge, next, tile_step, tile_edge) \
  {Multiplier::by, {m, n, {step, edge, next}, {tile_step, tile_edge}}},
#include "machine/h200.def"
};
constexpr std::size_t rows_of(Multiplier by) {
  return static_cast<std::size_t>(std::ranges::count(kRows, by, &Row::by));
}
template <Multiplier By>
constexpr auto kTilesOf = [] {
  std::array<TileTimes, rows_of(By)> tiles{};
  std::size_t n = 0;
  for (const Row& row : kRows)
    if (row.by == By) tiles[n++] = row.times;
  return tiles;
}();

constexpr Measured kH200 = [] {
  Measured m;
  m.gpu = "NVIDIA H200";
#define TESSERA_MEASURED(name, value) m.name = value;
#include "machine/h200.def"
  m.tiles.of = {kTilesOf<Multiplier::TensorCores>, kTilesOf<Multiplier::Tf32>, kTilesOf<Multiplier::Fp32>,
                kTilesOf<Multiplier::Fp64>};
  return m;
}();

}  // namespace

const Measured& measured() noexcept { return kH200; }

}  // namespace tessera::machine
