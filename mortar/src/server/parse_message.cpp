// POST /v1/messages: Anthropic's form of a chat.
#include <utility>

#include "server/api_error.hpp"
#include "server/conversation.hpp"
#include "server/parse.hpp"

namespace mortar::server {
namespace {

using text::Json;
using Kind = Json::Kind;

std::string text_of(const Json& content, const std::string& path) {
  return joined_text(content, path, {"a string or an array of blocks", {"text"}, "text: the model reads nothing else"});
}

void parse_assistant_block(Fields& block, const std::string& type, Conversation& conversation) {
  if (type == "text") {
    conversation.said(block.string("text").value_or(""));
  } else if (type == "thinking") {
    conversation.thought(block.string("thinking").value_or(""));
  } else if (type == "tool_use") {
    MessageWriter::Call call;
    call.id = block.string("id").value_or("");
    call.name = block.string("name").value_or("");
    if (call.name.empty()) missing(block.path("name"), "a string");
    const Json* input = block.object("input");
    call.arguments = input != nullptr ? std::string(input->source) : "{}";
    call.path = block.path("input");
    conversation.called(std::move(call));
  } else if (type != "redacted_thinking") {
    invalid(block.path("type"), "text, thinking or tool_use", "\"" + type + "\"");
  }
}

void parse_user_block(Fields& block, const std::string& type, std::string& text, Conversation& conversation) {
  if (type == "text") {
    const auto more = block.string("text");
    if (!more) missing(block.path("text"), "a string");
    if (!text.empty()) text += '\n';
    text += *more;
  } else if (type == "tool_result") {
    if (!text.empty()) conversation.user(std::exchange(text, {}));
    const auto id = block.string("tool_use_id");
    const Json* content = block.find("content");
    conversation.tool(id.value_or(""), content == nullptr ? "" : text_of(*content, block.path("content")));
  } else {
    invalid(block.path("type"), "text or tool_result: the model reads nothing else", "\"" + type + "\"");
  }
}

void parse_turn(const Json& value, const std::string& path, Conversation& conversation) {
  Fields message(value, path);
  const auto role = message.one_of("role", {"user", "assistant", "system"});
  if (!role) missing(message.path("role"), "user or assistant");
  const Json* content = message.find("content");
  const std::string content_path = message.path("content");
  if (content == nullptr) missing(content_path, "a string or an array of blocks");
  if (*role == "system") return conversation.system(text_of(*content, content_path));
  if (content->is(Kind::String)) {
    if (*role == "user") return conversation.user(content->string());
    return conversation.said(content->string());
  }
  if (!content->is(Kind::Array)) wrong(content_path, "a string or an array of blocks", *content);
  std::string text;
  for (std::size_t i = 0; i < content->items.size(); ++i) {
    Fields block(content->items[i], element(content_path, i));
    const std::string type = block.string("type").value_or("");
    if (*role == "assistant")
      parse_assistant_block(block, type, conversation);
    else
      parse_user_block(block, type, text, conversation);
  }
  if (!text.empty()) conversation.user(text);
}

void parse_message_tools(Fields& fields, const ParseContext& context, ChatRequest& out) {
  ToolWriter writer(context);
  const Json* tools = fields.array("tools");
  for (std::size_t i = 0; tools != nullptr && i < tools->items.size(); ++i) {
    Fields tool(tools->items[i], element(fields.path("tools"), i));
    const std::string type = tool.string("type").value_or("custom");
    if (type != "custom") {  // a tool that the service runs
      out.generation.unknown.push_back("tools." + type);
      continue;
    }
    const auto name = tool.string("name");
    if (!name) missing(tool.path("name"), "a string");
    const Json* schema = tool.object("input_schema");
    writer.add(*name, tool.string("description"), schema, tool.path());
  }
  out.tool_choice = writer.empty() ? ToolChoice::None : ToolChoice::Auto;
  if (const Json* choice = fields.object("tool_choice")) {
    Fields c(*choice, fields.path("tool_choice"));
    const auto type = c.one_of("type", {"auto", "any", "tool", "none"});
    if (!type) missing(c.path("type"), "auto, any, tool or none");
    if (*type == "none") out.tool_choice = ToolChoice::None;
    if (*type == "any" || *type == "tool") {
      if (writer.empty()) invalid(c.path("type"), "tools beside it", "none");
      out.tool_choice = *type == "any" ? ToolChoice::Required : ToolChoice::Named;
    }
    if (*type == "tool") {
      out.named = c.string("name").value_or("");
      if (!writer.has(out.named)) invalid(c.path("name"), "the name of one of the tools", "\"" + out.named + "\"");
    }
    out.parallel = !c.boolean("disable_parallel_tool_use").value_or(false);
  }
  if (!writer.empty()) writer.finish(out);
}

}  // namespace

ChatRequest parse_message(const Json& body, const ParseContext& context) {
  ChatRequest out;
  Fields fields(body, "");
  Generation& g = out.generation;
  g.model = fields.string("model").value_or("");
  Conversation conversation(context);
  if (const Json* system = fields.find("system")) conversation.system(text_of(*system, fields.path("system")));
  const Json* messages = fields.array("messages");
  const std::string path = fields.path("messages");
  if (messages == nullptr) missing(path, "an array of messages");
  if (messages->items.empty()) invalid(path, "at least one message", "none");
  for (std::size_t i = 0; i < messages->items.size(); ++i)
    parse_turn(messages->items[i], element(path, i), conversation);
  if (conversation.empty()) invalid(path, "at least one message with content", "none");
  out.messages = conversation.take();
  parse_message_tools(fields, context, out);
  parse_format(fields, "output_config", {"json_schema"}, "json_schema", g);
  parse_max_tokens(fields, {"max_tokens"}, g);
  if (const Json* stop = fields.array("stop_sequences")) parse_stop(*stop, fields.path("stop_sequences"), context, g);
  g.temperature = fields.number("temperature", 0, 1);
  g.top_p = fields.number("top_p", 1e-38, 1);
  g.top_k = fields.integer("top_k", 0, std::int64_t{1} << 30);
  g.stream = fields.boolean("stream").value_or(false);
  g.clamps = true;       // clients of this API ask for the most that a model may give
  out.thinking = false;  // as the API has it: only where it is requested
  if (const Json* thinking = fields.object("thinking")) {
    Fields t(*thinking, fields.path("thinking"));
    const auto type = t.one_of("type", {"enabled", "adaptive", "disabled"});
    if (!type) missing(t.path("type"), "enabled, adaptive or disabled");
    out.thinking = *type != "disabled";
    g.thinking_budget = t.integer("budget_tokens", 0, INT32_MAX).value_or(-1);
  }
  if (g.structure.form != Form::Text && out.tool_choice != ToolChoice::None)
    unsupported(g.structure.path, "cannot be combined with tools: set tool_choice to none");
  fields.ignore(
      {"metadata", "service_tier", "container", "context_management", "mcp_servers", "betas", "cache_control"});
  const std::vector<std::string> unknown = fields.unknown();
  g.unknown.insert(g.unknown.end(), unknown.begin(), unknown.end());
  return out;
}

}  // namespace mortar::server
