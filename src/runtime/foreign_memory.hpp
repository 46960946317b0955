// Memory that must not be wrapped (again): foreign memory that is wrapped at the moment, and memory of the library
// whose address others have been told. Leases and order belong to a storage; two storages over the same bytes would
// know nothing of each other, so the second one is refused.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

namespace tessera::runtime {

/// Claims [memory, memory + bytes) until the result goes, and then releases `owner`. Throws BorrowError if the range
/// overlaps one that is claimed; `owner` is released then.
std::shared_ptr<void> claim_foreign(const void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                                    std::string_view label);

/// The same for memory of the library whose address others know, until withdraw_own; `claimed` remembers it. Throws
/// BorrowError if somebody has claimed it as foreign.
void claim_own(const void* memory, std::size_t bytes, std::string_view label, bool& claimed);
void withdraw_own(const void* memory, bool& claimed) noexcept;

}  // namespace tessera::runtime
