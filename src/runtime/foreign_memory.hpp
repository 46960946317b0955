// Foreign memory that is wrapped at the moment. Leases and order belong to a storage; two storages over the same bytes
// would know nothing of each other, so the second one is refused.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

namespace tessera::runtime {

/// Claims [memory, memory + bytes) until the result goes, and then releases `owner`. Throws BorrowError if the range
/// overlaps one that is claimed; `owner` is released then.
std::shared_ptr<void> claim_foreign(const void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                                    std::string_view label);

}  // namespace tessera::runtime
