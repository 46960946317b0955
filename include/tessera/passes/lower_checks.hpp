// Lowers assertions to stores into an error record, because a failed assertion would destroy the CUDA context.
#pragma once
#include <vector>

#include "tessera/abi/kernel_abi.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// Replaces every `assert` of an entry: where its condition is false, the first word of an error record
/// (four i32) is changed from 0 to the check's number plus one, the others to the block's coordinates plus one, and the
/// kernel goes on. The record's address becomes the entry's last argument (ptr<i32>). An entry without assertions is
/// left as it is, and the list is empty. The position of a check in the list is its number.
std::vector<calling::Check> lower_checks(ir::Function& entry);

}  // namespace tessera::passes
