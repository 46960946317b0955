// Reads the two lines of /proc/meminfo that matter.
#include "server/host_memory.hpp"

#include <malloc.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <utility>

namespace mortar::server {
namespace {

constexpr std::chrono::milliseconds kFresh{100};

/// The number in the line that begins with `name`.
std::optional<double> line_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(name)) continue;
    const std::size_t digits = line.find_first_not_of(' ', name.size());
    if (digits == line.npos) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(line.data() + digits, line.data() + line.size(), value);
    if (error != std::errc()) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> available_share(std::string_view meminfo) {
  const auto total = line_of(meminfo, "MemTotal:"), available = line_of(meminfo, "MemAvailable:");
  if (!total || !available || *total <= 0) return std::nullopt;
  return *available / *total;
}

void release_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

bool HostMemory::low() {
  if (least_ <= 0) return false;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - read_at_ < kFresh) return low_;
  read_at_ = now;
  std::ostringstream text;
  text << std::ifstream(path_).rdbuf();
  const auto share = available_share(text.str());
  low_ = share && *share < least_;
  return low_;
}

}  // namespace mortar::server
