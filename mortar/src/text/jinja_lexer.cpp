// The rules are those of Jinja 3.1 (jinja2.lexer): what a minus or plus beside a delimiter does, which newlines belong
// to a tag, how a string is unescaped.
#include "text/jinja_lexer.hpp"

#include <algorithm>
#include <charconv>

#include "tessera/base/format.hpp"
#include "text/jinja_value.hpp"
#include "text/utf8.hpp"

namespace mortar::text::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// All line ends as \n; one at the end of the template is dropped.
std::string with_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    try {
      while (at_ < source_.size()) data();
    } catch (SyntaxError& error) { out_.push_back({TokenKind::Error, std::move(error.message), error.line}); }
    out_.push_back({TokenKind::End, "", line_});
    return std::move(out_);
  }

 private:
  std::string_view rest() const { return source_.substr(at_); }
  bool next_is(std::string_view text) const { return source_.substr(at_, text.size()) == text; }
  [[noreturn]] void fail(std::string message) const { throw SyntaxError{std::move(message), line_}; }
  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
    if (bytes != 0) line_starting_ = source_[at_ - 1] == '\n';
  }
  void advance_space() {
    while (at_ < source_.size()) {
      const Utf8Unit unit = decode_valid(source_.data() + at_);
      if (!is_space(unit.code_point)) break;
      advance(unit.bytes);
    }
  }

  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return source_.npos;
  }

  /// Text up to the next tag, and the tag.
  void data() {
    const std::size_t tag = next_tag();
    if (tag == source_.npos) {
      add_data(rest());
      advance(rest().size());
      return;
    }
    const char kind = source_[tag + 1], sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    add_data(before_tag(source_.substr(at_, tag - at_), kind, sign));
    advance(tag - at_ + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') return comment();
    if (kind == '%' && raw_block()) return;
    expression(kind == '{');
  }

  /// What is left of the text before a tag.
  std::string_view before_tag(std::string_view text, char kind, char sign) const {
    if (sign == '-') return strip(text, nullptr, false, true);
    if (sign == '+' || kind == '{') return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t begin = newline == text.npos ? 0 : newline + 1;
    if (begin == 0 && !line_starting_) return text;
    return strip(text.substr(begin), nullptr, true, false).empty() ? text.substr(0, begin) : text;
  }

  void add_data(std::string_view text) {
    if (!text.empty()) out_.push_back({TokenKind::Data, std::string(text), line_});
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == source_.npos) fail("expected #}, found the end of the template");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_block(sign);
  }

  /// After %} or #}: a minus drops white space, a plus nothing, else one newline goes with the tag.
  void after_block(char sign) {
    if (sign == '-')
      advance_space();
    else if (sign != '+' && next_is("\n"))
      advance(1);
  }

  /// `raw` ... `endraw`, from after the opening {%. False: another block.
  bool raw_block() {
    std::size_t i = at_;
    const auto space = [&] {
      while (i < source_.size() && (source_[i] == ' ' || source_[i] == '\t' || source_[i] == '\n')) ++i;
    };
    space();
    if (source_.substr(i, 3) != "raw") return false;
    i += 3;
    space();
    const bool minus = source_.substr(i, 3) == "-%}";
    if (!minus && source_.substr(i, 2) != "%}") return false;
    advance(i + (minus ? 3 : 2) - at_);
    if (minus) advance_space();
    for (std::size_t from = at_;; ++from) {
      from = source_.find("{%", from);
      if (from == source_.npos) fail("expected {% endraw %}, found the end of the template");
      i = from + 2;
      const char sign = i < source_.size() ? source_[i] : '\0';
      if (sign == '-' || sign == '+') ++i;
      space();
      if (source_.substr(i, 6) != "endraw") continue;
      i += 6;
      space();
      const char end_sign = i < source_.size() ? source_[i] : '\0';
      if (end_sign == '-' || end_sign == '+') ++i;
      if (source_.substr(i, 2) != "%}") continue;
      add_data(before_tag(source_.substr(at_, from - at_), '%', sign));
      advance(i + 2 - at_);
      after_block(end_sign);
      return true;
    }
  }

  void expression(bool variable) {
    out_.push_back({variable ? TokenKind::VariableBegin : TokenKind::BlockBegin, "", line_});
    std::string open;  // brackets: a tag does not end within them
    const std::string_view close = variable ? "}}" : "%}";
    for (;;) {
      advance_space();
      if (at_ == source_.size()) fail(tessera::concat("expected ", close, ", found the end of the template"));
      const char sign = next_is("-") || (!variable && next_is("+")) ? source_[at_] : '\0';
      if (open.empty() && source_.substr(at_ + (sign != '\0' ? 1 : 0), 2) == close) {
        out_.push_back({variable ? TokenKind::VariableEnd : TokenKind::BlockEnd, "", line_});
        advance(sign != '\0' ? 3 : 2);
        if (!variable)
          after_block(sign);
        else if (sign == '-')
          advance_space();
        return;
      }
      token(open);
    }
  }

  void token(std::string& open) {
    const char c = source_[at_];
    if (c == '\'' || c == '"') return string(c);
    if (is_digit(c)) return number();
    std::size_t n = 0;
    while (at_ + n < source_.size() && (is_name_start(source_[at_ + n]) || (n > 0 && is_digit(source_[at_ + n])))) ++n;
    if (n > 0) return add(TokenKind::Name, n);
    static constexpr std::string_view two[] = {"//", "**", "==", "!=", "<=", ">="};
    for (std::string_view op : two) {
      if (next_is(op)) return add(TokenKind::Operator, 2);
    }
    static constexpr std::string_view one = "+-/*%~[](){}<>=.:|,;";
    if (one.find(c) == one.npos)
      fail(tessera::concat("expected an expression, found '",
                           source_.substr(at_, decode_valid(source_.data() + at_).bytes), "'"));
    if (c == '(')
      open += ')';
    else if (c == '[')
      open += ']';
    else if (c == '{')
      open += '}';
    else if (c == ')' || c == ']' || c == '}') {
      if (!open.empty() && open.back() != c)
        fail(tessera::concat("expected '", std::string(1, open.back()), "', found '", std::string(1, c), "'"));
      if (open.empty())
        fail(tessera::concat("expected no '", std::string(1, c), "' here: nothing is open that it closes"));
      open.pop_back();
    }
    add(TokenKind::Operator, 1);
  }

  void add(TokenKind kind, std::size_t bytes) {
    out_.push_back({kind, std::string(source_.substr(at_, bytes)), line_});
    advance(bytes);
  }

  void number() {
    std::size_t n = 0;
    const auto digits = [&] {
      while (at_ + n < source_.size() &&
             (is_digit(source_[at_ + n]) ||
              (source_[at_ + n] == '_' && at_ + n + 1 < source_.size() && is_digit(source_[at_ + n + 1]))))
        ++n;
    };
    const auto char_at = [&](std::size_t i) { return at_ + i < source_.size() ? source_[at_ + i] : '\0'; };
    digits();
    bool whole = true;
    const bool after_dot = !out_.empty() && out_.back().kind == TokenKind::Operator && out_.back().text == ".";
    if (!after_dot && char_at(n) == '.' && is_digit(char_at(n + 1))) {
      whole = false;
      ++n;
      digits();
    }
    if (!after_dot && (char_at(n) == 'e' || char_at(n) == 'E')) {
      const std::size_t sign = char_at(n + 1) == '+' || char_at(n + 1) == '-' ? 1 : 0;
      if (is_digit(char_at(n + 1 + sign))) {
        whole = false;
        n += 1 + sign;
        digits();
      }
    }
    add(whole ? TokenKind::Integer : TokenKind::Float, n);
    std::erase(out_.back().text, '_');
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("expected the end of the string, found the end of the template");
    out_.push_back({TokenKind::String, unescape(source_.substr(at_ + 1, end - at_ - 1)), line_});
    advance(end + 1 - at_);
  }

  /// Python's escapes; what is none stays as it is.
  std::string unescape(std::string_view text) const {
    static constexpr std::string_view letters = "\\'\"abfnrtv", meanings = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      if (const std::size_t k = letters.find(c); k != letters.npos)
        out += meanings[k];
      else if (c == 'x' || c == 'u' || c == 'U')
        i += numbered(text.substr(i + 1), c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, out);
      else if (c >= '0' && c <= '7') {
        std::size_t n = 1;
        while (n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7') ++n;
        i += numbered(text.substr(i), n, 8, out) - 1;
      } else if (c == 'N')
        fail("expected no \\N{...} in a string: it is not supported");
      else if (c != '\n')
        (out += '\\') += c;
    }
    return out;
  }

  std::size_t numbered(std::string_view text, std::size_t digits, int base, std::string& out) const {
    unsigned value = 0;
    const std::string_view number = text.substr(0, digits);
    const auto r = std::from_chars(number.data(), number.data() + number.size(), value, base);
    if (number.size() != digits || r.ptr != number.data() + digits || value > 0x10FFFF ||
        (value >= 0xD800 && value < 0xE000))
      fail("expected the number of a character after the backslash of a string");
    append_utf8(out, value);
    return digits;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> out_;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) {
  if (valid_utf8(source) != source.size()) throw SyntaxError{"expected UTF-8, found other bytes", 1};
  const std::string text = with_newlines(source);
  return Lexer(text).run();
}

}  // namespace mortar::text::jinja
