// What the processes of a group must have in common, compared before any of them loads weights: what differs is named,
// instead of ranks that wait for each other or compute different models.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "mortar/checkpoint.hpp"
#include "mortar/model.hpp"

namespace mortar {

class Messages;

/// A property of a process: a number that means something to the user, or the hash of something longer.
struct Property {
  enum class Kind : std::uint8_t { Number, Hash };
  const char* name;
  Kind kind;
  std::int64_t value;
};

/// config.json, the tensors of the files (`files` is null where weights are random) with the first bytes of each, and
/// the options that results or sizes depend on. Throws ModelError for files that cannot be read.
std::vector<Property> properties_of(const std::string& folder, const ModelOptions& options, const Checkpoint* files);

/// Every process of the group calls it with the same names. Throws RanksError, in all of them, if a property of a rank
/// differs from that of rank 0.
void check_agreement(Messages& messages, const std::vector<Property>& own);

}  // namespace mortar
