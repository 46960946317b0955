// How much memory the host has left: a server that is killed for want of it takes all its answers along.
#pragma once
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace mortar::server {

/// The share of memory that programs may still get, 0 to 1, of a text in the form of /proc/meminfo (man 5 proc);
/// nothing if it does not say.
std::optional<double> available_share(std::string_view meminfo);

/// Gives back what the C library keeps of memory that was freed, for the next allocations of each thread. It takes some
/// milliseconds, so it pays after work that needed much. With another C library than glibc it does nothing.
void release_freed_memory();

/// Safe to use from several threads.
class HostMemory {
 public:
  /// `path`: a file in the form of /proc/meminfo; `least`: the share that must be available, 0: any.
  HostMemory(std::string path, double least) : path_(std::move(path)), least_(least) {}
  /// Whether less is available. The file is read every 100 ms at most; one that cannot be read means no.
  bool low();

 private:
  const std::string path_;
  const double least_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point read_at_{};
  bool low_ = false;
};

}  // namespace mortar::server
