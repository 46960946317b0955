// Memory of recordings, which consist of many small lists.
#pragma once
#include <memory>
#include <memory_resource>

namespace tessera::runtime {

/// Memory for what one recording needs until it ends. Its blocks are kept for later recordings, up to a limit: a
/// program that captures a graph anew and drops the old one does not return memory to the system and request it again.
std::shared_ptr<std::pmr::memory_resource> make_recording_memory();

}  // namespace tessera::runtime
