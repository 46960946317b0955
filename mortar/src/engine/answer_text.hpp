// The text of an answer as its tokens come: what can be shown is whole characters before any stop string. A token may
// end inside a character, and a stop string may begin in one token and end in a later one, so some bytes are held back.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mortar {

class AnswerText {
 public:
  explicit AnswerText(std::vector<std::string> stop = {}) : stop_(std::move(stop)) {}
  /// The bytes of the next token; returns what can be shown now. After a stop string nothing more is returned.
  std::string add(std::string_view bytes);
  /// What was held back, at the end; an incomplete character becomes U+FFFD.
  std::string finish();
  /// A stop string was found; it and what follows it are not shown.
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace mortar
