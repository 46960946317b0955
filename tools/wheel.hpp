// Files out of a wheel (a zip archive), without a program for zip archives: gzip, which every system has, inflates
// them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// A file in a wheel.
struct WheelEntry {
  std::string name;  ///< its path in the wheel
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0;  ///< bytes in the wheel, and unpacked
  std::uint64_t header = 0;            ///< where its header is in the wheel
  bool deflated = false;
};

/// The table of contents. Throws IoError if the file is no zip archive, or one of more than 4 GiB.
std::vector<WheelEntry> wheel_entries(const std::string& wheel);

/// Writes the contents of an entry to the file `path`. Throws IoError; also if they are damaged.
void unpack(const std::string& wheel, const WheelEntry& entry, const std::string& path);

}  // namespace tessera
