// Server-sent events, line by line.
#include "event_reader.hpp"

namespace mortar {

void EventReader::feed(std::string_view piece) {
  while (!piece.empty()) {
    if (after_cr_ && piece.front() == '\n') {
      after_cr_ = false;
      piece.remove_prefix(1);
      continue;
    }
    after_cr_ = false;
    const std::size_t end = piece.find_first_of("\r\n");
    line_ += piece.substr(0, end);
    if (end == std::string_view::npos) return;
    after_cr_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    const std::string line = std::exchange(line_, {});
    take_line(line);
  }
}

void EventReader::take_line(std::string_view line) {
  if (line.empty()) {
    if (has_data_) callback_(name_, data_);
    name_.clear();
    data_.clear();
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") name_ = value;
  if (field == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
}

}  // namespace mortar
