// The values of chat templates: those of Python as far as templates can tell.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/json_reader.hpp"

namespace mortar::text::jinja {

/// What went wrong in a template; the machine that runs it knows the line.
class TemplateFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// The template itself called raise_exception.
class TemplateRejection : public TemplateFailure {
 public:
  using TemplateFailure::TemplateFailure;
};

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

struct Undefined {
  std::shared_ptr<const std::string> why;  // null: no more is known
};
struct None {};
struct Big {
  std::shared_ptr<const std::string> digits;  // a whole number beyond 64 bits, as it was written
};
struct Text {
  std::shared_ptr<const std::string> text;
  bool safe = false;  // marked by the filter `safe`: what is added to it is escaped
};

class Value {
 public:
  using Variant = std::variant<Undefined, None, bool, std::int64_t, Big, double, Text, std::shared_ptr<const List>,
                               std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Loop>,
                               std::shared_ptr<const Callable>>;
  Value() = default;
  Value(bool v) : v_(v) {}
  Value(std::int64_t v) : v_(v) {}
  Value(double v) : v_(v) {}
  Value(None v) : v_(v) {}
  Value(Big v) : v_(std::move(v)) {}
  Value(std::string text, bool safe = false) : v_(Text{std::make_shared<const std::string>(std::move(text)), safe}) {}
  Value(std::shared_ptr<const List> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<const Dict> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<Namespace> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<const Loop> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<const Callable> v) : v_(std::move(v)) {}
  template <class T>
  Value(T*) = delete;  // not a bool
  static Value undefined(std::string why);

  template <class T>
  const T* as() const {
    return std::get_if<T>(&v_);
  }
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  bool is_string() const { return as<Text>() != nullptr; }
  const List* list() const;
  const Dict* dict() const;
  /// The text of a string; of anything else an empty one.
  const std::string& text() const;
  /// A bool counts as 0 or 1.
  const std::int64_t* integer(std::int64_t& storage) const;
  /// Whether it holds a namespace, loop or function, which must not be stored in a namespace (nothing frees a cycle).
  bool holds_reference() const;
  int depth() const;
  /// The number of values within, counted as often as they are reached, and itself.
  std::size_t size() const;
  /// Steps that a comparison with it takes at most: one for each value within, and for 16 bytes of text.
  std::size_t work() const;

 private:
  Variant v_;
};

using Values = std::vector<Value>;

/// What a List is in Python. The views of a dict (what keys(), values() and items() give) have no index.
enum class Sequence : std::uint8_t { List, Tuple, Keys, Values, Items };
struct List {
  Values items;
  Sequence kind = Sequence::List;
  bool holds_reference = false;
  bool has_index() const { return kind == Sequence::List || kind == Sequence::Tuple; }
  int depth = 1;
  std::size_t size = 1, work = 1;
};
/// In the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string, std::size_t> places;  // by key_of
  bool holds_reference = false;
  int depth = 1;
  std::size_t size = 1, work = 1;
  /// Sets or replaces. Throws if the key can be none.
  void set(Value key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};
struct Namespace {
  std::unordered_map<std::string, Value> attributes;
};
struct Loop {
  std::shared_ptr<const List> items;
  std::size_t index = 0;
};
struct MacroNode;
/// A function of the template language, a macro, or a method of a value.
struct Callable {
  std::string name;
  const MacroNode* macro = nullptr;
  Value self = {};
  bool is_method = false;
};

Value make_list(Values items, Sequence kind = Sequence::List);
Value make_dict(std::vector<std::pair<Value, Value>> items);
Value read_json(JsonReader& reader);

bool truth(const Value& v);
bool equal(const Value& a, const Value& b);
/// -1, 0, 1; throws for values that have no order.
int compare(const Value& a, const Value& b);
/// "str", "int", ...: the names of Python.
const char* type_name(const Value& v);
[[noreturn]] void undefined_error(const Value& v);

// Strings. Text grows at most to `most` bytes.
class Output {
 public:
  explicit Output(std::size_t most) : most_(most) {}
  void add(std::string_view text);
  std::string take() { return std::move(text_); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::size_t most_;
};
void write_str(const Value& v, Output& out);   ///< as Python's str()
void write_repr(const Value& v, Output& out);  ///< as Python's repr()
struct JsonStyle {
  int indent = -1;  // -1: one line
  std::string item = ", ", key = ": ";
  bool sort_keys = false, ascii = false;
};
/// As Python's json.dumps(ensure_ascii=False).
void write_json(const Value& v, const JsonStyle& style, Output& out, int level = 0);
std::string float_repr(double v);

// Characters of valid UTF-8.
std::size_t length(std::string_view text);
/// The lines of a text as Python's str.splitlines(): \r, \v, \f, U+2028 and others end one too.
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);
bool is_space(char32_t c);  ///< as Python's str.isspace
std::string_view strip(std::string_view text, const std::string* characters, bool left, bool right);

}  // namespace mortar::text::jinja
