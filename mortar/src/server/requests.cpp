// From a request of the API to requests of the engine.
#include <algorithm>

#include "mortar/errors.hpp"
#include "server/ids.hpp"
#include "server/service.hpp"
#include "tessera/base/format.hpp"

namespace mortar::server {
namespace {

using answer::Thinking;
using answer::thinking_after;
using tessera::concat;

Sampling sampling_of_request(const Generation& g, const GenerationConfig& defaults, std::uint64_t seed) {
  Sampling s = sampling_of(defaults);
  const auto set = [](float& field, const std::optional<double>& value) {
    if (value) field = static_cast<float>(*value);
  };
  // Who asks for a temperature or a limit wants to draw, also from a model whose default is greedy.
  if (g.temperature || g.top_p || g.top_k || g.min_p) s.greedy = false;
  set(s.temperature, g.temperature);
  set(s.top_p, g.top_p);
  set(s.min_p, g.min_p);
  set(s.presence_penalty, g.presence_penalty);
  set(s.frequency_penalty, g.frequency_penalty);
  set(s.repetition_penalty, g.repetition_penalty);
  if (g.top_k) s.top_k = std::max<std::int64_t>(0, *g.top_k);
  if (s.temperature == 0) s.greedy = true;
  s.logit_bias = g.logit_bias;
  s.seed = seed;
  return s;
}

/// An error of the grammar as one of the field that it came from.
template <class F>
std::shared_ptr<const Grammar> compiled(GrammarCache& cache, const std::string& key, const std::string& path,
                                        F&& compile) {
  try {
    return cache.get(key, compile);
  } catch (const RequestError& e) { throw ApiError(400, path + ": " + e.what(), path, "invalid_schema"); }
}

mortar::CallFormat grammar_format(answer::CallFormat format) {
  return format == answer::CallFormat::Xml ? mortar::CallFormat::Xml : mortar::CallFormat::Json;
}

}  // namespace

std::vector<TokenId> Service::prompt_of(Served& served, const ChatRequest& chat) const {
  if (!served.chat)
    throw ApiError(400, "this model has no chat template: use /v1/completions", "messages", "no_chat_template");
  ChatInputs inputs;
  inputs.messages = chat.messages;
  inputs.tools = chat.tools;
  inputs.thinking = chat.thinking;
  inputs.generation_prompt = chat.generation_prompt;
  inputs.variables = chat.template_variables;
  std::string text;
  try {
    text = served.chat->render(inputs);
  } catch (const RequestError& e) { throw ApiError(400, e.what(), "messages", "invalid_messages"); }
  if (!chat.generation_prompt) {
    // Up to the end of the last message's text; templates trim it.
    const std::string marked = served.plain.mark(chat.continued, PlainText::Names::Special);
    const std::size_t first = marked.find_first_not_of(" \n\r\t"), last = marked.find_last_not_of(" \n\r\t");
    const std::size_t at = text.rfind(marked.substr(first, last + 1 - first));
    if (at == std::string::npos)
      throw ApiError(400, "continue_final_message: the chat template changes the last message",
                     "continue_final_message", "invalid_messages");
    text.resize(at + last + 1 - first);
  }
  std::vector<TokenId> ids = served.plain.encode(text);
  if (ids.empty())
    throw ApiError(400, "messages: the chat template makes an empty prompt of them", "messages", "invalid_messages");
  // A grammar begins behind the thinking. A model that may think, and was not told not to, begins with it anyway.
  const bool restricted = chat.generation.structure.form != Form::Text || chat.tool_choice == ToolChoice::Required ||
                          chat.tool_choice == ToolChoice::Named;
  if (restricted && chat.generation_prompt && served.may_think &&
      thinking_after(ids, served.tokenizer) == Thinking::MayBegin) {
    const std::vector<TokenId> more = served.tokenizer.encode("<think>\n");
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

Request Service::engine_request(const Served& served, const HttpRequest& http, const Generation& g,
                                std::vector<TokenId> ids, std::uint64_t seed, const std::string& prompt_field) const {
  const std::int64_t prompt = std::ssize(ids), context = served.context.limits.max_context, left = context - prompt;
  if (left < 1)
    throw ApiError(
        400, concat("expected a prompt of less than ", context, " tokens, the context of this server, found ", prompt),
        prompt_field, "context_length_exceeded");
  if (g.max_tokens && *g.max_tokens > left && !g.clamps)
    throw ApiError(400,
                   concat("expected at most ", context, " tokens of prompt and answer together, found a prompt of ",
                          prompt, " and max_tokens of ", *g.max_tokens),
                   prompt_field, "context_length_exceeded");
  Request r;
  r.ids = std::move(ids);
  r.max_tokens = std::min(left, g.max_tokens.value_or(g.default_tokens));
  r.min_tokens = std::min(g.min_tokens, r.max_tokens);
  r.sampling = sampling_of_request(g, served.engine.model().generation, seed);
  r.stop_ids = g.stop_ids;
  r.allowed_ids = g.allowed_ids;
  r.ignore_eos = g.ignore_eos;
  r.logprobs = g.logprobs;
  r.thinking_budget = g.thinking_budget;
  r.choices = g.choices;
  r.cache_salt = g.cache_salt;
  r.key = http.key;
  r.text = false;  // the answer's machine reads the tokens
  r.priority = g.priority;
  return r;
}

void Service::constrain_content(Served& served, const Generation& g, bool after_thinking, Request& request) const {
  const Structure& s = g.structure;
  if (s.form == Form::Text) return;
  std::string key = concat(static_cast<int>(s.form), "\n", s.text);
  for (const std::string& choice : s.choices) key += concat("\n", choice.size(), ":", choice);
  const auto grammar = compiled(served.grammars, key, s.path, [&] {
    switch (s.form) {
      case Form::JsonSchema: return Grammar::from_json_schema(s.text);
      case Form::Regex: return Grammar::from_regex(s.text);
      case Form::Choice: return Grammar::from_choice(s.choices);
      default: return Grammar::json_object();
    }
  });
  ConstraintOptions options;
  if (after_thinking) options.begins_after = served.tokenizer.find("</think>");
  options.eos = served.eos;
  options.eos.insert(options.eos.end(), g.stop_ids.begin(), g.stop_ids.end());
  request.constraint = constrain(grammar, served.vocabulary, options);
}

void Service::constrain_chat(Served& served, const ChatRequest& chat, Thinking thinking, Request& request) const {
  const bool forced = chat.tool_choice == ToolChoice::Required || chat.tool_choice == ToolChoice::Named;
  const bool after_thinking = thinking == Thinking::Inside;
  if (!forced) constrain_content(served, chat.generation, after_thinking, request);
  if (chat.tools.empty()) return;
  const std::optional<TokenId> tag = served.tokenizer.find(answer::kCallTag);
  if (chat.tool_choice == ToolChoice::None) {
    // The model sees the tools, so that the prompt stays what it is for other choices, but cannot begin a call.
    if (tag) request.banned_ids.push_back(*tag);
    return;
  }
  if (!forced && (!options_.tool_grammar || !tag)) return;
  ToolGrammarOptions options;
  options.format = grammar_format(served.context.calls);
  options.choice = forced ? CallChoice::Required : CallChoice::Auto;
  if (chat.tool_choice == ToolChoice::Named) options.name = chat.named;
  options.parallel = chat.parallel;
  const std::string tools = served.plain.unmark(chat.tools);
  const std::string key = concat("tools ", static_cast<int>(options.format), static_cast<int>(options.choice),
                                 options.parallel, options.name, "\n", tools);
  const auto grammar = compiled(served.grammars, key, "tools", [&] { return Grammar::from_tools(tools, options); });
  ConstraintOptions constraint;
  if (forced && after_thinking) constraint.begins_after = served.tokenizer.find("</think>");
  if (!forced) constraint.triggered_by = tag;
  constraint.eos = served.eos;
  request.constraint = constrain(grammar, served.vocabulary, constraint);
}

void Service::start_chat(const std::shared_ptr<Served>& served, const HttpRequest& http,
                         std::shared_ptr<HttpReply> reply, ChatRequest chat,
                         std::unique_ptr<AnswerWriter> (*writer)(WriterOptions)) {
  check_model(chat.generation.model);
  std::vector<TokenId> ids = prompt_of(*served, chat);
  const Thinking thinking = thinking_after(ids, served->tokenizer);
  const Generation& g = chat.generation;
  const std::uint64_t seed = g.seed.value_or(drawn_seed());
  RunPrompt prompt;
  prompt.request = engine_request(*served, http, g, std::move(ids), seed, "messages");
  prompt.request.starts_thinking = thinking == Thinking::Inside;
  constrain_chat(*served, chat, thinking, prompt.request);
  const bool calls = chat.tool_choice != ToolChoice::None;
  prompt.machine.calls = calls ? served->context.calls : answer::CallFormat::None;
  if (prompt.machine.calls == answer::CallFormat::Xml) prompt.machine.tools = chat.tool_types;
  prompt.machine.thinking = thinking;
  prompt.machine.stop = g.stop;
  prompt.machine.keep_stop = g.keep_stop;
  prompt.machine.one_call = calls && !chat.parallel;
  prompt.machine.skip_special = g.skip_special;
  WriterOptions w = writer_options(*served, std::move(reply), g, seed);
  w.shows_thinking = chat.shows_thinking;
  w.tools = chat.tools_as_given;
  w.parallel = chat.parallel;
  if (chat.tool_choice == ToolChoice::None) w.tool_choice = "\"none\"";
  if (chat.tool_choice == ToolChoice::Required) w.tool_choice = "\"required\"";
  if (chat.tool_choice == ToolChoice::Named) {
    w.tool_choice = "{\"type\":\"function\",\"name\":";
    text::append_json_string(w.tool_choice, chat.named);
    w.tool_choice += '}';
  }
  std::vector<RunPrompt> prompts;
  prompts.push_back(std::move(prompt));
  start(served, std::move(prompts), std::move(w), writer);
}

void Service::start_completion(const std::shared_ptr<Served>& served, const HttpRequest& http,
                               std::shared_ptr<HttpReply> reply, CompletionRequest completion) {
  const Generation& g = completion.generation;
  check_model(g.model);
  const std::uint64_t seed = g.seed.value_or(drawn_seed());
  std::vector<RunPrompt> prompts(completion.count());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::vector<TokenId> ids = completion.ids.empty() ? served->tokenizer.encode_document(completion.prompts[i])
                                                      : std::move(completion.ids[i]);
    prompts[i].request = engine_request(*served, http, g, std::move(ids), seed, "prompt");
    constrain_content(*served, g, false, prompts[i].request);
    prompts[i].machine.thinking = Thinking::Ended;  // all of it is text
    prompts[i].machine.stop = g.stop;
    prompts[i].machine.keep_stop = g.keep_stop;
    prompts[i].machine.skip_special = g.skip_special;
  }
  start(served, std::move(prompts), writer_options(*served, std::move(reply), g, seed), completion_writer);
}

}  // namespace mortar::server
