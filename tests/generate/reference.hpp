// The meaning of a program, computed naively: block after block, statement after statement, element after element, from
// the pages of the language. It shares nothing with the recorder, the passes and the CPU backend.
#pragma once
#include <cstddef>

#include "generate/memory.hpp"
#include "generate/program.hpp"

namespace tessera::generate {

enum class Outcome {
  Done,
  Rejected,  ///< a requirement does not hold, or the pieces of parameters are not equally many
  TooLong,   ///< more steps than a test should take
};

/// Blocks of a launch: pieces of the first Mut; for MutTiles alone at most as many as there are tiles.
struct Blocks {
  std::int64_t count = 0;
  bool agree = true;  ///< all Mut have equally many pieces
};
Blocks blocks_of(const Program&, const Launch&);

/// Runs a launch of a checked program over `memory`, which is laid out as `layout` says.
Outcome run_reference(const Program&, const Launch&, const Memory& layout, std::byte* memory);

}  // namespace tessera::generate
