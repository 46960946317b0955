// What this server counts, as a registry of metrics (src/metrics) with names of our own or of vLLM.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "http/http.hpp"
#include "metrics/metrics.hpp"
#include "mortar/engine.hpp"

namespace mortar::server {

/// Routers and dashboards read those of vLLM; what it does not have keeps our names.
enum class MetricNames : std::uint8_t { Mortar, Vllm };

/// Safe to use from several threads.
class ServerMetrics {
 public:
  ServerMetrics(std::string model, MetricNames names);
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  void accepted(std::int64_t prompt_tokens);
  void rejected(const std::string& code);
  void ended(const std::string& result, double seconds);  ///< "finished", "cancelled", "failed"
  void choice_ended(const std::string& reason, std::int64_t tokens);
  void first_token(double seconds) { first_token_.observe(seconds); }
  void gap(double seconds) { gaps_.observe(seconds); }
  void prefix_hit(std::int64_t tokens) { cached_tokens_.add(static_cast<std::uint64_t>(tokens)); }
  void timed(const SequenceTimings& timings);
  void unknown_field(const std::string& name);

  /// For the content type "text/plain; version=0.0.4". What the engine counts is 0 while there is none.
  std::string text(const EngineStats* engine, const HttpStats& http);

  struct Totals {
    std::uint64_t received = 0, rejected = 0, finished = 0, cancelled = 0, failed = 0, tokens = 0;
  };
  /// received = rejected + finished + cancelled + failed + those that are being answered.
  Totals totals() const;

 private:
  std::string name(const char* own, const char* vllm) const;
  Counter& counter(const char* own, const char* vllm, const char* help);
  Counter& counter_by(const char* own, const char* vllm, const char* help, const char* label, const std::string& value);
  Histogram& histogram(const char* own, const char* vllm, const char* help, std::span<const double> bounds);
  void read_engine();
  void read_http();

  std::string model_;
  MetricNames names_;
  Metrics registry_;
  Counter &accepted_, &prompt_tokens_, &cached_tokens_, &tokens_;
  Histogram &first_token_, &gaps_, &requests_, &queue_, &prefill_, &decode_, &prompts_, &answers_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, std::uint64_t> ended_;
  std::uint64_t rejected_ = 0;
  std::map<std::string, bool> unknown_;
  std::mutex text_mutex_;  // the numbers that text() shows
  EngineStats engine_;
  HttpStats http_;
};

}  // namespace mortar::server
