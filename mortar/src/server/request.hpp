// Requests with their types, as they are after validation.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answer/call_parser.hpp"
#include "mortar/sampling.hpp"
#include "mortar/tokenizer.hpp"

namespace mortar::server {

/// What the fields are checked against.
struct RequestLimits {
  std::int64_t vocabulary = 0;   ///< ids of the tokenizer
  std::int64_t max_context = 0;  ///< tokens
  std::int64_t choices = 1;      ///< n
  std::size_t stops = 4;
  std::size_t stop_bytes = 256;
  std::size_t prompts = 1024;  ///< of one completion request
  std::size_t answers = 1024;  ///< of one request: prompts times choices
};

enum class Form : std::uint8_t { Text, JsonObject, JsonSchema, Regex, Choice };
/// What the content of the answer must be.
struct Structure {
  Form form = Form::Text;
  std::string text;  ///< the schema, or the expression
  std::vector<std::string> choices;
  std::string path;  ///< of the field, for errors
};

/// What all routes that generate have in common. What is not set is the model's default.
struct Generation {
  std::string model;
  std::optional<std::int64_t> max_tokens;
  std::int64_t default_tokens = INT64_MAX;  ///< without max_tokens; also at most what the context leaves
  std::int64_t choices = 1;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_ids, allowed_ids;
  bool ignore_eos = false, keep_stop = false, skip_special = true;
  std::int64_t min_tokens = 0;
  std::optional<double> temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::int64_t logprobs = -1;  ///< alternatives to list with each token; -1: none
  Structure structure;
  std::int64_t thinking_budget = -1;
  std::string cache_salt;
  std::int64_t priority = 0;
  bool clamps = false;  ///< max_tokens is at most what the context leaves, instead of an error
  bool stream = false, include_usage = false, continuous_usage = false, return_ids = false;
  std::vector<std::string> unknown;  ///< names of fields that nothing is known of
};

enum class ToolChoice : std::uint8_t { None, Auto, Required, Named };

struct ChatRequest {
  Generation generation;
  std::string messages;  ///< JSON for the template
  std::string tools;     ///< JSON array in OpenAI's form; empty: none
  std::vector<answer::ToolTypes> tool_types;
  ToolChoice tool_choice = ToolChoice::None;
  std::string named;  ///< of ToolChoice::Named
  bool parallel = true;
  std::optional<bool> thinking;
  std::string template_variables;  ///< JSON object; empty: none
  bool generation_prompt = true;   ///< false: the last message is continued
  std::string continued;           ///< the text of that message
  bool shows_thinking = true;
  std::string tools_as_given;  ///< of /v1/responses, which repeats them
};

struct CompletionRequest {
  Generation generation;
  std::vector<std::vector<TokenId>> ids;  ///< either these
  std::vector<std::string> prompts;       ///< or texts
  std::size_t count() const { return ids.empty() ? prompts.size() : ids.size(); }
};

}  // namespace mortar::server
