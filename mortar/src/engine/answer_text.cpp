#include "engine/answer_text.hpp"

#include <algorithm>
#include <utility>

namespace mortar {
namespace {

/// Bytes of the character that begins with `lead`; 1 for bytes that begin none.
std::size_t length_of(unsigned char lead) { return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1; }

/// Bytes at the end of `text` that are the beginning of a character (RFC 3629).
std::size_t unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) != 0x80) return length_of(byte) > back ? back : 0;
  }
  return 0;
}

/// Bytes at the end of `text` that `stop` may begin with.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n)
    if (text.ends_with(stop.substr(0, n))) return n;
  return 0;
}

}  // namespace

std::string AnswerText::add(std::string_view bytes) {
  if (stopped_) return {};
  held_ += bytes;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stop_) end = std::min(end, held_.find(stop));
  if (end != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, end);
  }
  std::size_t kept = unfinished(held_);
  for (const std::string& stop : stop_) kept = std::max(kept, overlap(held_, stop));
  std::string shown = held_.substr(0, held_.size() - kept);
  held_.erase(0, shown.size());
  return shown;
}

std::string AnswerText::finish() {
  std::string rest = std::exchange(held_, {});
  if (const std::size_t cut = unfinished(rest); cut > 0) rest.replace(rest.size() - cut, cut, "\xef\xbf\xbd");
  return rest;
}

}  // namespace mortar
