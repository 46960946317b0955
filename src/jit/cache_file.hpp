// One file of the disk cache. All numbers are little-endian.
//
//   offset  0  8 bytes  "TSRCUBIN"
//           8  u32      version of the format
//          12  u32      length of the description
//          16  u64      length of the cubin
//          24  32       the entry's key
//          56           description: fields of u32 length and bytes (label, gpu, assembler, warnings), u8 register
//                       pressure, u64 compile time in microseconds
//                       cubin
//   last 32             SHA-256 of everything before
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "tessera/jit/disk_cache.hpp"

namespace tessera::jit {

std::vector<std::byte> write_cache_file(const CacheKey& key, const CachedCubin& code);
/// Empty unless the bytes are a whole and undamaged file of this version, for `key` if one is given.
std::optional<CachedCubin> read_cache_file(std::span<const std::byte> file, const CacheKey* key);

}  // namespace tessera::jit
