// POST /v1/responses, without state: the items of the input are the messages of a chat.
#include "server/api_error.hpp"
#include "server/conversation.hpp"
#include "server/parse.hpp"

namespace mortar::server {
namespace {

using text::Json;
using Kind = Json::Kind;

std::string text_of(Fields& item, const char* field) {
  const Json* content = item.find(field);
  const TextParts parts{"a string or an array of parts",
                        {"input_text", "output_text", "text", "refusal", "reasoning_text", "summary_text"},
                        "input_text or output_text: the model reads nothing else"};
  if (content == nullptr) missing(item.path(field), parts.whole);
  return joined_text(*content, item.path(field), parts);
}

void parse_item(const Json& value, const std::string& path, Conversation& conversation) {
  Fields item(value, path);
  const std::string type = item.string("type").value_or("message");
  if (type == "message") {
    const auto role = item.one_of("role", {"user", "assistant", "system", "developer"});
    if (!role) missing(item.path("role"), "user, assistant, system or developer");
    const std::string text = text_of(item, "content");
    if (*role == "assistant")
      conversation.said(text);
    else if (*role == "user")
      conversation.user(text);
    else
      conversation.system(text);
  } else if (type == "function_call") {
    MessageWriter::Call call;
    call.id = item.string("call_id").value_or("");
    call.name = item.string("name").value_or("");
    if (call.name.empty()) missing(item.path("name"), "a string");
    call.arguments = item.string("arguments").value_or("{}");
    if (call.arguments.empty()) call.arguments = "{}";
    call.path = item.path("arguments");
    conversation.called(std::move(call));
  } else if (type == "function_call_output") {
    const std::string id = item.string("call_id").value_or("");
    conversation.tool(id, text_of(item, "output"));
  } else if (type == "reasoning") {
    if (item.find("content") != nullptr)
      conversation.thought(text_of(item, "content"));
    else if (item.find("summary") != nullptr)
      conversation.thought(text_of(item, "summary"));
  } else {
    invalid(item.path("type"), "message, function_call, function_call_output or reasoning", "\"" + type + "\"");
  }
}

void parse_input(Fields& fields, const ParseContext& context, ChatRequest& out) {
  Conversation conversation(context);
  if (const auto instructions = fields.string("instructions")) conversation.system(*instructions);
  const Json* input = fields.find("input");
  const std::string path = fields.path("input");
  if (input == nullptr) missing(path, "a string or an array of items");
  if (input->is(Kind::String)) {
    conversation.user(input->string());
  } else {
    if (!input->is(Kind::Array)) wrong(path, "a string or an array of items", *input);
    if (input->items.empty()) invalid(path, "at least one item", "none");
    for (std::size_t i = 0; i < input->items.size(); ++i) parse_item(input->items[i], element(path, i), conversation);
  }
  if (conversation.empty()) invalid(path, "at least one message", "none");
  out.messages = conversation.take();
}

void parse_response_tools(Fields& fields, const ParseContext& context, ChatRequest& out) {
  ToolWriter writer(context);
  const Json* tools = fields.array("tools");
  for (std::size_t i = 0; tools != nullptr && i < tools->items.size(); ++i) {
    Fields tool(tools->items[i], element(fields.path("tools"), i));
    const auto type = tool.string("type");
    if (!type) missing(tool.path("type"), "function");
    // Tools that the service runs, as a search: clients send them unasked, and the model does well without.
    if (*type != "function") {
      out.generation.unknown.push_back("tools." + *type);
      continue;
    }
    const auto name = tool.string("name");
    if (!name) missing(tool.path("name"), "a string");
    const Json* parameters = tool.object("parameters");
    writer.add(*name, tool.string("description"), parameters, tool.path());
  }
  if (tools != nullptr) out.tools_as_given = std::string(tools->source);
  const Json* choice = fields.find("tool_choice");
  out.tool_choice = writer.empty() ? ToolChoice::None : ToolChoice::Auto;
  if (choice != nullptr && choice->is(Kind::Object)) {
    Fields c(*choice, fields.path("tool_choice"));
    if (c.string("type").value_or("") != "function") unsupported(c.path("type"), "only function is supported");
    const std::string name = c.string("name").value_or("");
    if (!writer.has(name)) invalid(c.path("name"), "the name of one of the tools", "\"" + name + "\"");
    out.tool_choice = ToolChoice::Named;
    out.named = name;
  } else if (choice != nullptr) {
    const std::string word = *fields.one_of("tool_choice", {"none", "auto", "required"});
    if (word == "required" && writer.empty()) invalid(fields.path("tool_choice"), "tools beside it", "none");
    if (word == "none") out.tool_choice = ToolChoice::None;
    if (word == "required") out.tool_choice = ToolChoice::Required;
  }
  out.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  if (!writer.empty()) writer.finish(out);
}

}  // namespace

ChatRequest parse_response(const Json& body, const ParseContext& context) {
  ChatRequest out;
  Fields fields(body, "");
  for (const char* name : {"previous_response_id", "conversation"})
    if (fields.find(name) != nullptr)
      unsupported(name, "this server keeps no responses: send the whole conversation as input");
  if (fields.boolean("background").value_or(false)) unsupported("background", "this server keeps no responses");
  if (fields.find("prompt") != nullptr) unsupported("prompt", "this server keeps no prompts");
  Generation& g = out.generation;
  g.model = fields.string("model").value_or("");
  parse_input(fields, context, out);
  parse_response_tools(fields, context, out);
  parse_format(fields, "text", {"text", "json_object", "json_schema"}, "text, json_object or json_schema", g);
  parse_max_tokens(fields, {"max_output_tokens"}, g);
  parse_sampling(fields, context, g);
  if (const Json* reasoning = fields.object("reasoning")) {
    Fields r(*reasoning, fields.path("reasoning"));
    if (const auto effort = r.one_of("effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"}))
      out.thinking = *effort != "none";
  }
  g.stream = fields.boolean("stream").value_or(false);
  g.clamps = true;  // clients of this API ask for the most that a model may give
  if (g.structure.form != Form::Text && out.tool_choice != ToolChoice::None)
    unsupported(g.structure.path, "cannot be combined with tools: set tool_choice to none");
  fields.ignore({"store", "metadata", "user", "include", "truncation", "service_tier", "safety_identifier",
                 "prompt_cache_key", "prompt_cache_retention", "stream_options", "max_tool_calls", "top_logprobs",
                 "client_metadata"});
  const std::vector<std::string> unknown = fields.unknown();
  g.unknown.insert(g.unknown.end(), unknown.begin(), unknown.end());
  return out;
}

}  // namespace mortar::server
