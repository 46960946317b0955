// Files and inputs around the interpreter (jinja_*.cpp), and its errors as those of Mortar.
#include "mortar/chat_template.hpp"

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "text/chat_template_state.hpp"
#include "text/jinja_lexer.hpp"
#include "text/read_text.hpp"
#include "text/utf8.hpp"

namespace mortar {
namespace {

using tessera::concat;
using text::JsonReader;
using text::jinja::Value;

// As the tokenizers of `transformers` give them to templates.
constexpr std::string_view kSpecialTokens[] = {"bos_token", "eos_token", "unk_token",  "sep_token",
                                               "pad_token", "cls_token", "mask_token", "additional_special_tokens"};

constexpr std::size_t kMaxMessages = std::size_t{1} << 30;  // bytes

/// A token is written as its name, or as an object with its name as content.
Value token_name(const Value& v) {
  const text::jinja::Dict* dict = v.dict();
  const Value* content = dict != nullptr ? dict->find(std::string_view("content")) : nullptr;
  return content != nullptr ? *content : v;
}

/// Reading makes lists and dicts, which have limits of their own.
Value read_value(JsonReader& reader) {
  try {
    return text::jinja::read_json(reader);
  } catch (const text::jinja::TemplateFailure& e) { reader.wrong("a value within the limits", e.what()); }
}

Value read_all(std::string_view json, const std::string& name, JsonReader::Kind kind, const char* expected,
               JsonReader::Errors errors) {
  JsonReader reader(json, name, errors);
  if (reader.peek() != kind) reader.wrong(expected);
  Value out = read_value(reader);
  reader.end();
  return out;
}

Value request(std::string_view json, const char* name, JsonReader::Kind kind, const char* expected) {
  return read_all(json, name, kind, expected, JsonReader::Errors::Request);
}

}  // namespace

namespace text {

std::string template_of_config(std::string_view config, const std::string& name) {
  std::string out;
  JsonReader reader(config, name);
  reader.object([&](std::string_view field) {
    if (field != "chat_template") {
      reader.skip();
      return;
    }
    const Value v = read_value(reader);
    if (v.is_string() || v.is_none()) {
      out = v.text();
      return;
    }
    // Several templates with names.
    if (v.list() == nullptr) reader.wrong("a template, or a list of templates with names", "neither");
    for (const Value& each : v.list()->items) {
      const jinja::Dict* dict = each.dict();
      const Value* key = dict != nullptr ? dict->find(std::string_view("name")) : nullptr;
      const Value* source = dict != nullptr ? dict->find(std::string_view("template")) : nullptr;
      if (key == nullptr || source == nullptr || !source->is_string())
        reader.wrong("templates with name and template", "one without");
      if (key->text() == "default") out = source->text();
    }
  });
  reader.end();
  return out;
}

void read_chat_template(std::string_view source, const std::string& name, std::string_view tokenizer_config,
                        ChatTemplate::State& state) {
  state.name = name;
  state.source = source;
  try {
    state.tree = jinja::parse_template(source);
  } catch (const jinja::SyntaxError& e) { throw ModelError(concat(name, ", line ", e.line, ": ", e.message)); }
  if (tokenizer_config.empty()) return;
  JsonReader reader(tokenizer_config, "tokenizer_config.json");
  reader.object([&](std::string_view field) {
    for (std::string_view token : kSpecialTokens) {
      if (field != token) continue;
      Value v = read_value(reader);
      if (v.list() != nullptr) {
        jinja::Values names;
        for (const Value& each : v.list()->items) names.push_back(token_name(each));
        v = jinja::make_list(std::move(names));
      }
      if (!v.is_none()) state.special_tokens.emplace_back(std::string(token), token_name(v));
      return;
    }
    reader.skip();
  });
  reader.end();
}

std::string render_chat(const ChatTemplate::State& state, const ChatInputs& inputs, const jinja::Limits& limits) {
  jinja::Machine machine(state.tree, limits, inputs.now);
  for (const auto& [name, value] : state.special_tokens) machine.define(name, value);
  machine.define("messages", request(inputs.messages, "messages", JsonReader::Kind::Array, "an array of messages"));
  machine.define("tools", inputs.tools.empty()
                              ? Value(jinja::None{})
                              : request(inputs.tools, "tools", JsonReader::Kind::Array, "an array of tools"));
  machine.define("documents", jinja::None{});
  machine.define("add_generation_prompt", inputs.generation_prompt);
  if (inputs.thinking) machine.define("enable_thinking", *inputs.thinking);
  if (!inputs.variables.empty()) {
    const Value variables = request(inputs.variables, "variables", JsonReader::Kind::Object, "an object");
    for (const auto& [name, value] : variables.dict()->items) machine.define(name.text(), value);
  }
  try {
    return machine.run();
  } catch (const jinja::TemplateRejection& e) {
    throw RequestError(
        concat(state.name, ", line ", machine.line(), ": the chat template rejects the messages: ", e.what()));
  } catch (const jinja::TemplateFailure& e) {
    throw RequestError(concat(state.name, ", line ", machine.line(), ": the chat template failed: ", e.what()));
  }
}

}  // namespace text

ChatTemplate::ChatTemplate(std::string_view source, const std::string& name, std::string_view tokenizer_config) {
  auto state = std::make_shared<State>();
  text::read_chat_template(source, name, tokenizer_config, *state);
  state_ = std::move(state);
}

ChatTemplate ChatTemplate::load(const std::string& folder) {
  const std::string file = folder + "/chat_template.jinja", config_file = folder + "/tokenizer_config.json";
  const std::optional<std::string> config = text::read_text_if_there(config_file);
  if (const std::optional<std::string> source = text::read_text_if_there(file))
    return ChatTemplate(*source, file, config.value_or(""));
  const std::string source = config ? text::template_of_config(*config, config_file) : "";
  if (source.empty())
    throw ModelError(concat(folder,
                            ": expected chat_template.jinja, or chat_template in tokenizer_config.json, found neither. "
                            "A base model has none: give it text instead of messages"));
  return ChatTemplate(source, config_file + ": chat_template", *config);
}

std::string ChatTemplate::render(const ChatInputs& inputs) const { return text::render_chat(*state_, inputs, {}); }

bool ChatTemplate::mentions(std::string_view text) const { return state_->source.find(text) != std::string::npos; }

std::string messages_json(std::span<const ChatMessage> messages) {
  const auto text_of = [](std::string_view text) { return Value(text::replace_invalid_utf8(text)); };
  text::jinja::Output out(kMaxMessages);
  text::jinja::Values all;
  try {
    for (const ChatMessage& m : messages)
      all.push_back(
          text::jinja::make_dict({{text_of("role"), text_of(m.role)}, {text_of("content"), text_of(m.content)}}));
    text::jinja::write_json(text::jinja::make_list(std::move(all)), {}, out);
  } catch (const text::jinja::TemplateFailure& e) { throw RequestError(concat("messages: ", e.what())); }
  return out.take();
}

}  // namespace mortar
