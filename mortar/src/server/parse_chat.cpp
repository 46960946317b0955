// POST /v1/chat/completions.
#include "server/api_error.hpp"
#include "server/parse.hpp"
#include "tessera/base/format.hpp"

namespace mortar::server {
namespace {

using text::Json;
using Kind = Json::Kind;

std::optional<std::string> content_of(Fields& message) {
  const Json* content = message.find("content");
  if (content == nullptr) return std::nullopt;
  return joined_text(*content, message.path("content"),
                     {"a string or an array of parts",
                      {"text", "input_text", "output_text", "refusal"},
                      "text: the model reads nothing else"});
}

std::vector<MessageWriter::Call> calls_of(Fields& message) {
  std::vector<MessageWriter::Call> out;
  const Json* calls = message.array("tool_calls");
  for (std::size_t i = 0; calls != nullptr && i < calls->items.size(); ++i) {
    Fields call(calls->items[i], element(message.path("tool_calls"), i));
    (void)call.one_of("type", {"function"});
    const Json* function = call.object("function");
    if (function == nullptr) missing(call.path("function"), "an object");
    Fields f(*function, call.path("function"));
    MessageWriter::Call& c = out.emplace_back();
    c.id = call.string("id").value_or("");
    const std::optional<std::string> name = f.string("name");
    if (!name) missing(f.path("name"), "a string");
    c.name = *name;
    c.path = f.path("arguments");
    const Json* arguments = f.find("arguments");
    if (arguments != nullptr && arguments->is(Kind::Object))
      c.arguments = std::string(arguments->source);
    else
      c.arguments = f.string("arguments").value_or("");
    if (c.arguments.find_first_not_of(" \n\r\t") == std::string::npos) c.arguments = "{}";
  }
  return out;
}

void parse_one_message(const Json& value, const std::string& path, MessageWriter& writer, bool last, ChatRequest& out) {
  Fields message(value, path);
  const auto role = message.one_of("role", {"system", "developer", "user", "assistant", "tool"});
  if (!role) missing(message.path("role"), "system, developer, user, assistant or tool");
  const std::optional<std::string> content = content_of(message);
  if (*role == "assistant") {
    std::optional<std::string> thinking = message.string("reasoning_content");
    if (const auto other = message.string("reasoning"); !thinking) thinking = other;
    writer.assistant(content.value_or(""), content.has_value(), thinking.value_or(""), calls_of(message));
    if (last && !out.generation_prompt) out.continued = content.value_or("");
    return;
  }
  if (!content) missing(message.path("content"), "a string or an array of parts");
  if (*role == "tool")
    writer.tool(message.string("tool_call_id").value_or(""), *content);
  else
    writer.text(*role == "developer" ? "system" : *role, *content);
}

void parse_messages(Fields& fields, const ParseContext& context, ChatRequest& out) {
  const bool continues = fields.boolean("continue_final_message").value_or(false);
  const std::optional<bool> prompt = fields.boolean("add_generation_prompt");
  if (continues && prompt.value_or(false))
    invalid(fields.path("continue_final_message"), "either this or add_generation_prompt", "both");
  out.generation_prompt = !continues;
  const Json* messages = fields.array("messages");
  const std::string path = fields.path("messages");
  if (messages == nullptr) missing(path, "an array of messages");
  if (messages->items.empty()) invalid(path, "at least one message", "none");
  MessageWriter writer(context);
  for (std::size_t i = 0; i < messages->items.size(); ++i)
    parse_one_message(messages->items[i], element(path, i), writer, i + 1 == messages->items.size(), out);
  if (continues && out.continued.find_first_not_of(" \n\r\t") == std::string::npos)
    invalid(fields.path("continue_final_message"), "a last message of the assistant with content", "none");
  out.messages = writer.take();
}

void parse_chat_tools(Fields& fields, const ParseContext& context, ChatRequest& out) {
  const Json* tools = fields.array("tools");
  const std::string path = fields.path("tools");
  if (tools != nullptr && tools->items.empty())
    invalid(path, "at least one tool, or none of this field", "an empty array");
  ToolWriter writer(context);
  for (std::size_t i = 0; tools != nullptr && i < tools->items.size(); ++i) {
    Fields tool(tools->items[i], element(path, i));
    if (const auto type = tool.string("type"); !type || *type != "function")
      invalid(tool.path("type"), "function", type ? "\"" + *type + "\"" : "nothing");
    const Json* function = tool.object("function");
    if (function == nullptr) missing(tool.path("function"), "an object");
    Fields f(*function, tool.path("function"));
    const auto name = f.string("name");
    if (!name) missing(f.path("name"), "a string");
    const Json* parameters = f.object("parameters");
    writer.add(*name, f.string("description"), parameters, f.path());
  }
  const Json* choice = fields.find("tool_choice");
  const std::string choice_path = fields.path("tool_choice");
  if (choice != nullptr && tools == nullptr && !(choice->is(Kind::String) && choice->string() == "none"))
    invalid(choice_path, "tools beside it", "none");
  out.tool_choice = tools == nullptr ? ToolChoice::None : ToolChoice::Auto;
  if (choice != nullptr && choice->is(Kind::Object)) {
    Fields c(*choice, choice_path);
    (void)c.one_of("type", {"function"});
    const Json* function = c.object("function");
    const auto name = function != nullptr ? Fields(*function, c.path("function")).string("name") : c.string("name");
    if (!name) missing(c.path("function"), "an object with the name of a function");
    if (!writer.has(*name)) invalid(c.path("function.name"), "the name of one of the tools", "\"" + *name + "\"");
    out.tool_choice = ToolChoice::Named;
    out.named = *name;
  } else if (choice != nullptr) {
    const std::string word = *fields.one_of("tool_choice", {"none", "auto", "required"});
    if (word == "none") out.tool_choice = ToolChoice::None;
    if (word == "required") out.tool_choice = ToolChoice::Required;
  }
  out.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  if (!writer.empty()) writer.finish(out);
}

void parse_thinking(Fields& fields, ChatRequest& out) {
  if (const auto effort =
          fields.one_of("reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"}))
    out.thinking = *effort != "none";
  if (const auto thinking = fields.boolean("enable_thinking")) out.thinking = thinking;
  out.shows_thinking = fields.boolean("include_reasoning").value_or(true);
  const Json* variables = fields.object("chat_template_kwargs");
  if (variables == nullptr) return;
  Fields v(*variables, fields.path("chat_template_kwargs"));
  if (const auto thinking = v.boolean("enable_thinking")) out.thinking = thinking;
  for (const char* name :
       {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token", "pad_token", "unk_token"})
    if (v.find(name) != nullptr) unsupported(v.path(name), "is set by the server");
  out.template_variables = std::string(variables->source);
}

}  // namespace

ChatRequest parse_chat(const Json& body, const ParseContext& context) {
  ChatRequest out;
  Fields fields(body, "");
  parse_messages(fields, context, out);
  parse_chat_tools(fields, context, out);
  parse_thinking(fields, out);
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const std::optional<std::int64_t> top = fields.integer("top_logprobs", 0, 20);
  if (top && *top > 0 && !logprobs) invalid(fields.path("top_logprobs"), "logprobs: true beside it", "none");
  parse_generation(fields, context, out.generation);
  if (logprobs) out.generation.logprobs = top.value_or(0);
  if (!out.generation.skip_special && !out.tools.empty())
    unsupported("skip_special_tokens", "false is not supported with tools");
  if (out.generation.structure.form != Form::Text && out.tool_choice != ToolChoice::None)
    unsupported(out.generation.structure.path, "cannot be combined with tools: set tool_choice to none");
  out.generation.unknown = fields.unknown();
  return out;
}

}  // namespace mortar::server
