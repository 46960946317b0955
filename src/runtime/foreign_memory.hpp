// Address ranges that must not be adopted: foreign memory that a storage covers already, and memory of the library
// whose address has been published. Leases and ordering belong to one storage; two storages over the same bytes would
// not protect each other, so the second one is rejected. Where only work in flight is left of the first, the second one
// comes behind that work instead.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

/// Claims [memory, memory + bytes) until the result is destroyed, which then releases `owner`. Throws BorrowError if
/// the range overlaps a claimed one; `owner` is released in that case too. `before` gets the work in flight on the
/// memory (retire_claim()), which whatever uses it now has to come behind.
std::shared_ptr<void> claim_foreign(const void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                                    std::string_view label, std::vector<Use>& before);

/// The storage of a claim has ended, and only `uses` may still be in flight: others may claim the memory from now on.
/// Does nothing if `claim` is none.
void retire_claim(const std::shared_ptr<void>& claim, std::span<const Use> uses) noexcept;

/// The same for memory of the library whose address is published, until withdraw_own(); sets `claimed`. Throws
/// BorrowError if it is claimed as foreign memory.
void claim_own(const void* memory, std::size_t bytes, std::string_view label, bool& claimed);
void withdraw_own(const void* memory, bool& claimed) noexcept;

}  // namespace tessera::runtime
