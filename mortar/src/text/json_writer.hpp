// JSON into a string: commas and escapes, nothing else. A caller that opens an object closes it.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace mortar::text {

/// `text` between quotes, with escapes; it is UTF-8.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);
/// Without the quotes: what has been written of a string may go on later.
void append_json_escaped(std::string& out, std::string_view text);

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}
  JsonWriter& open(char bracket) { return put(bracket, false); }
  JsonWriter& close(char bracket) {
    out_.push_back(bracket);
    comma_ = true;
    return *this;
  }
  JsonWriter& object() { return open('{'); }
  JsonWriter& end() { return close('}'); }
  JsonWriter& array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name) {
    separate();
    append_json_string(out_, name);
    out_.push_back(':');
    comma_ = false;
    return *this;
  }
  JsonWriter& value(std::string_view text) {
    separate();
    append_json_string(out_, text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool b) { return raw(b ? "true" : "false"); }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  /// The shortest text that reads as the same double; null for infinities and NaN.
  JsonWriter& value(double number);
  JsonWriter& null() { return raw("null"); }
  /// A value that is JSON already.
  JsonWriter& raw(std::string_view json) {
    separate();
    out_ += json;
    return *this;
  }
  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }

 private:
  void separate() {
    if (comma_) out_.push_back(',');
    comma_ = true;
  }
  JsonWriter& put(char bracket, bool comma) {
    separate();
    out_.push_back(bracket);
    comma_ = comma;
    return *this;
  }
  std::string& out_;
  bool comma_ = false;
};

}  // namespace mortar::text
