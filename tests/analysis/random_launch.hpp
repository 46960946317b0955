// Launches of random programs, at and around the boundaries of what their contract allows.
#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "analysis/random_program.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace tessera::test {

inline std::int64_t near(std::mt19937_64& rng, std::int64_t step) {
  const std::int64_t base = step * static_cast<std::int64_t>(rng() % 4);
  return std::max<std::int64_t>(0, base + static_cast<std::int64_t>(rng() % 3) - 1);
}

inline std::vector<std::uint64_t> random_launch(std::mt19937_64& rng, const analysis::LaunchContract& c) {
  std::vector<std::uint64_t> slots;
  for (const analysis::ArgContract& a : c.args) {
    const std::int64_t large[] = {INT32_MAX, INT32_MAX - 1, 1 << 30, 65536};
    const std::int64_t odd[] = {INT64_MAX, INT64_MIN, -1, INT32_MIN, INT32_MAX, std::int64_t{1} << 31, 5};
    switch (a.role) {
      case analysis::ArgRole::Base: slots.push_back(16 * (rng() % 8)); break;
      case analysis::ArgRole::Dim:
        if (a.tensor == c.pieces_of_tensor) {
          const std::int64_t piece = c.piece[static_cast<std::size_t>(a.axis)];
          slots.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(1, near(rng, piece))));
        } else {
          slots.push_back(static_cast<std::uint64_t>(rng() % 6 == 0 ? large[rng() % 4] : near(rng, 16)));
        }
        break;
      case analysis::ArgRole::Blocks: slots.push_back(1 + rng() % 5); break;
      default: slots.push_back(static_cast<std::uint64_t>(rng() % 3 == 0 ? odd[rng() % 7] : near(rng, 16)));
    }
  }
  return slots;
}

inline cpu::Grid grid_of(const analysis::LaunchContract& c, const std::vector<std::uint64_t>& slots) {
  if (c.blocks_arg >= 0) return {static_cast<std::uint32_t>(slots[static_cast<std::size_t>(c.blocks_arg)]), 1, 1};
  if (c.pieces_of_tensor < 0) return {3, 1, 1};
  std::uint64_t n = 1;
  for (std::size_t a = 0; a < c.piece.size(); ++a) {
    const auto piece = static_cast<std::uint64_t>(c.piece[a]);
    n *= (slots[1 + a] + piece - 1) / piece;
  }
  return {static_cast<std::uint32_t>(n), 1, 1};
}

}  // namespace tessera::test
