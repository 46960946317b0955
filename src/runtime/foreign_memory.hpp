// Address ranges that must not be adopted: foreign memory that a storage covers already, and memory of the library
// whose address has been published. Leases and ordering belong to one storage; two storages over the same bytes would
// not protect each other, so the second one is rejected.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

namespace tessera::runtime {

/// Claims [memory, memory + bytes) until the result is destroyed, which then releases `owner`. Throws BorrowError if
/// the range overlaps a claimed one; `owner` is released in that case too.
std::shared_ptr<void> claim_foreign(const void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                                    std::string_view label);

/// The same for memory of the library whose address is published, until withdraw_own(); sets `claimed`. Throws
/// BorrowError if it is claimed as foreign memory.
void claim_own(const void* memory, std::size_t bytes, std::string_view label, bool& claimed);
void withdraw_own(const void* memory, bool& claimed) noexcept;

}  // namespace tessera::runtime
