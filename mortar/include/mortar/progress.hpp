// How far loading has come, and a progress bar for programs.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace mortar {

struct LoadProgress {
  std::uint64_t bytes = 0, total = 0;  ///< of the device's weights
  double seconds = 0;                  ///< since the beginning
  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  /// 0 if it is not known yet.
  double seconds_left() const {
    return bytes > 0 ? seconds * static_cast<double>(total - bytes) / static_cast<double>(bytes) : 0;
  }
};

/// "loading  42 %  3.40 of 8.04 GB  5.21 GB/s  0.9 s left"; at the end the seconds that it took.
std::string progress_text(const LoadProgress& progress);

/// Writes progress to a stream: on a terminal one line that is written anew, elsewhere (a file, a pipe) a line every
/// few seconds and one at the end. Pass std::ref(bar) as LoadOptions::progress.
class ProgressBar {
 public:
  explicit ProgressBar(std::FILE* out, bool quiet = false);
  /// Ends a line that was not completed.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void operator()(const LoadProgress& progress);

 private:
  std::FILE* out_;
  bool quiet_, terminal_, open_ = false;
  double next_line_ = 0;
};

}  // namespace mortar
