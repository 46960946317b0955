// Messages and tools as a chat template gets them.
#include <algorithm>

#include "mortar/errors.hpp"
#include "server/api_error.hpp"
#include "server/parse.hpp"
#include "tessera/base/format.hpp"

namespace mortar::server {

using text::Json;
using Kind = Json::Kind;

std::string joined_text(const Json& content, const std::string& path, const TextParts& parts) {
  if (content.is(Kind::String)) return content.string();
  if (!content.is(Kind::Array)) wrong(path, parts.whole, content);
  std::string out;
  for (std::size_t i = 0; i < content.items.size(); ++i) {
    Fields part(content.items[i], element(path, i));
    const std::optional<std::string> type = part.string("type");
    if (!type || std::find(parts.types.begin(), parts.types.end(), *type) == parts.types.end())
      invalid(part.path("type"), parts.expected, type ? "\"" + *type + "\"" : "nothing");
    const char* field = *type == "refusal" ? "refusal" : "text";
    const std::optional<std::string> text = part.string(field);
    if (!text) missing(part.path(field), "a string");
    if (i > 0) out += '\n';
    out += *text;
  }
  return out;
}

void write_marked(const Json& value, const PlainText& plain, text::JsonWriter& out) {
  switch (value.kind) {
    case Kind::Object:
      out.object();
      for (const auto& [name, field] : value.fields) {
        out.key(plain.mark(name));
        write_marked(field, plain, out);
      }
      out.end();
      return;
    case Kind::Array:
      out.array();
      for (const Json& item : value.items) write_marked(item, plain, out);
      out.end_array();
      return;
    case Kind::String: out.value(plain.mark(value.string())); return;
    default: out.raw(value.source);
  }
}

void MessageWriter::text(std::string_view role, std::string_view content) {
  ++count_;
  json_.object().field("role", role).field("content", context_.plain->mark(content)).end();
}

void MessageWriter::tool(std::string_view id, std::string_view content) {
  ++count_;
  json_.object().field("role", "tool").field("content", context_.plain->mark(content));
  if (!id.empty()) json_.field("tool_call_id", id);
  json_.end();
}

void MessageWriter::assistant(std::string_view content, bool has_content, std::string_view thinking,
                              const std::vector<Call>& calls) {
  ++count_;
  const auto marked = [&](std::string_view text) { return context_.plain->mark(text, PlainText::Names::Special); };
  json_.object().field("role", "assistant");
  json_.key("content");
  if (has_content || calls.empty())
    json_.value(marked(content));
  else
    json_.value("");
  if (!thinking.empty()) json_.field("reasoning_content", marked(thinking));
  if (!calls.empty()) {
    json_.key("tool_calls").array();
    for (const Call& call : calls) {
      json_.object().field("id", call.id).field("type", "function").key("function").object();
      json_.field("name", marked(call.name)).key("arguments");
      // The text that the model wrote, where the template takes one: then the prompt is what the model knows already.
      if (context_.calls == answer::CallFormat::Json) {
        json_.value(marked(call.arguments));
      } else {
        try {
          const Json object = text::parse_json(call.arguments, call.path);
          if (!object.is(Kind::Object)) wrong(call.path, "the JSON text of an object", object);
          write_marked(object, *context_.plain, json_);
        } catch (const RequestError& e) { throw ApiError(400, e.what(), call.path, "invalid_value"); }
      }
      json_.end().end();
    }
    json_.end_array();
  }
  json_.end();
}

std::string MessageWriter::take() {
  json_.end_array();
  return std::move(out_);
}

constexpr std::size_t kToolLimit = 1024;  // names are compared with each other

bool ToolWriter::has(std::string_view name) const {
  return std::any_of(types_.begin(), types_.end(), [&](const answer::ToolTypes& t) { return t.name == name; });
}

void ToolWriter::add(const std::string& name, std::optional<std::string> description, const Json* parameters,
                     const std::string& path) {
  const bool good = !name.empty() && name.size() <= 256 && std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && c != '"' && c != '\\' && c != '<' && c != '>';
  });
  if (!good)
    invalid(path + ".name", "1 to 256 bytes without white space, quotes, backslashes, < and >", "\"" + name + "\"");
  if (types_.size() >= kToolLimit) invalid(path, tessera::concat("at most ", kToolLimit, " tools"), "more");
  if (has(name)) invalid(path + ".name", "names that differ", "\"" + name + "\" twice");
  json_.object().field("type", "function").key("function").object();
  json_.field("name", name);
  if (description) json_.field("description", context_.plain->mark(*description));
  json_.key("parameters");
  if (parameters != nullptr)
    write_marked(*parameters, *context_.plain, json_);
  else
    json_.object().field("type", "object").key("properties").object().end().end();
  json_.end().end();
  types_.push_back(answer::tool_types(name, parameters));
}

void ToolWriter::finish(ChatRequest& request) {
  json_.end_array();
  request.tools = std::move(out_);
  request.tool_types = std::move(types_);
}

}  // namespace mortar::server
