// The series of a server: names, help texts, bounds of buckets.
#include "server/metrics.hpp"

#include <chrono>

namespace mortar::server {
namespace {

constexpr double kSeconds[] = {0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600};
constexpr double kTokens[] = {1, 16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144};
constexpr std::size_t kUnknownNames = 64;  // names come from clients: the series must not grow without bound

}  // namespace

ServerMetrics::ServerMetrics(std::string model, MetricNames names)
    : model_(std::move(model)),
      names_(names),
      accepted_(counter("requests_total", nullptr, "Requests that the engine has taken.")),
      prompt_tokens_(counter("prompt_tokens_total", "prompt_tokens_total", "Tokens of prompts.")),
      cached_tokens_(counter("cached_prompt_tokens_total", "prompt_tokens_cached_total",
                             "Tokens of prompts that the prefix cache had.")),
      tokens_(counter("generated_tokens_total", "generation_tokens_total", "Tokens of answers that have ended.")),
      first_token_(histogram("time_to_first_token_seconds", "time_to_first_token_seconds",
                             "From the request to its first token.", kLatencyBuckets)),
      gaps_(histogram("inter_token_seconds", "inter_token_latency_seconds", "Between tokens of an answer.",
                      kLatencyBuckets)),
      requests_(histogram("request_seconds", "e2e_request_latency_seconds",
                          "From the request to the end of the answer.", kSeconds)),
      queue_(histogram("queue_seconds", "request_queue_time_seconds", "From the request until its computation begins.",
                       kSeconds)),
      prefill_(
          histogram("prefill_seconds", "request_prefill_time_seconds", "From there to the first token.", kSeconds)),
      decode_(
          histogram("decode_seconds", "request_decode_time_seconds", "From the first token to the last.", kSeconds)),
      prompts_(histogram("prompt_length_tokens", "request_prompt_tokens", "Tokens of a request's prompts.", kTokens)),
      answers_(histogram("answer_length_tokens", "request_generation_tokens", "Tokens of an answer.", kTokens)) {
  read_engine();
  read_http();
}

std::string ServerMetrics::name(const char* own, const char* vllm) const {
  return names_ == MetricNames::Vllm && vllm != nullptr ? std::string("vllm:") + vllm : std::string("mortar_") + own;
}

Counter& ServerMetrics::counter(const char* own, const char* vllm, const char* help) {
  return registry_.counter(name(own, vllm), help, {{"model_name", model_}});
}

Counter& ServerMetrics::counter_by(const char* own, const char* vllm, const char* help, const char* label,
                                   const std::string& value) {
  return registry_.counter(name(own, vllm), help, {{"model_name", model_}, {label, value}});
}

Histogram& ServerMetrics::histogram(const char* own, const char* vllm, const char* help,
                                    std::span<const double> bounds) {
  return registry_.histogram(name(own, vllm), help, bounds, {{"model_name", model_}});
}

void ServerMetrics::read_engine() {
  const auto number = [this](std::int64_t EngineStats::*field) {
    return [this, field] { return static_cast<double>(engine_.*field); };
  };
  const Metrics::Labels labels = {{"model_name", model_}};
  const auto gauge = [&](const char* own, const char* vllm, const char* help, std::function<double()> read) {
    registry_.read_gauge(name(own, vllm), help, std::move(read), labels);
  };
  const auto counter = [&](const char* own, const char* vllm, const char* help, std::function<double()> read) {
    registry_.read_counter(name(own, vllm), help, std::move(read), labels);
  };
  gauge("requests_running", "num_requests_running", "Sequences that are being computed.",
        number(&EngineStats::running));
  gauge("requests_waiting", "num_requests_waiting", "Sequences that wait.", number(&EngineStats::waiting));
  gauge("waiting_prompt_tokens", nullptr, "Tokens of prompts that wait.", number(&EngineStats::waiting_tokens));
  gauge("kv_cache_usage_ratio", "kv_cache_usage_perc", "Share of the KV cache that sequences hold, 0 to 1.", [this] {
    return engine_.total_pages > 0 ? static_cast<double>(engine_.held_pages) / static_cast<double>(engine_.total_pages)
                                   : 0.0;
  });
  gauge("kv_cache_pages", nullptr, "Pages of the KV cache.", number(&EngineStats::total_pages));
  gauge("kv_cache_cached_pages", nullptr, "Pages that no sequence holds and the prefix cache can find.",
        number(&EngineStats::cached_pages));
  counter("preemptions_total", "num_preemptions_total", "Sequences that gave way to others.",
          number(&EngineStats::preemptions));
  counter("steps_total", nullptr, "Steps of the engine.", number(&EngineStats::steps));
  counter("mixed_steps_total", nullptr, "Steps with tokens of prompts and of answers.",
          number(&EngineStats::mixed_steps));
  counter("masked_rows_total", nullptr, "Rows whose next token a grammar restricted.",
          number(&EngineStats::masked_rows));
  counter("prefix_cache_queried_tokens_total", "prefix_cache_queries_total", "Tokens of prompts that were looked up.",
          [this] { return static_cast<double>(engine_.prompt_tokens + engine_.cached_tokens); });
  counter("prefix_cache_found_tokens_total", "prefix_cache_hits_total", "Tokens of prompts that were found.",
          number(&EngineStats::cached_tokens));
}

void ServerMetrics::read_http() {
  const auto number = [this](std::uint64_t HttpStats::*field) {
    return [this, field] { return static_cast<double>(http_.*field); };
  };
  registry_.read_gauge("mortar_http_connections", "Open connections.", number(&HttpStats::connections));
  registry_.read_counter("mortar_http_requests_total", "Requests of all routes.", number(&HttpStats::requests));
  registry_.read_counter("mortar_http_received_bytes_total", "Bytes from clients.", number(&HttpStats::bytes_in));
  registry_.read_counter("mortar_http_sent_bytes_total", "Bytes to clients.", number(&HttpStats::bytes_out));
  registry_.read_counter("mortar_http_clients_gone_total", "Clients that left before the end of an answer.",
                         number(&HttpStats::gone));
  registry_.read_counter("mortar_http_slow_readers_total", "Clients that were disconnected because they did not read.",
                         number(&HttpStats::slow_readers));
}

void ServerMetrics::accepted(std::int64_t prompt_tokens) {
  accepted_.add();
  prompt_tokens_.add(static_cast<std::uint64_t>(prompt_tokens));
  prompts_.observe(static_cast<double>(prompt_tokens));
}

void ServerMetrics::rejected(const std::string& code) {
  counter_by("requests_refused_total", "admission_rejections_total",
             "Requests that were rejected, by the code of the error.", "reason", code)
      .add();
  const std::lock_guard lock(mutex_);
  ++rejected_;
}

void ServerMetrics::ended(const std::string& result, double seconds) {
  counter_by("requests_ended_total", nullptr, "Requests by how they ended.", "result", result).add();
  requests_.observe(seconds);
  const std::lock_guard lock(mutex_);
  ++ended_[result];
}

void ServerMetrics::choice_ended(const std::string& reason, std::int64_t tokens) {
  counter_by("answers_total", "request_success_total", "Answers by why they ended.", "finished_reason", reason).add();
  tokens_.add(static_cast<std::uint64_t>(tokens));
  answers_.observe(static_cast<double>(tokens));
}

void ServerMetrics::timed(const SequenceTimings& t) {
  const auto seconds = [](auto begin, auto end) {
    return begin.time_since_epoch().count() == 0 || end < begin ? 0.0
                                                                : std::chrono::duration<double>(end - begin).count();
  };
  queue_.observe(seconds(t.submitted, t.admitted));
  prefill_.observe(seconds(t.admitted, t.first_token));
  decode_.observe(seconds(t.first_token, t.last_token));
}

void ServerMetrics::unknown_field(const std::string& field) {
  bool shown = false;
  {
    const std::lock_guard lock(mutex_);
    shown = field.size() <= 64 && (unknown_.contains(field) || unknown_.size() < kUnknownNames);
    if (shown) unknown_[field] = true;
  }
  counter_by("unknown_fields_total", nullptr, "Fields of requests that were ignored.", "field", shown ? field : "other")
      .add();
}

ServerMetrics::Totals ServerMetrics::totals() const {
  const std::lock_guard lock(mutex_);
  const auto ended = [&](const char* result) {
    const auto at = ended_.find(result);
    return at == ended_.end() ? 0 : at->second;
  };
  Totals t;
  t.rejected = rejected_;
  t.received = accepted_.value() + rejected_;
  t.finished = ended("finished"), t.cancelled = ended("cancelled"), t.failed = ended("failed");
  t.tokens = tokens_.value();
  return t;
}

std::string ServerMetrics::text(const EngineStats* engine, const HttpStats& http) {
  const std::lock_guard lock(text_mutex_);
  engine_ = engine != nullptr ? *engine : EngineStats{};
  http_ = http;
  return registry_.text();
}

}  // namespace mortar::server
