// Calls of the Xml format. Their values are text; here they become JSON by the types of the tool's schema. Text of a
// string is passed on as it comes, other values when they are complete.
#include <algorithm>
#include <optional>
#include <utility>

#include "answer/call_parser.hpp"
#include "mortar/errors.hpp"
#include "text/json_writer.hpp"

namespace mortar::answer {
namespace {

constexpr std::string_view kFunction = "<function=", kEndFunction = "</function>";
constexpr std::string_view kParameter = "<parameter=", kEndParameter = "</parameter>", kLineAndEnd = "\n</parameter>";
constexpr std::size_t kLongestName = 256;  // bytes

/// How many bytes at the end of `text` may be the beginning of `pattern`, but not all of it.
std::size_t held_back(std::string_view text, std::string_view pattern) {
  for (std::size_t n = std::min(text.size(), pattern.size() - 1); n > 0; --n)
    if (text.ends_with(pattern.substr(0, n))) return n;
  return 0;
}

class XmlCallParser final : public CallParser {
 public:
  explicit XmlCallParser(const std::vector<ToolTypes>& tools) : tools_(tools) {}

  void push(std::string_view text, CallOutput& out) override {
    rest_ += text;
    while (step(out)) {}
  }

  void end(Ending ending, CallOutput& out) override {
    if (begun_) {
      if (ending == Ending::Tag) complete(out);
      out.end_call();
    } else if (state_ == State::Done) {
      if (!rest_.empty()) out.text(rest_);
    } else if (state_ != State::Text) {
      no_call(out);
    }
    if (state_ == State::Text) {
      out.text(std::exchange(rest_, {}));
      if (ending == Ending::Tag && shows_tags_) out.text(kEndCallTag);
    }
    begun_ = false;
    state_ = State::Done;
    rest_.clear();
  }

  bool in_value() const override { return state_ == State::Value; }

 private:
  enum class State : std::uint8_t { Start, Name, Body, ParameterName, Value, Done, Text };

  /// Uses up what is certain at the beginning of rest_. False: more is needed.
  bool step(CallOutput& out) {
    switch (state_) {
      case State::Done:
      case State::Start: return start(out);
      case State::Name: return name(out);
      case State::Body: return body(out);
      case State::ParameterName: return parameter_name(out);
      case State::Value: return value(out);
      case State::Text:
        if (!rest_.empty()) out.text(std::exchange(rest_, {}));
        return false;
    }
    return false;
  }

  /// Whether rest_ begins with `tag`, after white space that is taken away; nullopt: not known yet.
  std::optional<bool> begins(std::string_view tag) {
    if (rest_.size() < tag.size() && tag.starts_with(rest_)) return std::nullopt;
    return rest_.starts_with(tag);
  }
  void take(std::size_t bytes) {
    raw_ += rest_.substr(0, bytes);
    rest_.erase(0, bytes);
  }

  bool start(CallOutput& out) {
    take(std::min(rest_.find_first_not_of(" \n\r\t"), rest_.size()));
    const std::optional<bool> found = begins(kFunction);
    if (!found) return false;
    if (!*found) {
      if (state_ == State::Done) raw_.clear();
      no_call(out);
      return true;
    }
    if (state_ == State::Done) raw_.clear();
    take(kFunction.size());
    state_ = State::Name;
    return true;
  }

  bool name(CallOutput& out) {
    const std::size_t end = rest_.find('>'), line = rest_.find('\n');
    if (end == rest_.npos && line == rest_.npos && rest_.size() <= kLongestName) return false;
    if (end == rest_.npos || end > line || end > kLongestName || end == 0) {
      no_call(out);
      return true;
    }
    const std::string name = rest_.substr(0, end);
    rest_.erase(0, end + 1);
    raw_.clear();
    tool_ = nullptr;
    for (const ToolTypes& tool : tools_)
      if (tool.name == name) tool_ = &tool;
    out.begin_call(name);
    begun_ = true;
    parameters_ = 0;
    state_ = State::Body;
    return true;
  }

  /// Between parameters. Text there is no part of the call and is left out.
  bool body(CallOutput& out) {
    rest_.erase(0, std::min(rest_.find('<'), rest_.size()));
    const std::optional<bool> more = begins(kParameter), ends = begins(kEndFunction);
    if (rest_.empty() || (!more && !ends) || (!more && !*ends) || (!ends && !*more)) return false;
    if (more.value_or(false)) {
      rest_.erase(0, kParameter.size());
      state_ = State::ParameterName;
    } else if (ends.value_or(false)) {
      rest_.erase(0, kEndFunction.size());
      close(out);
      out.end_call();
      begun_ = shows_tags_ = false;
      state_ = State::Done;
    } else {
      rest_.erase(0, 1);
    }
    return true;
  }

  bool parameter_name(CallOutput& out) {
    const std::size_t end = rest_.find('>');
    if (end == rest_.npos && rest_.size() <= kLongestName) return false;
    if (end == rest_.npos || end > kLongestName) {
      state_ = State::Body;
      return true;
    }
    const std::string key = rest_.substr(0, end);
    rest_.erase(0, end + 1);
    types_ = {};
    if (tool_ != nullptr)
      if (const auto at = tool_->parameters.find(key); at != tool_->parameters.end()) types_ = at->second;
    is_text_ = !types_.number && !types_.boolean && !types_.null && !types_.container;
    std::string piece = parameters_++ == 0 ? "{" : ", ";
    text::append_json_string(piece, key);
    piece += is_text_ ? ": \"" : ": ";
    out.arguments(piece);
    at_line_ = true;
    searched_ = 0;
    state_ = State::Value;
    return true;
  }

  bool value(CallOutput& out) {
    if (at_line_) {
      if (rest_.empty()) return false;
      if (rest_[0] == '\n') rest_.erase(0, 1);
      at_line_ = false;
    }
    const std::size_t end = rest_.find(kEndParameter, searched_);
    if (end == rest_.npos) {
      if (is_text_) send(rest_.size() - std::max(held_back(rest_, kLineAndEnd), held_back(rest_, kEndParameter)), out);
      searched_ = rest_.size() - std::min(rest_.size(), kEndParameter.size() - 1);
      return false;
    }
    end_value(end, out);
    rest_.erase(0, kEndParameter.size());
    state_ = State::Body;
    return true;
  }

  /// The value is the first `end` bytes of rest_, of which a line end belongs to the tag.
  void end_value(std::size_t end, CallOutput& out) {
    const std::size_t size = end > 0 && rest_[end - 1] == '\n' ? end - 1 : end;
    if (is_text_) {
      send(size, out);
      rest_.erase(0, end - size);
      out.arguments("\"");
    } else {
      out.arguments(typed_value(std::string_view(rest_).substr(0, size), types_));
      rest_.erase(0, end);
    }
  }

  void send(std::size_t bytes, CallOutput& out) {
    if (bytes == 0) return;
    std::string piece;
    text::append_json_escaped(piece, std::string_view(rest_).substr(0, bytes));
    out.arguments(piece);
    rest_.erase(0, bytes);
    searched_ = 0;
  }

  void close(CallOutput& out) { out.arguments(parameters_ == 0 ? "{}" : "}"); }

  /// The end tag came before the function's.
  void complete(CallOutput& out) {
    if (state_ == State::Value) end_value(rest_.size(), out);
    close(out);
  }

  void no_call(CallOutput& out) {
    if (shows_tags_) out.text(kCallTag);
    if (!raw_.empty()) out.text(std::exchange(raw_, {}));
    state_ = State::Text;
  }

  const std::vector<ToolTypes>& tools_;
  State state_ = State::Start;
  std::string rest_;  // what came and is not used up
  std::string raw_;   // what was used up, until a call begins
  const ToolTypes* tool_ = nullptr;
  ParameterTypes types_;
  bool is_text_ = false, at_line_ = false;
  std::size_t searched_ = 0;  // bytes of rest_ in which no end of the value begins
  std::int64_t parameters_ = 0;
  bool begun_ = false;
  bool shows_tags_ = true;  // no call was found since the tag: as text, the tag belongs to it
};

/// Schemas and constants that are looked at for the types of a tool's parameters. Alternatives may refer to each other,
/// so a small text could stand for more of them than can be counted.
constexpr int kSchemasOfATool = 10'000;

/// Adds the types of a schema: its type, the kinds of its constants, the types of its alternatives. `left`: how many
/// more schemas and constants are looked at.
void add_types(const text::Json& schema, const text::Json& root, ParameterTypes& out, int depth, int& left) {
  using Kind = text::Json::Kind;
  if (depth > 8 || --left < 0) return;
  const auto add = [&](const std::string& type) {
    out.string = out.string || type == "string";
    out.number = out.number || type == "number" || type == "integer";
    out.boolean = out.boolean || type == "boolean";
    out.null = out.null || type == "null";
    out.container = out.container || type == "object" || type == "array";
  };
  const auto add_kind = [&](const text::Json& value) {
    static constexpr const char* names[] = {"object", "array", "string", "number", "boolean", "boolean", "null"};
    add(names[static_cast<int>(value.kind)]);
  };
  if (const text::Json* type = schema.find("type"); type != nullptr) {
    if (type->is(Kind::String)) add(type->string());
    for (const text::Json& each : type->items) add(each.string());
    return;
  }
  if (const text::Json* constant = schema.find("const")) add_kind(*constant);
  if (const text::Json* values = schema.find("enum"))
    for (const text::Json& each : values->items)
      if (--left >= 0) add_kind(each);
  for (const char* keyword : {"anyOf", "oneOf", "allOf"})
    if (const text::Json* branches = schema.find(keyword))
      for (const text::Json& each : branches->items) {
        if (left < 0) break;
        add_types(each, root, out, depth + 1, left);
      }
  if (const text::Json* reference = schema.find("$ref")) {
    const std::string path = reference->string();
    for (const char* place : {"$defs", "definitions"}) {
      const std::string prefix = std::string("#/") + place + "/";
      const text::Json* definitions = root.find(place);
      if (definitions == nullptr || !path.starts_with(prefix)) continue;
      if (const text::Json* target = definitions->find(path.substr(prefix.size())))
        add_types(*target, root, out, depth + 1, left);
    }
  }
  if (schema.find("properties") != nullptr || schema.find("items") != nullptr) out.container = true;
}

}  // namespace

std::unique_ptr<CallParser> xml_call_parser(const std::vector<ToolTypes>& tools) {
  return std::make_unique<XmlCallParser>(tools);
}

ToolTypes tool_types(std::string name, const text::Json* schema) {
  ToolTypes out{std::move(name), {}};
  const text::Json* properties = schema != nullptr ? schema->find("properties") : nullptr;
  if (properties == nullptr) return out;
  int left = kSchemasOfATool;
  for (const auto& [key, property] : properties->fields) add_types(property, *schema, out.parameters[key], 0, left);
  return out;
}

std::string typed_value(std::string_view text, const ParameterTypes& types) {
  const std::size_t first = text.find_first_not_of(" \n\r\t");
  std::string_view trimmed = first == text.npos ? std::string_view() : text.substr(first);
  trimmed = trimmed.substr(0, trimmed.find_last_not_of(" \n\r\t") + 1);
  // Words as Python writes them, which models of this format do.
  if (trimmed == "True" && types.boolean) return "true";
  if (trimmed == "False" && types.boolean) return "false";
  if (trimmed == "None" && types.null) return "null";
  bool fits = false;
  try {
    using Kind = text::Json::Kind;
    const text::Json value = text::parse_json(trimmed, "value");
    fits = (value.is(Kind::Number) && types.number) || (value.is_bool() && types.boolean) ||
           (value.is(Kind::Null) && types.null) ||
           ((value.is(Kind::Object) || value.is(Kind::Array)) && types.container) ||
           (!types.string && !value.is(Kind::String));
  } catch (const RequestError&) { fits = false; }
  if (fits) return std::string(trimmed);
  std::string out;
  text::append_json_string(out, text);
  return out;
}

}  // namespace mortar::answer
