// The files of the disk cache: compiled kernels, and cached facts about recordings ("notes", code_stores.hpp). All
// numbers are little-endian.
//
//   offset  0  8 bytes  "TSRCUBIN" or "TSRNOTES"
//           8  u32      version of the format
//          12  u32      length of the description
//          16  u64      length of the contents
//          24  32       the entry's key
//          56           description. Of a kernel: fields of u32 length and bytes (label, gpu, assembler, warnings), u8
//                       register pressure, u64 compile time in microseconds. Of a note: nothing
//                       contents: the cubin, or the note
//   last 32             SHA-256 of everything before
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "tessera/jit/disk_cache.hpp"

namespace tessera::jit {

std::vector<std::byte> write_cache_file(const CacheKey& key, const CachedCubin& code);
/// Empty unless the bytes are a whole and undamaged file of this version, for `key` if one is given. The cubin is left
/// in the memory of the file: it is large, and a start with a warm cache has no time to spare for new pages.
std::optional<CachedCubin> read_cache_file(std::vector<std::byte> file, const CacheKey* key);

std::vector<std::byte> write_note_file(const CacheKey& key, std::span<const std::byte> note);
std::optional<std::vector<std::byte>> read_note_file(std::vector<std::byte> file, const CacheKey& key);

}  // namespace tessera::jit
