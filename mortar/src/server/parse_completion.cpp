// POST /v1/completions.
#include "server/api_error.hpp"
#include "server/parse.hpp"
#include "tessera/base/format.hpp"

namespace mortar::server {
namespace {

using text::Json;
using Kind = Json::Kind;

void parse_prompts(Fields& fields, const ParseContext& context, CompletionRequest& out) {
  const Json* prompt = fields.find("prompt");
  const std::string path = fields.path("prompt");
  const char* expected = "a string, an array of strings, an array of ids, or an array of arrays of ids";
  if (prompt == nullptr) missing(path, expected);
  const auto ids_of = [&](const Json& array, const std::string& where) {
    if (array.items.empty()) invalid(where, "at least one id", "none");
    return integers_of(array, where, 0, context.limits.vocabulary - 1,
                       static_cast<std::size_t>(context.limits.max_context));
  };
  if (prompt->is(Kind::String)) {
    out.prompts.push_back(prompt->string());
  } else if (!prompt->is(Kind::Array)) {
    wrong(path, expected, *prompt);
  } else if (prompt->items.empty()) {
    invalid(path, expected, "an empty array");
  } else if (prompt->items[0].is(Kind::Number)) {
    out.ids.push_back(ids_of(*prompt, path));
  } else {
    if (prompt->items.size() > context.limits.prompts)
      invalid(path, tessera::concat("at most ", context.limits.prompts, " prompts"),
              tessera::concat(prompt->items.size()));
    const Kind kind = prompt->items[0].kind;
    for (std::size_t i = 0; i < prompt->items.size(); ++i) {
      const Json& item = prompt->items[i];
      if (item.kind != kind || (kind != Kind::String && kind != Kind::Array))
        wrong(element(path, i), "strings, or arrays of ids", item);
      if (kind == Kind::String)
        out.prompts.push_back(item.string());
      else
        out.ids.push_back(ids_of(item, element(path, i)));
    }
  }
  for (std::size_t i = 0; i < out.prompts.size(); ++i)
    if (out.prompts[i].empty()) invalid(out.prompts.size() == 1 ? path : element(path, i), "a text", "an empty one");
}

}  // namespace

CompletionRequest parse_completion(const Json& body, const ParseContext& context) {
  CompletionRequest out;
  Fields fields(body, "");
  parse_prompts(fields, context, out);
  if (fields.boolean("echo").value_or(false)) unsupported("echo", "is not supported");
  if (const Json* suffix = fields.find("suffix");
      suffix != nullptr && !(suffix->is(Kind::String) && suffix->string().empty()))
    unsupported("suffix", "is not supported");
  const std::optional<std::int64_t> best = fields.integer("best_of", 1, INT32_MAX);
  const std::optional<std::int64_t> logprobs = fields.integer("logprobs", 0, 20);
  parse_generation(fields, context, out.generation);
  if (best && *best != out.generation.choices) unsupported("best_of", "is not supported: use n");
  if (out.count() * static_cast<std::size_t>(out.generation.choices) > context.limits.answers)
    invalid("n", tessera::concat("at most ", context.limits.answers, " answers of all prompts"),
            tessera::concat(out.count(), " prompts with ", out.generation.choices, " answers each"));
  out.generation.default_tokens = 16;  // as OpenAI documents it
  if (logprobs) out.generation.logprobs = *logprobs;
  out.generation.unknown = fields.unknown();
  return out;
}

}  // namespace mortar::server
