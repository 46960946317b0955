// What a launch needs of a recording's code, as the bytes of a note (recording_notes.hpp): a stream of numbers and
// texts.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "jit/code/code_shape.hpp"
#include "tessera/jit/disk_cache.hpp"

namespace tessera::jit {

/// `cubin` names the code in the disk cache.
std::vector<std::byte> write_code_note(const CodeShape& shape, const CacheKey& cubin);
/// False if the bytes are not such a note, or say what no launch could survive. A checksum says that a note is as it
/// was written, not that it was written by us: everything in it is checked. The texts of locations live as long as the
/// process.
bool read_code_note(std::span<const std::byte> note, CodeShape& shape, CacheKey& cubin);

}  // namespace tessera::jit
