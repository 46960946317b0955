// The collectives, made of exchanges of bytes in host memory. A member holds `ranks_each` ranks, and sums are made in
// the order of the ranks, so results are the same bits however ranks are spread over members.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "mesh/exchange.hpp"

namespace tessera::mesh {

/// One collective without its operands: what all members have to agree on, and where it was called.
struct CollectiveHead {
  Collective kind{};
  ElementType element{};
  std::int64_t count = 0;
  int peer = 0;
  std::uint64_t number = 0;  ///< of the calls of this communicator
  const char* label = "";
  SourceLocation where;
};

/// Runs it on this thread. `in` and `out` have an address for each local rank, null where the collective has no such
/// operand. Throws MeshError if another member called something else, and what the exchange throws.
void run_collective(Exchange& exchange, int ranks_each, const CollectiveHead& head,
                    std::span<const std::byte* const> in, std::span<std::byte* const> out);

}  // namespace tessera::mesh
