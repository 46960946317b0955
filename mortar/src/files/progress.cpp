// The progress bar.
#include "mortar/progress.hpp"

#include <unistd.h>

namespace mortar {
namespace {

constexpr double kSecondsBetweenLines = 5;  // where a line cannot be written anew

}  // namespace

std::string progress_text(const LoadProgress& p) {
  const bool done = p.bytes >= p.total;
  const double share = p.total > 0 ? static_cast<double>(p.bytes) / static_cast<double>(p.total) : 1;
  char text[128];
  std::snprintf(text, sizeof text, "%s %3.0f %%  %.2f of %.2f GB  %.2f GB/s  %.1f s%s", done ? "loaded " : "loading",
                100 * share, static_cast<double>(p.bytes) / 1e9, static_cast<double>(p.total) / 1e9,
                p.bytes_per_second() / 1e9, done ? p.seconds : p.seconds_left(), done ? "" : " left");
  return text;
}

ProgressBar::ProgressBar(std::FILE* out, bool quiet)
    : out_(out), quiet_(quiet), terminal_(::isatty(::fileno(out)) != 0), next_line_(kSecondsBetweenLines) {}

ProgressBar::~ProgressBar() {
  if (open_) std::fputc('\n', out_);
}

void ProgressBar::operator()(const LoadProgress& p) {
  const bool done = p.bytes >= p.total;
  if (quiet_ || (!terminal_ && !done && p.seconds < next_line_)) return;
  next_line_ = p.seconds + kSecondsBetweenLines;
  // \r goes to the beginning of the line, ESC [ K clears what is left of it (ECMA-48, "erase in line").
  std::fprintf(out_, "%s%s%s", terminal_ ? "\r" : "", progress_text(p).c_str(), terminal_ ? "\033[K" : "");
  open_ = terminal_ && !done;
  if (!open_) std::fputc('\n', out_);
  std::fflush(out_);
}

}  // namespace mortar
