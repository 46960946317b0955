// Chooses how weights get onto a device, and what memory it has.
#include "mortar/load.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "model/load_paths.hpp"
#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/memory.hpp"

namespace mortar {
namespace {

/// MemAvailable of /proc/meminfo in bytes: unlike what is free it counts cached files, which give way. `fallback` where
/// the system has no such file.
std::int64_t available_on_host(std::int64_t fallback) {
  std::FILE* file = std::fopen("/proc/meminfo", "r");
  if (file == nullptr) return fallback;
  char line[128];
  long long kilobytes = -1;
  while (kilobytes < 0 && std::fgets(line, sizeof line, file) != nullptr)
    if (std::sscanf(line, "MemAvailable: %lld kB", &kilobytes) != 1) kilobytes = -1;
  std::fclose(file);
  return kilobytes < 0 ? fallback : kilobytes * 1024;
}

/// The number in a file of a cgroup; none for "max", and where there is no such file.
std::optional<std::int64_t> cgroup_number(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}
/// What the limits of memory of this process's cgroups leave, in bytes (version 2; kernel.org, "Control Group v2"):
/// those of its own and of all above it count. Files in the page cache are counted as used, and give way.
std::int64_t left_by_cgroups(std::int64_t available) {
  namespace fs = std::filesystem;
  constexpr std::string_view kVersion2 = "0::/";
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line) && !line.starts_with(kVersion2)) {}
  if (!line.starts_with(kVersion2)) return available;
  const fs::path root = "/sys/fs/cgroup";
  for (fs::path group = root / line.substr(kVersion2.size());; group = group.parent_path()) {
    const auto most = cgroup_number(group / "memory.max"), used = cgroup_number(group / "memory.current");
    if (most && used) {
      std::int64_t files = 0, number = 0;
      std::ifstream statistics(group / "memory.stat");
      for (std::string name; statistics >> name >> number;) {
        if (name == "file") files += number;
        if (name == "shmem") files -= number;  // files of tmpfs, which are among them, do not give way
      }
      available = std::min(available, std::max<std::int64_t>(0, *most - *used + files));
    }
    if (group == root || !group.has_relative_path()) return available;
  }
}

}  // namespace

Weights load_weights(const ModelSpec& model, const Checkpoint& checkpoint, tessera::Device device,
                     const LoadOptions& options) {
  try {
    if (device.kind() == tessera::DeviceKind::Cpu) return model::load_mapped(model, checkpoint, options);
    return model::load_staged(model, checkpoint, device, options);
  } catch (const tessera::OutOfMemoryError& error) {
    throw CapacityError(
        tessera::concat("the weights do not fit into the memory of ", device.name(), ": ", error.message()));
  }
}

DeviceMemory device_memory(tessera::Device device) {
  const tessera::MemoryStats stats = tessera::memory_stats(device);
  DeviceMemory memory;
  memory.total = static_cast<std::int64_t>(stats.total);
  memory.available = static_cast<std::int64_t>(stats.free + (stats.reserved - stats.in_use));
  if (device.kind() == tessera::DeviceKind::Cpu)
    memory.available = left_by_cgroups(available_on_host(memory.available));
  if (stats.limit != tessera::kNoMemoryLimit) {
    const std::size_t left = stats.limit > stats.in_use ? stats.limit - stats.in_use : 0;
    memory.available = std::min(memory.available, static_cast<std::int64_t>(left));
  }
  return memory;
}

}  // namespace mortar
