// The text format of Prometheus, version 0.0.4.
#include "server/metrics.hpp"

#include <algorithm>
#include <charconv>

#include "tessera/base/format.hpp"

namespace mortar::server {
namespace {

using tessera::concat;

// The gap between tokens of a fast GPU is some milliseconds, which the usual bounds do not resolve.
constexpr double kGaps[] = {0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.012, 0.015, 0.02,
                            0.03,  0.05,  0.075, 0.1,   0.2,   0.5,   1,     2,    5,     10};
constexpr double kSeconds[] = {0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600};
constexpr double kTokens[] = {1, 16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144};

std::string number(double value) {
  char text[40];
  const auto r = std::to_chars(text, text + sizeof text, value);
  return {text, r.ptr};
}

/// A label's value with its escapes.
std::string label(std::string_view name, std::string_view value) {
  std::string out = concat(name, "=\"");
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

std::string series(std::string_view name, std::string_view labels, double value) {
  return concat(name, labels.empty() ? "" : "{", labels, labels.empty() ? " " : "} ", number(value), "\n");
}

/// Writes one family after the other; a family without a name in the chosen set is left out.
class FamilyWriter {
 public:
  FamilyWriter(MetricNames names, std::string labels) : names_(names), labels_(std::move(labels)) {}
  std::string name(const char* own, const char* vllm) const {
    if (names_ == MetricNames::Mortar) return concat("mortar_", own);
    return vllm == nullptr ? concat("mortar_", own) : concat("vllm:", vllm);
  }
  void one(const char* own, const char* vllm, const char* type, const char* help, double value) {
    head(out, name(own, vllm), type, help);
    out += series(name(own, vllm), labels_, value);
  }
  void by(const char* own, const char* vllm, const char* key, const char* help, const std::map<std::string, std::uint64_t, std::less<>>& counts) {
    if (counts.empty()) return;
    head(out, name(own, vllm), "counter", help);
    for (const auto& [value, count] : counts)
      out += series(name(own, vllm), concat(labels_, labels_.empty() ? "" : ",", label(key, value)), static_cast<double>(count));
  }
  void histogram(const char* own, const char* vllm, const char* help, const Histogram& h) { h.write(out, name(own, vllm), help, labels_); }
  std::string out;

 private:
  MetricNames names_;
  std::string labels_;
};

void engine_families(FamilyWriter& w, const EngineStats& s) {
  const auto n = [](std::int64_t v) { return static_cast<double>(v); };
  w.one("requests_running", "num_requests_running", "gauge", "Sequences that are being computed.", n(s.running));
  w.one("requests_waiting", "num_requests_waiting", "gauge", "Sequences that wait.", n(s.waiting));
  w.one("waiting_prompt_tokens", nullptr, "gauge", "Tokens of prompts that wait.", n(s.waiting_tokens));
  w.one("kv_cache_usage_ratio", "kv_cache_usage_perc", "gauge", "Share of the KV cache that sequences hold, 0 to 1.",
        s.total_pages > 0 ? n(s.held_pages) / n(s.total_pages) : 0);
  w.one("kv_cache_pages", nullptr, "gauge", "Pages of the KV cache.", n(s.total_pages));
  w.one("kv_cache_cached_pages", nullptr, "gauge", "Pages that no sequence holds and the prefix cache can find.", n(s.cached_pages));
  w.one("preemptions_total", "num_preemptions_total", "counter", "Sequences that gave way to others.", n(s.preemptions));
  w.one("steps_total", nullptr, "counter", "Steps of the engine.", n(s.steps));
  w.one("mixed_steps_total", nullptr, "counter", "Steps with tokens of prompts and of answers.", n(s.mixed_steps));
  w.one("masked_rows_total", nullptr, "counter", "Rows whose next token a grammar restricted.", n(s.masked_rows));
  w.one("prefix_cache_queried_tokens_total", "prefix_cache_queries_total", "counter", "Tokens of prompts that were looked up.",
        n(s.prompt_tokens + s.cached_tokens));
  w.one("prefix_cache_found_tokens_total", "prefix_cache_hits_total", "counter", "Tokens of prompts that were found.", n(s.cached_tokens));
}

void http_families(FamilyWriter& w, const HttpStats& s) {
  const auto n = [](std::uint64_t v) { return static_cast<double>(v); };
  w.one("http_connections", nullptr, "gauge", "Open connections.", n(s.connections));
  w.one("http_requests_total", nullptr, "counter", "Requests of all routes.", n(s.requests));
  w.one("http_received_bytes_total", nullptr, "counter", "Bytes from clients.", n(s.bytes_in));
  w.one("http_sent_bytes_total", nullptr, "counter", "Bytes to clients.", n(s.bytes_out));
  w.one("http_clients_gone_total", nullptr, "counter", "Clients that left before the end of an answer.", n(s.gone));
  w.one("http_slow_readers_total", nullptr, "counter", "Clients that were disconnected because they did not read.", n(s.slow_readers));
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

void Histogram::add(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(at)];
  sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name, std::string_view help, std::string_view labels) const {
  head(out, name, "histogram", help);
  std::uint64_t total = 0;
  const std::string comma = labels.empty() ? "" : ",";
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
    out += concat(name, "_bucket{", labels, comma, "le=\"", bound, "\"} ", total, "\n");
  }
  out += series(concat(name, "_sum"), labels, sum_);
  out += series(concat(name, "_count"), labels, static_cast<double>(total));
}

Metrics::Metrics()
    : first_token_(kSeconds), gaps_(kGaps), requests_(kSeconds), queue_(kSeconds), prefill_(kSeconds), decode_(kSeconds), prompts_(kTokens),
      answers_(kTokens) {}

void Metrics::accepted(std::int64_t prompt_tokens) {
  const std::lock_guard lock(mutex_);
  ++accepted_;
  prompt_tokens_ += static_cast<std::uint64_t>(prompt_tokens);
  prompts_.add(static_cast<double>(prompt_tokens));
}

void Metrics::refused(std::string_view code) {
  const std::lock_guard lock(mutex_);
  ++refused_[std::string(code)];
}

void Metrics::ended(std::string_view result, double seconds) {
  const std::lock_guard lock(mutex_);
  ++ended_[std::string(result)];
  requests_.add(seconds);
}

void Metrics::choice_ended(std::string_view reason, std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  ++reasons_[std::string(reason)];
  tokens_ += static_cast<std::uint64_t>(tokens);
  answers_.add(static_cast<double>(tokens));
}

void Metrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}

void Metrics::gap(double seconds) {
  const std::lock_guard lock(mutex_);
  gaps_.add(seconds);
}

void Metrics::prefix_hit(std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  cached_tokens_ += static_cast<std::uint64_t>(tokens);
}

void Metrics::timed(const SequenceTimings& t) {
  const auto seconds = [](auto begin, auto end) {
    return begin.time_since_epoch().count() == 0 || end < begin ? 0.0 : std::chrono::duration<double>(end - begin).count();
  };
  const std::lock_guard lock(mutex_);
  queue_.add(seconds(t.submitted, t.admitted));
  prefill_.add(seconds(t.admitted, t.first_token));
  decode_.add(seconds(t.first_token, t.last_token));
}

void Metrics::unknown_field(const std::string& name) {
  const std::lock_guard lock(mutex_);
  // Names come from clients: their number is bounded, so that the series are.
  ++unknown_[unknown_.size() < 64 && name.size() <= 64 ? name : "other"];
}

Metrics::Totals Metrics::totals() const {
  const std::lock_guard lock(mutex_);
  Totals t;
  for (const auto& [code, count] : refused_) t.refused += count;
  t.received = accepted_ + t.refused;
  const auto ended = [&](const char* result) {
    const auto at = ended_.find(result);
    return at == ended_.end() ? 0 : at->second;
  };
  t.finished = ended("finished"), t.cancelled = ended("cancelled"), t.failed = ended("failed");
  return t;
}

std::string Metrics::text(const EngineStats* engine, const HttpStats& http, const std::string& model, MetricNames names) const {
  FamilyWriter w(names, label("model_name", model));
  if (engine != nullptr) engine_families(w, *engine);
  http_families(w, http);
  const std::lock_guard lock(mutex_);
  w.one("requests_total", nullptr, "counter", "Requests that the engine has taken.", static_cast<double>(accepted_));
  w.by("requests_refused_total", "admission_rejections_total", "reason", "Requests that were refused, by the code of the error.", refused_);
  w.by("requests_ended_total", nullptr, "result", "Requests by how they ended.", ended_);
  w.by("answers_total", "request_success_total", "finished_reason", "Answers by why they ended.", reasons_);
  w.one("prompt_tokens_total", "prompt_tokens_total", "counter", "Tokens of prompts.", static_cast<double>(prompt_tokens_));
  w.one("cached_prompt_tokens_total", "prompt_tokens_cached_total", "counter", "Tokens of prompts that the prefix cache had.",
        static_cast<double>(cached_tokens_));
  w.one("generated_tokens_total", "generation_tokens_total", "counter", "Tokens of answers that have ended.", static_cast<double>(tokens_));
  w.by("unknown_fields_total", nullptr, "field", "Fields of requests that were ignored.", unknown_);
  w.histogram("time_to_first_token_seconds", "time_to_first_token_seconds", "From the request to its first token.", first_token_);
  w.histogram("inter_token_seconds", "inter_token_latency_seconds", "Between tokens of an answer.", gaps_);
  w.histogram("request_seconds", "e2e_request_latency_seconds", "From the request to the end of the answer.", requests_);
  w.histogram("queue_seconds", "request_queue_time_seconds", "From the request until its computation begins.", queue_);
  w.histogram("prefill_seconds", "request_prefill_time_seconds", "From there to the first token.", prefill_);
  w.histogram("decode_seconds", "request_decode_time_seconds", "From the first token to the last.", decode_);
  w.histogram("prompt_length_tokens", "request_prompt_tokens", "Tokens of a request's prompts.", prompts_);
  w.histogram("answer_length_tokens", "request_generation_tokens", "Tokens of an answer.", answers_);
  return std::move(w.out);
}

}  // namespace mortar::server
