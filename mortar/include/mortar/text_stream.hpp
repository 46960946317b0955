// Text of tokens as they come: whole characters, stop strings, thinking apart from the answer.
//
//   mortar::AnswerStream answer(tokenizer, {.stop = {"\n\n"}, .starts_thinking = false});
//   for (const mortar::AnswerText& part : answer.push(id)) ...    // for each token, until answer.stopped()
//   for (const mortar::AnswerText& part : answer.finish()) ...
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mortar/tokenizer.hpp"

namespace mortar {

/// Whether all of `text` is UTF-8, as stop strings must be.
bool is_utf8(std::string_view text) noexcept;

/// Bytes to text: returns the longest beginning that is whole characters and keeps the rest. Bytes that are not UTF-8
/// become U+FFFD. All that is returned, one after the other, is the text of all bytes.
class CharacterStream {
 public:
  std::string push(std::string_view bytes);
  /// What is left, an incomplete character, as U+FFFD.
  std::string finish();

 private:
  std::string rest_;  // at most three bytes
};

/// Looks for stop strings in text that comes in pieces. What may be the beginning of one is held back.
class StopFilter {
 public:
  /// Empty strings are left out.
  explicit StopFilter(std::vector<std::string> stops);
  /// The text that is certain. After a stop string, which is not returned, nothing more is.
  std::string push(std::string_view text);
  /// What was held back.
  std::string finish();
  bool stopped() const { return stopped_; }
  /// The stop string that was found.
  const std::string& found() const { return found_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::uint32_t> fallback;  // Knuth, Morris, Pratt: the length to go on with after a mismatch
    std::size_t matched = 0;              // bytes that the text ends with
  };
  std::vector<Pattern> patterns_;
  std::string held_, found_;
  bool stopped_ = false;
};

enum class Channel : std::uint8_t { Content, Thinking };

struct AnswerText {
  Channel channel;
  std::string text;
};

struct AnswerOptions {
  std::vector<std::string> stop = {};  ///< stop strings; they are not part of the text
  bool starts_thinking = false;        ///< the prompt ended within <think>
  bool skip_special = true;            ///< special tokens have no text
};

/// The answer of a model, token by token. Thinking is what stands between the tokens <think> and </think>, found by
/// their ids; line ends around it belong to neither side.
class AnswerStream {
 public:
  AnswerStream(Tokenizer tokenizer, AnswerOptions options);
  std::vector<AnswerText> push(TokenId id);
  std::vector<AnswerText> finish();
  bool stopped() const { return stop_.stopped(); }
  const std::string& stop_string() const { return stop_.found(); }
  Channel channel() const { return channel_; }

 private:
  void emit(std::string text, std::vector<AnswerText>& out);
  void switch_to(Channel channel, std::vector<AnswerText>& out);

  Tokenizer tokenizer_;
  AnswerOptions options_;
  TokenId think_, end_think_;  // -1: none
  CharacterStream characters_;
  StopFilter stop_;
  Channel channel_;
  bool at_start_ = true;  // of the channel: line ends are dropped
  bool has_thought_;
  std::string line_ends_;  // of thinking, kept until more text comes
};

}  // namespace mortar
