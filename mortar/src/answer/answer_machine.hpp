// The answer of a model, token by token, as thinking, content and calls of tools: one state machine over token ids.
//
//   AnswerMachine machine(tokenizer, {.calls = CallFormat::Json, .thinking = thinking_after(prompt, tokenizer)});
//   for (id : tokens) machine.push(id, events);
//   machine.finish(events);
//
// However the tokens are divided into calls of push(), and their bytes into tokens, the events are the same when pieces
// of one kind are joined. Tags are found by their ids; in a vocabulary that has no token for one, by its text.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "answer/call_parser.hpp"
#include "answer/events.hpp"
#include "mortar/text_stream.hpp"
#include "mortar/tokenizer.hpp"

namespace mortar::answer {

/// What a prompt says of the thinking of the answer after it.
enum class Thinking : std::uint8_t {
  MayBegin,  ///< the answer may begin with <think>
  Inside,    ///< the prompt ends within <think>
  Ended,     ///< the prompt ends after </think>: all of the answer is content
};
/// By the last of <think> and </think> after the last <|im_start|>: what earlier messages have says nothing.
Thinking thinking_after(std::span<const TokenId> prompt, const Tokenizer& tokenizer);

struct MachineOptions {
  CallFormat calls = CallFormat::None;
  std::vector<ToolTypes> tools = {};  ///< Xml only
  Thinking thinking = Thinking::MayBegin;
  std::vector<std::string> stop = {};  ///< of content alone; not part of the text
  bool keep_stop = false;              ///< the stop string that was found is part of the text
  bool one_call = false;               ///< the answer ends after its first call
  bool skip_special = true;            ///< special tokens have no text
  bool text_tags = false;              ///< looks for tags in the text even if they are tokens
};

/// Where a token belongs.
enum class Place : std::uint8_t { Thinking, Content, Call, Hidden /**< special tokens, tags outside of thinking */ };

class AnswerMachine final : private CallOutput {
 public:
  AnswerMachine(Tokenizer tokenizer, MachineOptions options);
  AnswerMachine(const AnswerMachine&) = delete;
  AnswerMachine& operator=(const AnswerMachine&) = delete;

  /// Appends what is certain with this token. Nothing comes after stopped().
  Place push(TokenId id, Events& events);
  /// The answer has ended: what was held back.
  void finish(Events& events);

  bool stopped() const { return stopped_; }
  /// The stop string that was found; empty: none.
  const std::string& stop_string() const { return stop_.found(); }
  std::int64_t calls() const { return calls_; }

  // For tests: the same by text.
  enum class Tag : std::uint8_t { Think, EndThink, Call, EndCall };
  void push_bytes(std::string_view bytes, Events& events);
  void push_tag(Tag tag, Events& events);

 private:
  enum class State : std::uint8_t { Content, Thinking, Call };
  struct TextTag {
    Tag tag;
    std::string_view text;
  };

  void tag(Tag tag, std::string_view text);
  void tag_in_content(Tag tag, std::string_view text);
  void characters(std::string_view whole);
  void split_at_tags(std::string_view whole, bool all);
  void content(std::string_view whole);
  void emit_content(std::string_view text);
  void emit_last_space();
  void thinking(std::string_view whole);
  void begin_call_tag();
  void end_call_tag(Ending ending);
  void leave_thinking();

  void begin_call(std::string name) override;
  void arguments(std::string_view piece) override;
  void end_call() override;
  void text(std::string_view whole) override;

  Tokenizer tokenizer_;
  MachineOptions options_;
  TokenId ids_[4];                  // of the tags; -1: none
  std::vector<TextTag> text_tags_;  // those without an id
  std::string tag_rest_;            // what may be the beginning of one
  CharacterStream characters_;
  StopFilter stop_;
  std::unique_ptr<CallParser> parser_;
  Events* out_ = nullptr;
  State state_;
  bool may_think_, has_thought_;
  bool at_start_ = true;  // of thinking, or of content after it: line ends are dropped
  bool blank_ = true;     // content has had nothing but white space
  std::string space_;     // white space of content (with tools) or line ends of thinking, until more text comes
  std::int64_t calls_ = 0;
  bool stopped_ = false;
};

}  // namespace mortar::answer
