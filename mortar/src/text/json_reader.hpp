// A JSON reader (RFC 8259) that calls back for what it finds instead of building a tree: a tokenizer.json of ten
// megabytes is read in some tens of milliseconds. Errors name the file, the field and what was expected.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortar::text {

class JsonReader {
 public:
  enum class Kind : std::uint8_t { Object, Array, String, Number, True, False, Null };
  enum class Errors : std::uint8_t { Model, Request };  ///< which class of error is thrown

  /// `text` must outlive the reader. Throws if it is not UTF-8.
  JsonReader(std::string_view text, std::string name, Errors errors = Errors::Model);

  /// The kind of the next value. Throws where there is none.
  Kind peek();
  /// Calls field(name) for each field, which must read or skip() its value. `name` is valid until the next call.
  template <class F>
  void object(F&& field) {
    expect(Kind::Object);
    if (!enter('}')) return;
    do {
      const std::string_view raw = raw_key();
      path_.push_back({raw, 0});
      field(std::string_view(key_.empty() ? raw : std::string_view(key_)));
      path_.pop_back();
    } while (more('}'));
  }
  template <class F>
  void array(F&& element) {
    expect(Kind::Array);
    if (!enter(']')) return;
    path_.push_back({{}, 0});
    do {
      element();
      ++path_.back().index;
    } while (more(']'));
    path_.pop_back();
  }
  /// Valid until the next string is read.
  std::string_view string();
  bool boolean();
  /// A whole number from 0 to `most`.
  std::int64_t count(std::int64_t most);
  /// A number as it is written.
  std::string_view number();
  void null();
  /// Reads a value of any kind and returns its text.
  std::string_view skip();
  /// Where the reader is, in bytes, and the text from there on that has been read. After peek(): the next value begins.
  std::size_t offset() const { return at_; }
  std::string_view since(std::size_t begin) const { return text_.substr(begin, at_ - begin); }
  /// Throws unless only white space is left.
  void end();

  /// Throws: the file, the field that is being read, "expected ..., found ...".
  [[noreturn]] void wrong(std::string_view expected, std::string_view found);
  [[noreturn]] void wrong(std::string_view expected);  ///< found: the next value, or the beginning of its text
  /// The field that is being read, as "model.merges[17]".
  std::string path() const;
  /// Fields of a value whose text skip() returned are named as if it were read in place.
  void nested_in(std::string path) { outer_ = std::move(path); }

 private:
  struct Step {
    std::string_view key;  // as written; empty: an element
    std::uint64_t index;
  };
  void expect(Kind kind);
  bool enter(char end);
  bool more(char end);
  std::string_view raw_key();
  std::string_view read_string(std::string& decoded);
  void escape(std::string& decoded);
  char32_t hex4();
  void white_space();
  void literal(std::string_view text);
  [[noreturn]] void syntax(std::string_view expected);
  [[noreturn]] void fail(const std::string& message);

  std::string_view text_;
  std::size_t at_ = 0;
  std::string name_, outer_;
  Errors errors_;
  std::vector<Step> path_;
  std::string key_, scratch_;
  int depth_ = 0;
};

}  // namespace mortar::text
