// Text of clients in a prompt: names of added tokens in it are text, so that no client can forge the end of a message.
//
// A chat template makes one text of everything. So such names are marked before and found again after it: characters of
// a private range, drawn when the program starts, follow the first character of the name and behind its end.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "mortar/tokenizer.hpp"

namespace mortar::server {

class PlainText {
 public:
  /// `parses`: names in clients' text are their tokens; nothing is marked.
  explicit PlainText(Tokenizer tokenizer, bool parses = false);
  /// Which names are marked: all of them; or special ones, where tags such as <think> mean something to the template.
  enum class Names : std::uint8_t { All, Special };
  std::string mark(std::string_view text, Names names = Names::All) const;
  /// The ids of a rendered text; its own names are tokens, those that were marked are text.
  std::vector<TokenId> encode(std::string_view rendered) const;
  /// The text without marks.
  std::string unmark(std::string_view rendered) const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  Tokenizer tokenizer_;
  bool parses_;
  std::string begin_, end_;
};

}  // namespace mortar::server
