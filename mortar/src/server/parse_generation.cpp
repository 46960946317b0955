// Fields that requests of all routes share.
#include <charconv>
#include <limits>

#include "mortar/engine.hpp"
#include "mortar/errors.hpp"
#include "mortar/text_stream.hpp"
#include "server/api_error.hpp"
#include "server/parse.hpp"
#include "tessera/base/format.hpp"

namespace mortar::server {
namespace {

using tessera::concat;
using text::Json;
using Kind = Json::Kind;

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;
constexpr double kAboveZero = std::numeric_limits<float>::min();

void parse_logit_bias(Fields& fields, const ParseContext& context, Generation& out) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  const std::string path = fields.path("logit_bias");
  if (biases->fields.size() > kMaxBiases)
    invalid(path, concat("at most ", kMaxBiases, " tokens"), concat(biases->fields.size()));
  for (const auto& [name, value] : biases->fields) {
    TokenId id = -1;
    const auto r = std::from_chars(name.data(), name.data() + name.size(), id);
    if (r.ec != std::errc{} || r.ptr != name.data() + name.size() || id < 0 || id >= context.limits.vocabulary)
      invalid(path, concat("ids of tokens from 0 to ", context.limits.vocabulary - 1), "\"" + name + "\"");
    const std::optional<double> bias = value.number();
    if (!bias || !(*bias >= -100 && *bias <= 100)) wrong(path + "." + name, "a number from -100 to 100", value);
    out.logit_bias.emplace_back(id, static_cast<float>(*bias));
  }
}

/// response_format and vLLM's structured_outputs.
void parse_structure(Fields& fields, Generation& out) {
  if (const Json* format = fields.object("response_format")) {
    Fields f(*format, fields.path("response_format"));
    const std::optional<std::string> type = f.one_of("type", {"text", "json_object", "json_schema"});
    if (!type) missing(f.path("type"), "text, json_object or json_schema");
    out.structure.path = f.path();
    if (*type == "json_object") out.structure.form = Form::JsonObject;
    if (*type == "json_schema") {
      const Json* named = f.object("json_schema");
      if (named == nullptr) missing(f.path("json_schema"), "an object");
      Fields inner(*named, f.path("json_schema"));
      const Json* schema = inner.find("schema");
      if (schema == nullptr) missing(inner.path("schema"), "a JSON schema");
      set_schema(*schema, inner.path("schema"), out);
    }
  }
  const Json* structured = fields.object("structured_outputs");
  if (structured == nullptr) return;
  Fields s(*structured, fields.path("structured_outputs"));
  if (out.structure.form != Form::Text) invalid(s.path(), "either this or response_format", "both");
  const Json *json = s.find("json"), *choice = s.array("choice");
  const std::optional<std::string> regex = s.string("regex");
  const bool object = s.boolean("json_object").value_or(false);
  if (s.find("grammar") != nullptr) unsupported(s.path("grammar"), "use json, regex or choice");
  if ((json != nullptr) + (choice != nullptr) + regex.has_value() + object != 1)
    invalid(s.path(), "one of json, regex, choice, json_object", "none or several");
  out.structure.path = s.path();
  if (json != nullptr) set_schema(*json, s.path("json"), out);
  if (regex) out.structure.form = Form::Regex, out.structure.text = *regex;
  if (object) out.structure.form = Form::JsonObject;
  if (choice == nullptr) return;
  out.structure.form = Form::Choice;
  for (std::size_t i = 0; i < choice->items.size(); ++i) {
    if (!choice->items[i].is(Kind::String)) wrong(element(s.path("choice"), i), "a string", choice->items[i]);
    out.structure.choices.push_back(choice->items[i].string());
  }
}

void parse_stream(Fields& fields, Generation& out) {
  out.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!out.stream) invalid(fields.path("stream_options"), "stream: true beside it", "stream: false");
  Fields o(*options, fields.path("stream_options"));
  out.include_usage = o.boolean("include_usage").value_or(false);
  out.continuous_usage = o.boolean("continuous_usage_stats").value_or(false);
}

/// What would change the answer if it were ignored.
void reject_unsupported(Fields& fields) {
  for (const char* old : {"guided_json", "guided_regex", "guided_choice", "guided_grammar"})
    if (fields.find(old) != nullptr)
      unsupported(fields.path(old),
                  "is not supported: use response_format, or structured_outputs with json, regex or choice");
  for (const char* name : {"bad_words", "prompt_logprobs", "logits_processors", "use_beam_search", "chat_template",
                           "functions", "function_call", "modalities", "audio", "grammar", "json_schema"})
    if (const Json* value = fields.find(name); value != nullptr && !value->is(Kind::False))
      unsupported(fields.path(name), "is not supported");
}

}  // namespace

text::Json parse_body(std::string_view body) {
  try {
    return text::parse_json(body, "the body");
  } catch (const RequestError& e) { throw ApiError(400, e.what(), "", "invalid_json"); }
}

void set_schema(const Json& schema, const std::string& path, Generation& out) {
  if (!schema.is(Kind::Object) && !schema.is_bool()) wrong(path, "a JSON schema", schema);
  out.structure.form = Form::JsonSchema;
  out.structure.text = std::string(schema.source);
  out.structure.path = path;
}

void parse_format(Fields& fields, const char* field, std::initializer_list<const char*> types, const char* expected,
                  Generation& out) {
  const Json* config = fields.object(field);
  if (config == nullptr) return;
  Fields c(*config, fields.path(field));
  const Json* format = c.object("format");
  if (format == nullptr) return;
  Fields f(*format, c.path("format"));
  const auto type = f.one_of("type", types);
  if (!type) missing(f.path("type"), expected);
  out.structure.path = f.path();
  if (*type == "json_object") out.structure.form = Form::JsonObject;
  if (*type != "json_schema") return;
  const Json* schema = f.find("schema");
  if (schema == nullptr) missing(f.path("schema"), "a JSON schema");
  set_schema(*schema, f.path("schema"), out);
}

void parse_max_tokens(Fields& fields, std::initializer_list<const char*> names, Generation& out) {
  for (const char* name : names) {
    const std::optional<std::int64_t> n = fields.integer(name, 1, kMaxTokens);
    if (!out.max_tokens) out.max_tokens = n;
  }
}

void parse_stop(const Json& value, const std::string& path, const ParseContext& context, Generation& out) {
  const auto add = [&](const Json& text, const std::string& where) {
    if (!text.is(Kind::String)) wrong(where, "a string", text);
    std::string stop = text.string();
    if (stop.empty()) invalid(where, "a text", "an empty one");
    if (stop.size() > context.limits.stop_bytes)
      invalid(where, concat("at most ", context.limits.stop_bytes, " bytes"), concat(stop.size()));
    out.stop.push_back(std::move(stop));
  };
  if (!value.is(Kind::Array)) {
    add(value, path);
    return;
  }
  if (value.items.size() > context.limits.stops)
    invalid(path, concat("at most ", context.limits.stops, " strings"), concat(value.items.size()));
  for (std::size_t i = 0; i < value.items.size(); ++i) add(value.items[i], element(path, i));
}

void parse_sampling(Fields& fields, const ParseContext& context, Generation& out) {
  out.temperature = fields.number("temperature", 0, 100);
  out.top_p = fields.number("top_p", kAboveZero, 1);
  out.min_p = fields.number("min_p", 0, 1);
  out.presence_penalty = fields.number("presence_penalty", -2, 2);
  out.frequency_penalty = fields.number("frequency_penalty", -2, 2);
  out.repetition_penalty = fields.number("repetition_penalty", kAboveZero, 100);
  out.top_k = fields.integer("top_k", -1, std::int64_t{1} << 30);
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) out.seed = static_cast<std::uint64_t>(*seed);
  parse_logit_bias(fields, context, out);
}

void parse_generation(Fields& fields, const ParseContext& context, Generation& out) {
  out.model = fields.string("model").value_or("");
  parse_max_tokens(fields, {"max_completion_tokens", "max_tokens"}, out);
  out.choices = fields.integer("n", 1, context.limits.choices).value_or(1);
  if (const Json* stop = fields.find("stop")) parse_stop(*stop, fields.path("stop"), context, out);
  const auto ids = [&](const char* name, std::size_t most) {
    const Json* array = fields.array(name);
    return array == nullptr ? std::vector<TokenId>()
                            : integers_of(*array, fields.path(name), 0, context.limits.vocabulary - 1, most);
  };
  out.stop_ids = ids("stop_token_ids", 128);
  out.allowed_ids = ids("allowed_token_ids", static_cast<std::size_t>(context.limits.vocabulary));
  out.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  out.keep_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  out.skip_special = fields.boolean("skip_special_tokens").value_or(true);
  out.min_tokens = fields.integer("min_tokens", 0, kMaxTokens).value_or(0);
  if (out.max_tokens && out.min_tokens > *out.max_tokens)
    invalid(fields.path("min_tokens"), concat("at most max_tokens, which is ", *out.max_tokens),
            concat(out.min_tokens));
  parse_sampling(fields, context, out);
  parse_structure(fields, out);
  out.thinking_budget = fields.integer("thinking_token_budget", 0, kMaxTokens).value_or(-1);
  if (const auto salt = fields.string("cache_salt", 128)) {
    if (salt->empty() || salt->find_first_of(std::string("@/\\\0", 4)) != salt->npos)
      invalid(fields.path("cache_salt"), "1 to 128 bytes without @, /, \\ and NUL", "others");
    out.cache_salt = *salt;
  }
  out.priority = fields.integer("priority", -kPriorityLimit, kPriorityLimit).value_or(0);
  parse_stream(fields, out);
  out.return_ids = fields.boolean("return_token_ids").value_or(false);
  reject_unsupported(fields);
  fields.ignore({"user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "verbosity",
                 "prediction", "best_of", "web_search_options", "logprobs", "top_logprobs"});
}

}  // namespace mortar::server
