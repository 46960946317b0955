// Lowers assertions to stores into an error record, because a failed assertion would destroy the CUDA context.
#pragma once
#include <string>
#include <vector>

#include "tessera/base/source_location.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// An assertion that was lowered; its position in the list is its number.
struct LoweredCheck {
  std::string message;
  SourceLocation where;
};

/// Replaces every `assert` of an entry: where its condition is false, the first word of an error record
/// (four i32) is changed from 0 to the check's number plus one, the others to the block's coordinates plus one, and the
/// kernel goes on. The record's address becomes the entry's last argument (ptr<i32>). An entry without assertions is
/// left as it is, and the list is empty.
std::vector<LoweredCheck> lower_checks(ir::Function& entry);

}  // namespace tessera::passes
