// Values are read by recursion only as deep as kMaxNested.
#include "text/json_reader.hpp"

#include <algorithm>
#include <charconv>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "text/utf8.hpp"

namespace mortar::text {
namespace {

constexpr int kMaxNested = 100;
constexpr std::size_t kQuoted = 40;  // characters of what was found that a message shows

const char* name_of(JsonReader::Kind kind) {
  static constexpr const char* names[] = {"an object", "an array", "a string", "a number", "true", "false", "null"};
  return names[static_cast<int>(kind)];
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

JsonReader::JsonReader(std::string_view text, std::string name, Errors errors)
    : text_(text), name_(std::move(name)), errors_(errors) {
  if (const std::size_t valid = valid_utf8(text); valid != text.size())
    fail(tessera::concat("expected UTF-8, found the byte ", int{static_cast<unsigned char>(text[valid])}, " at offset ",
                         valid));
}

void JsonReader::white_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
    ++at_;
}

JsonReader::Kind JsonReader::peek() {
  white_space();
  if (at_ == text_.size()) syntax("a value");
  switch (text_[at_]) {
    case '{': return Kind::Object;
    case '[': return Kind::Array;
    case '"': return Kind::String;
    case 't': return Kind::True;
    case 'f': return Kind::False;
    case 'n': return Kind::Null;
    default: break;
  }
  if (text_[at_] != '-' && !is_digit(text_[at_])) syntax("a value");
  return Kind::Number;
}

void JsonReader::expect(Kind kind) {
  if (peek() != kind) wrong(name_of(kind));
}

bool JsonReader::enter(char end) {
  if (++depth_ > kMaxNested)
    fail(tessera::concat("expected at most ", kMaxNested, " values within each other, found more"));
  ++at_;
  white_space();
  if (at_ == text_.size() || text_[at_] != end) return true;
  ++at_;
  --depth_;
  return false;
}

bool JsonReader::more(char end) {
  white_space();
  const char found = at_ == text_.size() ? '\0' : text_[at_];
  if (found != ',' && found != end) syntax(end == '}' ? "',' or '}'" : "',' or ']'");
  ++at_;
  if (found == ',') return true;
  --depth_;
  return false;
}

std::string_view JsonReader::raw_key() {
  white_space();
  if (at_ == text_.size() || text_[at_] != '"') syntax("the name of a field");
  const std::size_t begin = at_ + 1;
  key_.clear();
  (void)read_string(key_);
  const std::string_view raw = text_.substr(begin, at_ - 1 - begin);
  if (raw.find('\\') == raw.npos) key_.clear();
  white_space();
  if (at_ == text_.size() || text_[at_] != ':') syntax("':'");
  ++at_;
  return raw;
}

std::string_view JsonReader::string() {
  expect(Kind::String);
  scratch_.clear();
  return read_string(scratch_);
}

/// A string without escapes is returned as a part of the text.
std::string_view JsonReader::read_string(std::string& decoded) {
  std::size_t begin = ++at_;
  bool escaped = false;
  for (;; ++at_) {
    if (at_ == text_.size()) syntax("the end of the string");
    const char c = text_[at_];
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) syntax("a control character of a string to be written as an escape");
    if (c != '\\') continue;
    decoded.append(text_, begin, at_ - begin);
    escaped = true;
    escape(decoded);
    begin = at_ + 1;
  }
  const std::string_view rest = text_.substr(begin, at_ - begin);
  ++at_;
  if (!escaped) return rest;
  decoded.append(rest);
  return decoded;
}

/// From the backslash to the last character of the escape.
void JsonReader::escape(std::string& decoded) {
  static constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  ++at_;
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  if (const std::size_t i = letters.find(c); c != '\0' && i != letters.npos) {
    decoded.push_back(meanings[i]);
    return;
  }
  if (c != 'u') syntax("an escape of JSON after the backslash");
  char32_t code_point = hex4();
  if (code_point >= 0xD800 && code_point < 0xDC00 && text_.substr(at_ + 1, 2) == "\\u") {
    at_ += 2;
    const char32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) syntax("the second half of a surrogate pair");
    code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code_point >= 0xD800 && code_point < 0xE000) syntax("a whole surrogate pair, not one half");
  append_utf8(decoded, code_point);
}

/// The four digits after the current character; the last of them becomes the current one.
char32_t JsonReader::hex4() {
  unsigned value = 0;
  const char* begin = text_.data() + std::min(at_ + 1, text_.size());
  const char* end = text_.data() + std::min(at_ + 5, text_.size());
  if (const auto r = std::from_chars(begin, end, value, 16); end - begin != 4 || r.ptr != end)
    syntax("four hexadecimal digits");
  at_ += 4;
  return value;
}

void JsonReader::literal(std::string_view text) {
  if (text_.substr(at_, text.size()) != text) syntax(text);
  at_ += text.size();
}

bool JsonReader::boolean() {
  const Kind kind = peek();
  if (kind != Kind::True && kind != Kind::False) wrong("true or false");
  literal(kind == Kind::True ? "true" : "false");
  return kind == Kind::True;
}

void JsonReader::null() {
  expect(Kind::Null);
  literal("null");
}

std::string_view JsonReader::number() {
  expect(Kind::Number);
  const std::size_t begin = at_;
  const auto digits = [&] {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == first) syntax("a digit");
    return text_.substr(first, at_ - first);
  };
  if (text_[at_] == '-') ++at_;
  if (const std::string_view whole = digits(); whole.size() > 1 && whole[0] == '0')
    syntax("a number without leading zeros");
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    digits();
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    digits();
  }
  return text_.substr(begin, at_ - begin);
}

std::int64_t JsonReader::count(std::int64_t most) {
  const std::string_view text = number();
  std::int64_t value = -1;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc{} || r.ptr != text.data() + text.size() || value < 0 || value > most)
    wrong(tessera::concat("a whole number from 0 to ", most), text);
  return value;
}

std::string_view JsonReader::skip() {
  const Kind kind = peek();
  const std::size_t begin = at_;
  switch (kind) {
    case Kind::Object: object([&](std::string_view) { skip(); }); break;
    case Kind::Array: array([&] { skip(); }); break;
    case Kind::String:
      scratch_.clear();
      (void)read_string(scratch_);
      break;
    case Kind::Number: number(); break;
    case Kind::True: literal("true"); break;
    case Kind::False: literal("false"); break;
    case Kind::Null: literal("null"); break;
  }
  return text_.substr(begin, at_ - begin);
}

void JsonReader::end() {
  white_space();
  if (at_ != text_.size()) syntax("the end of the text");
}

std::string JsonReader::path() const {
  std::string out = outer_;
  for (const Step& step : path_) {
    if (step.key.data() == nullptr) {
      out += tessera::concat("[", step.index, "]");
    } else {
      if (!out.empty()) out += '.';
      out += step.key;
    }
  }
  return out;
}

void JsonReader::wrong(std::string_view expected, std::string_view found) {
  const std::string field = path();
  fail(tessera::concat(field, field.empty() ? "" : ": ", "expected ", expected, ", found ", found));
}

void JsonReader::wrong(std::string_view expected) {
  const Kind kind = peek();
  const bool shown = kind == Kind::String || kind == Kind::Number;
  const std::string_view rest = text_.substr(at_);
  const std::size_t end = std::min({rest.find_first_of(",}]\n"), rest.size(), kQuoted});
  wrong(expected, shown ? replace_invalid_utf8(rest.substr(0, end)) : std::string(name_of(kind)));
}

void JsonReader::syntax(std::string_view expected) {
  const std::string_view before = text_.substr(0, at_);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::string_view found = text_.substr(std::min(at_, text_.size()), kQuoted);
  const std::string field = path();
  fail(tessera::concat(
      "line ", line, ", offset ", at_, field.empty() ? "" : ", field ", field, ": expected ", expected, ", found ",
      at_ >= text_.size() ? std::string("the end of the text") : "'" + replace_invalid_utf8(found) + "'"));
}

void JsonReader::fail(const std::string& message) {
  const std::string whole = name_ + ": " + message;
  if (errors_ == Errors::Request) throw RequestError(whole);
  throw ModelError(whole);
}

}  // namespace mortar::text
