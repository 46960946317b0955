// A place in a text that is parsed: blanks, words, numbers, strings, and the problems that were found.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/format.hpp"

namespace tessera::ir {

/// A problem at an offset of the text.
struct PlacedProblem {
  std::size_t at = 0;
  std::string message;
};

class TextCursor {
 public:
  /// Thrown after a problem was reported: what is being read is given up.
  struct Stop {};

  TextCursor(std::string_view text, std::size_t most_problems) : text_(text), most_problems_(most_problems) {}

  std::string_view text() const { return text_; }
  std::size_t at() const { return at_; }
  void move_to(std::size_t at) { at_ = at; }

  /// Passes blanks and comments.
  void skip();
  /// The next character after blanks and comments; 0 at the end.
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool at_end() {
    skip();
    return at_ >= text_.size();
  }

  /// Takes a literal of words and punctuation ("->", "token=", "dim") if it is next. Blanks may stand between its
  /// parts.
  bool take(std::string_view literal);
  void expect(std::string_view literal) {
    if (!take(literal)) fail(quoted(literal));
  }
  /// Without advancing.
  bool is_next(std::string_view literal);

  /// Letters, digits, `_`, `$` and `.`; empty if there is none.
  std::string_view word();
  std::string_view peek_word();
  /// The characters of a number, with its sign; empty if there is none.
  std::string_view number();
  std::int64_t integer(const char* what, std::int64_t least, std::int64_t most);
  std::uint64_t unsigned_integer(const char* what);
  /// `"..."` with its escapes resolved.
  std::string string(const char* what);
  /// What follows `%`.
  std::string_view value_name();

  /// Reports `expected <what>, found <what is next>` and throws Stop.
  [[noreturn]] void fail(std::string_view expected);
  /// Reports any message at an offset and throws Stop.
  [[noreturn]] void fail_at(std::size_t at, std::string message);
  /// Reports and goes on.
  void report(std::size_t at, std::string message);
  bool is_full() const { return problems_.size() >= most_problems_; }
  std::vector<PlacedProblem>& problems() { return problems_; }
  /// What is next, as messages quote it.
  std::string found();

  static std::string quoted(std::string_view text) { return concat("`", text, "`"); }

 private:
  bool take_part(std::string_view part);
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t most_problems_;
  std::vector<PlacedProblem> problems_;
};

}  // namespace tessera::ir
