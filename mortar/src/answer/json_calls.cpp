// Calls as JSON objects. The arguments that are passed on are the bytes that the model wrote: completing or writing
// them anew would change what was already sent.
#include <optional>
#include <utility>

#include "answer/call_parser.hpp"
#include "mortar/errors.hpp"

namespace mortar::answer {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// The end of a JSON value, character by character, by its brackets and strings alone.
class ValueScanner {
 public:
  /// `first` is the first character of the value. False: no value begins with it.
  bool begin(char first) {
    depth_ = 0, in_string_ = escaped_ = false;
    literal_ = first != '{' && first != '[' && first != '"';
    if (first == '"') in_string_ = true;
    if (first == '{' || first == '[') depth_ = 1;
    return !literal_ || first == '-' || (first >= '0' && first <= '9') || (first >= 'a' && first <= 'z');
  }
  enum class Step : std::uint8_t { Inside, Last, Behind };
  /// Whether the value goes on with `c`, ends with it, or ended before it (numbers and words only).
  Step next(char c) {
    if (literal_) return is_space(c) || c == ',' || c == '}' || c == ']' ? Step::Behind : Step::Inside;
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
      return !in_string_ && depth_ == 0 ? Step::Last : Step::Inside;
    }
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    return depth_ == 0 ? Step::Last : Step::Inside;
  }
  bool in_string() const { return in_string_; }

 private:
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false, literal_ = false;
};

/// The text of a JSON string; nullopt if it is none.
std::optional<std::string> decoded(std::string_view json) {
  try {
    const text::Json value = text::parse_json(json, "string");
    if (value.is(text::Json::Kind::String)) return value.string();
  } catch (const RequestError&) {}  // NOLINT(bugprone-empty-catch): it is none
  return std::nullopt;
}

class JsonCallParser final : public CallParser {
 public:
  void push(std::string_view text, CallOutput& out) override {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (state_ == State::Text) {
        out.text(text.substr(i));
        return;
      }
      if (state_ == State::Arguments) {
        const std::size_t first = i;
        while (i < text.size() && value_.next(text[i]) == ValueScanner::Step::Inside) ++i;
        const bool ended = i < text.size();
        out.arguments(text.substr(first, (ended ? i + 1 : i) - first));
        if (ended) state_ = State::AfterValue;
        continue;
      }
      raw_.push_back(text[i]);
      character(text[i], out);
    }
  }

  void end(Ending ending, CallOutput& out) override {
    if (state_ == State::Text) {
      if (ending == Ending::Tag && shows_tags_) out.text(kEndCallTag);
    } else if (begun_) {
      out.end_call();
    } else if (state_ != State::Done) {
      no_call(out);
      if (ending == Ending::Tag && shows_tags_) out.text(kEndCallTag);
    }
    begun_ = false;
    state_ = State::Done;
  }

  bool in_value() const override {
    return (state_ == State::Value || state_ == State::Arguments) && value_.in_string();
  }

 private:
  enum class State : std::uint8_t { Start, Key, InKey, Colon, ValueStart, Value, Arguments, AfterValue, Done, Text };

  void character(char c, CallOutput& out) {
    switch (state_) {
      case State::Value: in_a_value(c, out); return;
      case State::InKey:
        part_.push_back(c);
        if (value_.next(c) == ValueScanner::Step::Last) state_ = State::Colon;
        return;
      default: break;
    }
    if (is_space(c)) return;
    switch (state_) {
      case State::Done:
        // A bracket too many, or a comma between calls.
        if (c == '}' || c == ']' || c == ',') {
          raw_.clear();
          return;
        }
        raw_ = std::string(1, c);
        [[fallthrough]];
      case State::Start:
        if (c != '{') return no_call(out);
        state_ = State::Key;
        return;
      case State::Key:
        if (c == '}') return close(out);
        if (c != '"') return no_call(out);
        part_ = "\"";
        value_.begin(c);
        state_ = State::InKey;
        return;
      case State::Colon:
        if (c != ':') return no_call(out);
        state_ = State::ValueStart;
        return;
      case State::ValueStart: begin_value(c, out); return;
      default: break;  // AfterValue
    }
    if (c == '}') return close(out);
    if (c != ',') return no_call(out);
    state_ = State::Key;
  }

  void begin_value(char c, CallOutput& out) {
    key_ = decoded(part_).value_or("");
    if (!value_.begin(c)) return no_call(out);
    part_ = std::string(1, c);
    state_ = State::Value;
    if (key_ != "arguments" || has_arguments_ || name_.empty() || c != '{') return;
    begin(out);
    out.arguments("{");
    has_arguments_ = true;
    state_ = State::Arguments;
  }

  void in_a_value(char c, CallOutput& out) {
    const ValueScanner::Step step = value_.next(c);
    if (step != ValueScanner::Step::Behind) part_.push_back(c);
    if (step == ValueScanner::Step::Inside) return;
    state_ = State::AfterValue;
    end_value(out);
    if (step == ValueScanner::Step::Behind && state_ == State::AfterValue) character(c, out);
  }

  void end_value(CallOutput& out) {
    if (key_ == "name" && name_.empty()) {
      name_ = decoded(part_).value_or("");
      if (name_.empty()) return no_call(out);
      if (!held_.empty()) {
        begin(out);
        out.arguments(std::exchange(held_, {}));
      }
    } else if (key_ == "arguments" && !has_arguments_ && part_ != "null") {
      // A string that has the object, as in the API's own form.
      const std::string object = part_[0] == '"' ? decoded(part_).value_or("") : part_;
      const std::size_t first = object.find_first_not_of(" \n\r\t");
      if (first == object.npos || object[first] != '{') return no_call(out);
      has_arguments_ = true;
      if (name_.empty()) {
        held_ = object;
        return;
      }
      begin(out);
      out.arguments(object);
    }
  }

  void begin(CallOutput& out) {
    if (!begun_) out.begin_call(name_);
    begun_ = true;
    raw_.clear();
  }

  void close(CallOutput& out) {
    if (name_.empty()) return no_call(out);
    begin(out);
    if (!has_arguments_) out.arguments("{}");
    out.end_call();
    name_.clear();
    begun_ = has_arguments_ = shows_tags_ = false;
    state_ = State::Done;
  }

  /// What came since the last call is text, and so is all that comes.
  void no_call(CallOutput& out) {
    if (begun_) {
      out.end_call();
      begun_ = shows_tags_ = false;
    }
    if (shows_tags_) out.text(kCallTag);
    out.text(raw_);
    raw_.clear();
    state_ = State::Text;
  }

  State state_ = State::Start;
  std::string raw_;   // what came and is neither arguments nor, so far, a call
  std::string part_;  // the key or the value that is being read
  std::string key_, name_;
  std::string held_;  // arguments that came before the name
  ValueScanner value_;
  bool begun_ = false, has_arguments_ = false;
  bool shows_tags_ = true;  // no call was found since the tag: as text, the tag belongs to it
};

}  // namespace

std::unique_ptr<CallParser> json_call_parser() { return std::make_unique<JsonCallParser>(); }

CallFormat format_of_template(std::string_view source) {
  return source.find("<function=") != source.npos ? CallFormat::Xml : CallFormat::Json;
}

}  // namespace mortar::answer
