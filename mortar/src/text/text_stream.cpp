// Whole characters out of bytes, stop strings by automata, thinking by token ids.
#include "mortar/text_stream.hpp"

#include <algorithm>
#include <utility>

#include "text/utf8.hpp"

namespace mortar {

bool is_utf8(std::string_view text) noexcept { return text::valid_utf8(text) == text.size(); }

std::string CharacterStream::push(std::string_view bytes) {
  rest_ += bytes;
  std::string out;
  std::string_view text = rest_;
  while (!text.empty()) {
    const std::size_t valid = text::valid_utf8(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    const text::Utf8Unit unit = text::next_utf8(text);
    if (unit.state == text::Utf8::Incomplete) break;
    text::append_utf8(out, text::kReplacement);
    text.remove_prefix(unit.bytes);
  }
  rest_ = std::string(text);
  return out;
}

std::string CharacterStream::finish() {
  std::string out = text::replace_invalid_utf8(rest_);
  rest_.clear();
  return out;
}

StopFilter::StopFilter(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    Pattern p{std::move(stop), {0}, 0};
    for (std::size_t i = 1, k = 0; i < p.text.size(); ++i) {
      while (k > 0 && p.text[i] != p.text[k]) k = p.fallback[k - 1];
      if (p.text[i] == p.text[k]) ++k;
      p.fallback.push_back(static_cast<std::uint32_t>(k));
    }
    patterns_.push_back(std::move(p));
  }
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  const std::size_t before = held_.size();
  held_ += text;
  // The one that begins first; of those, the longest that has come whole.
  std::size_t begin = held_.npos;
  for (std::size_t at = before; at < held_.size() && begin == held_.npos; ++at) {
    for (Pattern& p : patterns_) {
      while (p.matched > 0 && (p.matched == p.text.size() || p.text[p.matched] != held_[at]))
        p.matched = p.fallback[p.matched - 1];
      if (p.text[p.matched] == held_[at]) ++p.matched;
      if (p.matched != p.text.size()) continue;
      const std::size_t first = at + 1 - p.matched;
      if (begin == held_.npos || first < begin) {
        begin = first;
        found_ = p.text;
      }
    }
  }
  if (begin != held_.npos) {
    stopped_ = true;
    std::string out = held_.substr(0, begin);
    held_.clear();
    return out;
  }
  std::size_t keep = 0;
  for (const Pattern& p : patterns_) keep = std::max(keep, p.matched);
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopFilter::finish() {
  for (Pattern& p : patterns_) p.matched = 0;
  return std::exchange(held_, {});
}

AnswerStream::AnswerStream(Tokenizer tokenizer, AnswerOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      think_(tokenizer_.find("<think>").value_or(-1)),
      end_think_(tokenizer_.find("</think>").value_or(-1)),
      stop_(options_.stop),
      channel_(options_.starts_thinking ? Channel::Thinking : Channel::Content),
      has_thought_(options_.starts_thinking) {}

void AnswerStream::emit(std::string text, std::vector<AnswerText>& out) {
  // Line ends around thinking are the template's, not the model's.
  if (at_start_ && has_thought_) text.erase(0, text.find_first_not_of('\n'));
  if (text.empty()) return;
  at_start_ = false;
  if (channel_ == Channel::Thinking) {
    text.insert(0, std::exchange(line_ends_, {}));
    const std::size_t last = text.find_last_not_of('\n');
    const std::size_t kept = last == text.npos ? 0 : last + 1;
    line_ends_ = text.substr(kept);
    text.resize(kept);
  }
  if (!text.empty()) out.push_back({channel_, std::move(text)});
}

void AnswerStream::switch_to(Channel channel, std::vector<AnswerText>& out) {
  emit(stop_.push(characters_.finish()), out);
  if (stop_.stopped()) return;
  emit(stop_.finish(), out);
  line_ends_.clear();
  channel_ = channel;
  at_start_ = has_thought_ = true;
}

std::vector<AnswerText> AnswerStream::push(TokenId id) {
  std::vector<AnswerText> out;
  if (stop_.stopped()) return out;
  if (id == think_ && channel_ == Channel::Content) {
    switch_to(Channel::Thinking, out);
  } else if (id == end_think_ && channel_ == Channel::Thinking) {
    switch_to(Channel::Content, out);
  } else if (!options_.skip_special || !tokenizer_.is_special(id)) {
    emit(stop_.push(characters_.push(tokenizer_.bytes(id))), out);
  }
  return out;
}

std::vector<AnswerText> AnswerStream::finish() {
  std::vector<AnswerText> out;
  if (stop_.stopped()) return out;
  emit(stop_.push(characters_.finish()), out);
  if (!stop_.stopped()) emit(stop_.finish(), out);
  return out;
}

}  // namespace mortar
