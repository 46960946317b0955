// What passes may ask about a launch: bounds of its pieces and of its arguments. The analysis finds out when a
// statement holds, a launch evaluates it, and tessera::certify proves it; none of them knows which pass asks, or why.
// The rows of src/passes/predicates.def ask. docs/compiler/obligations.md.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "tessera/analysis/launch_contract.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// What an obligation enables; the most valuable come first. Those from Pieces on only refine; of Mask there are many
/// for each row.
enum class ObligationUse : std::uint8_t {
  Guard,
  Inbounds,
  Divisibility,
  Division,
  Vectors,
  Pieces,
  Copies,
  Waves,
  Mask
};

/// A number of a launch lies in [least, most].
struct LaunchBound {
  enum class Of : std::uint8_t {
    Pieces,       ///< all pieces (LaunchContract::pieces_of_tensor, blocks_arg)
    PiecesAlong,  ///< the pieces along axis `index`
    FirstAxes,    ///< the product of the pieces along the first `index` axes
    Argument,     ///< entry argument `index`, which is an extent or a stride
  };
  Of of = Of::Pieces;
  int index = 0;
  std::int64_t least = kNoLeast, most = kNoMost;

  static constexpr std::int64_t kNoLeast = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kNoMost = std::numeric_limits<std::int64_t>::max();
};

/// A statement about a launch: all bounds hold, and the arguments of each pair are equal.
struct LaunchQuestion {
  ObligationUse use = ObligationUse::Pieces;
  std::vector<LaunchBound> bounds = {};
  std::vector<std::pair<int, int>> equal = {};  ///< entry arguments
  SourceLocation where = {};                    ///< of the operation that needs it; unknown: of none
};

/// A contiguous axis of a tensor of which a block takes one tile, and along which no loop walks.
struct TakenAxis {
  int argument = 0;         ///< entry argument of its extent
  std::int64_t tile = 0;    ///< elements of the tile along it
  std::uint64_t bytes = 0;  ///< of so many elements
  bool is_of_rows = false;  ///< the tensor has other axes
};

/// What a row may look at before it asks.
struct AskedKernel {
  const ir::Function& entry;
  const LaunchContract& contract;
  bool has_products = false;                ///< matrix products
  const ir::Operation* division = nullptr;  ///< the first division of a block's number, or of other scalars that the
                                            ///< launch determines, by something that is not constant; null: none
  std::span<const TakenAxis> taken = {};    ///< in the order of the tensors and their axes
};

/// A row of a table of predicates.
struct LaunchPredicate {
  const char* name;
  const char* pass;  ///< which asks
  const char* text;  ///< what holds: "the launch has many pieces"
  std::vector<LaunchQuestion> (*ask)(const AskedKernel&);
};

}  // namespace tessera::analysis
