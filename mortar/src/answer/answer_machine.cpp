// The decisions of this file, with their reasons, are listed in docs/mortar/serving.md, "Thinking and calls".
#include "answer/answer_machine.hpp"

#include <algorithm>
#include <utility>

namespace mortar::answer {
namespace {

constexpr std::string_view kTags[] = {"<think>", "</think>", kCallTag, kEndCallTag};
constexpr std::string_view kSpace = " \n\r\t";

}  // namespace

Thinking thinking_after(std::span<const TokenId> prompt, const Tokenizer& tokenizer) {
  const TokenId think = tokenizer.find("<think>").value_or(-1), end = tokenizer.find("</think>").value_or(-1);
  const TokenId message = tokenizer.find("<|im_start|>").value_or(-1);
  for (auto id = prompt.rbegin(); id != prompt.rend() && *id != message; ++id) {
    if (*id == think) return Thinking::Inside;
    if (*id == end) return Thinking::Ended;
  }
  return Thinking::MayBegin;
}

AnswerMachine::AnswerMachine(Tokenizer tokenizer, MachineOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      stop_(options_.stop),
      state_(options_.thinking == Thinking::Inside ? State::Thinking : State::Content),
      may_think_(options_.thinking == Thinking::MayBegin),
      has_thought_(options_.thinking == Thinking::Inside) {
  for (int i = 0; i < 4; ++i) {
    ids_[i] = options_.text_tags ? -1 : tokenizer_.find(kTags[i]).value_or(-1);
    const bool of_calls = i >= static_cast<int>(Tag::Call);
    const bool wanted = of_calls ? options_.calls != CallFormat::None : options_.thinking != Thinking::Ended;
    if (ids_[i] < 0 && wanted) text_tags_.push_back({static_cast<Tag>(i), kTags[i]});
  }
}

Place AnswerMachine::push(TokenId id, Events& events) {
  if (stopped_) return Place::Hidden;
  const State before = state_;
  for (int i = 0; i < 4; ++i) {
    if (id != ids_[i] || id < 0) continue;
    push_tag(static_cast<Tag>(i), events);
    if (before == State::Thinking || state_ == State::Thinking) return Place::Thinking;
    return before == State::Call || state_ == State::Call ? Place::Call : Place::Hidden;
  }
  if (options_.skip_special && tokenizer_.is_special(id)) return Place::Hidden;
  push_bytes(tokenizer_.bytes(id), events);
  return before == State::Thinking ? Place::Thinking : before == State::Call ? Place::Call : Place::Content;
}

void AnswerMachine::push_bytes(std::string_view bytes, Events& events) {
  if (stopped_) return;
  out_ = &events;
  split_at_tags(characters_.push(bytes), false);
}

void AnswerMachine::push_tag(Tag which, Events& events) {
  if (stopped_) return;
  out_ = &events;
  split_at_tags(characters_.finish(), true);
  if (!stopped_) tag(which, kTags[static_cast<int>(which)]);
}

void AnswerMachine::finish(Events& events) {
  out_ = &events;
  if (!stopped_) split_at_tags(characters_.finish(), true);
  if (!stopped_ && state_ == State::Call) end_call_tag(Ending::Answer);
  if (!stopped_) emit_content(stop_.finish());
  if (!stopped_ && state_ != State::Thinking) emit_last_space();
  stopped_ = true;
}

/// White space at the end of content; after calls it belongs to nothing.
void AnswerMachine::emit_last_space() {
  if (calls_ == 0 && !space_.empty()) append(*out_, EventKind::Content, -1, std::exchange(space_, {}));
}

/// Passes text on, and tags that are text in this vocabulary. Unless it is `all`, what may be the beginning of one is
/// held back.
void AnswerMachine::split_at_tags(std::string_view whole, bool all) {
  if (text_tags_.empty()) return characters(whole);
  tag_rest_ += whole;
  std::string text = std::exchange(tag_rest_, {});
  std::string_view rest = text;
  while (!stopped_) {
    const TextTag* found = nullptr;
    std::size_t at = rest.npos;
    for (const TextTag& each : text_tags_)
      if (const std::size_t begin = rest.find(each.text); begin < at) at = begin, found = &each;
    if (found == nullptr) break;
    characters(rest.substr(0, at));
    rest.remove_prefix(at + found->text.size());
    if (!stopped_ && parser_ != nullptr && parser_->in_value())
      characters(found->text);
    else if (!stopped_)
      tag(found->tag, found->text);
  }
  std::size_t held = 0;
  for (const TextTag& each : text_tags_)
    for (std::size_t n = std::min(rest.size(), each.text.size() - 1); !all && n > held; --n)
      if (rest.ends_with(each.text.substr(0, n))) held = n;
  if (!stopped_) characters(rest.substr(0, rest.size() - held));
  tag_rest_ = std::string(rest.substr(rest.size() - held));
}

void AnswerMachine::characters(std::string_view whole) {
  if (whole.empty()) return;
  switch (state_) {
    case State::Content: return content(whole);
    case State::Thinking: return thinking(whole);
    case State::Call: return parser_->push(whole, *this);
  }
}

void AnswerMachine::tag(Tag which, std::string_view text) {
  switch (state_) {
    case State::Content: return tag_in_content(which, text);
    case State::Thinking:
      if (which == Tag::EndThink) return leave_thinking();
      if (which == Tag::Call && options_.calls != CallFormat::None) {  // a call ends the thinking
        leave_thinking();
        return begin_call_tag();
      }
      if (which != Tag::Think || !at_start_) thinking(text);  // the prompt's <think>, repeated
      return;
    case State::Call:
      if (which == Tag::EndCall) return end_call_tag(Ending::Tag);
      if (which != Tag::Call || parser_->in_value()) return parser_->push(text, *this);
      end_call_tag(Ending::Tag);  // the end tag is missing
      if (!stopped_) begin_call_tag();
      return;
  }
}

void AnswerMachine::tag_in_content(Tag which, std::string_view text) {
  if (which == Tag::Call && options_.calls != CallFormat::None) return begin_call_tag();
  if (which == Tag::Think && may_think_ && blank_) {
    state_ = State::Thinking;
    has_thought_ = at_start_ = true;
    may_think_ = false;
    (void)stop_.finish();
    space_.clear();
    return;
  }
  if (which == Tag::EndThink && has_thought_) return;  // a second one
  content(text);
}

void AnswerMachine::leave_thinking() {
  state_ = State::Content;
  at_start_ = true;
  space_.clear();
}

void AnswerMachine::thinking(std::string_view whole) {
  if (at_start_) whole.remove_prefix(std::min(whole.find_first_not_of('\n'), whole.size()));
  if (whole.empty()) return;
  at_start_ = false;
  const std::size_t last = whole.find_last_not_of('\n');
  const std::size_t kept = last == whole.npos ? 0 : last + 1;
  if (kept > 0) append(*out_, EventKind::Thinking, -1, std::exchange(space_, {}) + std::string(whole.substr(0, kept)));
  space_ += whole.substr(kept);
}

void AnswerMachine::content(std::string_view whole) {
  if (at_start_ && has_thought_) whole.remove_prefix(std::min(whole.find_first_not_of('\n'), whole.size()));
  if (whole.empty()) return;
  at_start_ = false;
  std::string certain = stop_.push(whole);
  if (stop_.stopped() && options_.keep_stop) certain += stop_.found();
  emit_content(certain);
  if (!stop_.stopped()) return;
  emit_last_space();
  stopped_ = true;
}

void AnswerMachine::emit_content(std::string_view text) {
  if (text.empty()) return;
  const std::size_t last = text.find_last_not_of(kSpace);
  if (last != text.npos) blank_ = may_think_ = false;
  // White space before <think> or between calls belongs to nothing; without both it comes at once.
  const bool holds = options_.calls != CallFormat::None || may_think_;
  const std::size_t kept = !holds ? text.size() : last == text.npos ? 0 : last + 1;
  if (kept > 0) append(*out_, EventKind::Content, -1, std::exchange(space_, {}) + std::string(text.substr(0, kept)));
  space_ += text.substr(kept);
}

void AnswerMachine::begin_call_tag() {
  // What was held back as the beginning of a stop string is none.
  emit_content(stop_.finish());
  parser_ = options_.calls == CallFormat::Xml ? xml_call_parser(options_.tools) : json_call_parser();
  state_ = State::Call;
}

void AnswerMachine::end_call_tag(Ending ending) {
  parser_->end(ending, *this);
  if (stopped_) return;
  parser_.reset();
  state_ = State::Content;
}

void AnswerMachine::begin_call(std::string name) {
  if (stopped_) return;
  space_.clear();
  blank_ = may_think_ = at_start_ = false;
  append(*out_, EventKind::CallBegin, calls_, std::move(name));
}

void AnswerMachine::arguments(std::string_view piece) {
  if (!stopped_ && !piece.empty()) append(*out_, EventKind::Arguments, calls_, std::string(piece));
}

void AnswerMachine::end_call() {
  if (stopped_) return;
  append(*out_, EventKind::CallEnd, calls_++, {});
  if (options_.one_call) {
    stopped_ = true;
    space_.clear();
  }
}

void AnswerMachine::text(std::string_view whole) {
  if (!stopped_ && !whole.empty()) content(whole);
}

}  // namespace mortar::answer
