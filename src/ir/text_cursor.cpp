// Reading words, numbers and strings, and reporting what is wrong.
#include "ir/text_cursor.hpp"

#include <algorithm>
#include <charconv>

#include "ir/characters.hpp"

namespace tessera::ir {

namespace {

constexpr std::size_t kMaxQuoted = 32;  // characters of the text in a message

template <class Is>
std::size_t end_of(std::string_view text, std::size_t at, Is is) {
  while (at < text.size() && is(text[at])) ++at;
  return at;
}

}  // namespace

void TextCursor::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

/// One word or one sign; a word ends where its characters end.
bool TextCursor::take_part(std::string_view part) {
  skip();
  if (!text_.substr(at_).starts_with(part)) return false;
  const std::size_t end = at_ + part.size();
  if (is_word(part.back()) && end < text_.size() && is_word(text_[end])) return false;
  at_ = end;
  return true;
}

bool TextCursor::take(std::string_view literal) {
  const std::size_t start = at_;
  for (std::size_t i = 0; i < literal.size();) {
    if (literal[i] == ' ') {
      ++i;
      continue;
    }
    std::size_t end = end_of(literal, i, is_word);
    if (end == i) end = literal.substr(i).starts_with("->") ? i + 2 : i + 1;
    if (!take_part(literal.substr(i, end - i))) {
      at_ = start;
      return false;
    }
    i = end;
  }
  return true;
}

bool TextCursor::is_next(std::string_view literal) {
  const std::size_t start = at_;
  const bool is = take(literal);
  at_ = start;
  return is;
}

std::string_view TextCursor::peek_word() {
  skip();
  return text_.substr(at_, end_of(text_, at_, is_word) - at_);
}

std::string_view TextCursor::word() {
  const std::string_view found = peek_word();
  at_ += found.size();
  return found;
}

std::string_view TextCursor::number() {
  skip();
  std::size_t end = at_;
  if (end < text_.size() && text_[end] == '-') ++end;
  if (text_.substr(end).starts_with("0x")) {
    end = end_of(text_, end + 2, is_hex_digit);
  } else {
    end = end_of(text_, end, is_digit);
    if (end < text_.size() && text_[end] == '.') end = end_of(text_, end + 1, is_digit);
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      ++end;
      if (end < text_.size() && (text_[end] == '-' || text_[end] == '+')) ++end;
      end = end_of(text_, end, is_digit);
    }
  }
  const std::string_view found = text_.substr(at_, end - at_);
  at_ = end;
  return found;
}

std::int64_t TextCursor::integer(const char* what, std::int64_t least, std::int64_t most) {
  skip();
  const std::size_t start = at_;
  std::int64_t value = 0;
  const char* end = text_.data() + text_.size();
  const auto [next, error] = std::from_chars(text_.data() + at_, end, value);
  if (error == std::errc::invalid_argument) fail(what);
  if (error != std::errc() || value < least || value > most)
    fail_at(start, concat("expected ", what, " from ", least, " to ", most, ", found ", found()));
  at_ = static_cast<std::size_t>(next - text_.data());
  return value;
}

std::uint64_t TextCursor::unsigned_integer(const char* what) {
  skip();
  std::uint64_t value = 0;
  const char* end = text_.data() + text_.size();
  const auto [next, error] = std::from_chars(text_.data() + at_, end, value);
  if (error != std::errc()) fail(what);
  at_ = static_cast<std::size_t>(next - text_.data());
  return value;
}

std::string TextCursor::string(const char* what) {
  if (peek() != '"') fail(what);
  const std::size_t start = at_++;
  std::string out;
  for (; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
    if (text_[at_] != '\\') {
      out += text_[at_];
      continue;
    }
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.size() >= 1 && (rest[0] == '\\' || rest[0] == '"' || rest[0] == 'n' || rest[0] == 't')) {
      out += rest[0] == 'n' ? '\n' : rest[0] == 't' ? '\t' : rest[0];
      at_ += 1;
    } else if (rest.size() >= 2 && is_hex_digit(rest[0]) && is_hex_digit(rest[1])) {
      out += static_cast<char>(hex_digit(rest[0]) * 16 + hex_digit(rest[1]));
      at_ += 2;
    } else {
      fail_at(at_, "expected two hexadecimal digits, `\\`, `\"`, `n` or `t` after `\\` in a string");
    }
  }
  if (at_ >= text_.size() || text_[at_] != '"')
    fail_at(start, "expected `\"` at the end of the string, found the end of the line");
  ++at_;
  return out;
}

std::string_view TextCursor::value_name() {
  if (peek() != '%') fail("a value (%name)");
  const std::size_t start = at_ + 1;
  const std::size_t end = end_of(text_, start, [](char c) { return is_word(c) || c == '-'; });
  // `->` may follow a name without a blank.
  const std::size_t arrow = end > start && text_[end - 1] == '-' && end < text_.size() && text_[end] == '>' ? 1 : 0;
  if (end - arrow == start) fail("a value (%name)");
  at_ = end - arrow;
  return text_.substr(start, at_ - start);
}

std::string TextCursor::found() {
  if (at_end()) return "the end of the text";
  std::size_t end = end_of(text_, at_, is_word);
  if (end == at_ && (text_[at_] == '%' || text_[at_] == '@' || text_[at_] == '-'))
    end = end_of(text_, at_ + 1, is_word);
  if (end == at_) end = at_ + 1;
  std::string_view token = text_.substr(at_, end - at_);
  const bool cut = token.size() > kMaxQuoted;
  std::string shown;
  for (char c : token.substr(0, kMaxQuoted)) {
    const auto u = static_cast<unsigned char>(c);
    shown += u < 0x20 || u >= 0x7F ? concat("\\x", "0123456789ABCDEF"[u >> 4], "0123456789ABCDEF"[u & 15])
                                   : std::string(1, c);
  }
  return concat("`", shown, cut ? "..." : "", "`");
}

void TextCursor::report(std::size_t at, std::string message) {
  if (!is_full()) problems_.push_back({at, std::move(message)});
}

void TextCursor::fail_at(std::size_t at, std::string message) {
  report(at, std::move(message));
  throw Stop{};
}

void TextCursor::fail(std::string_view expected) {
  skip();
  fail_at(at_, concat("expected ", expected, ", found ", found()));
}

}  // namespace tessera::ir
