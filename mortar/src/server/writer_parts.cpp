// Usage, timings, tokens: parts of several forms.
#include "server/api_error.hpp"
#include "server/writers.hpp"
#include "tessera/jit/tuning.hpp"
#include "text/utf8.hpp"

namespace mortar::server {

std::string fingerprint() { return std::string("mortar-") + tessera::jit::library_version(); }

void end_stream(HttpReply& reply) {
  reply.event("[DONE]");
  reply.end_stream();
}

void fail_stream(HttpReply& reply, bool begun, const ApiError& error) {
  if (!begun) return send_error(reply, error);
  reply.event(error_json(error));
  end_stream(reply);
}

void write_usage(text::JsonWriter& json, const Usage& usage) {
  json.object();
  json.field("prompt_tokens", usage.prompt)
      .field("completion_tokens", usage.completion)
      .field("total_tokens", usage.prompt + usage.completion);
  json.key("prompt_tokens_details").object().field("cached_tokens", usage.cached).end();
  json.key("completion_tokens_details").object().field("reasoning_tokens", usage.thinking).end();
  json.end();
}

void write_timings(text::JsonWriter& json, const Speed& s) {
  const auto part = [&](const char* name, std::int64_t tokens, double seconds) {
    const std::string prefix = name;
    json.field(prefix + "_n", tokens).field(prefix + "_ms", seconds * 1e3);
    json.field(prefix + "_per_token_ms", tokens > 0 ? seconds * 1e3 / static_cast<double>(tokens) : 0.0);
    json.field(prefix + "_per_second", seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0);
  };
  json.object().field("cache_n", s.cached_tokens).field("queue_ms", s.queue * 1e3);
  part("prompt", s.prompt_tokens - s.cached_tokens, s.prompt);
  // The first token comes with the prompt, so that the speed is of those after it.
  part("predicted", s.tokens, s.answer);
  json.end();
}

void write_token(text::JsonWriter& json, const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view bytes = tokenizer.bytes(id);
  json.object().field("token", text::replace_invalid_utf8(bytes)).field("logprob", static_cast<double>(logprob));
  json.key("bytes").array();
  for (const char c : bytes) json.value(static_cast<int>(static_cast<unsigned char>(c)));
  json.end_array();
}

void write_ids(text::JsonWriter& json, const char* name, const std::vector<TokenId>& ids, std::size_t from) {
  json.key(name).array();
  for (std::size_t i = from; i < ids.size(); ++i) json.value(ids[i]);
  json.end_array();
}

}  // namespace mortar::server
