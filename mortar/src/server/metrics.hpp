// Numbers for Prometheus: counters and histograms of this server, gauges of its engine.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/http.hpp"
#include "mortar/engine.hpp"

namespace mortar::server {

/// Counts of values up to some bounds, as Prometheus has them.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);
  void add(double value);
  /// The lines of the series `name`, with these labels ("" or "a="b"").
  void write(std::string& out, std::string_view name, std::string_view help, std::string_view labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // one more than bounds
  double sum_ = 0;
};

/// Names of the series: our own, or those of vLLM, which routers and dashboards read.
enum class MetricNames : std::uint8_t { Mortar, Vllm };

/// Safe to use from several threads.
class Metrics {
 public:
  Metrics();
  void accepted(std::int64_t prompt_tokens);
  void refused(std::string_view code);
  void ended(std::string_view result, double seconds);  ///< "finished", "cancelled", "failed"
  void choice_ended(std::string_view reason, std::int64_t tokens);
  void first_token(double seconds);
  void gap(double seconds);
  void prefix_hit(std::int64_t tokens);
  void timed(const SequenceTimings& timings);
  void unknown_field(const std::string& name);

  /// `engine`: null while the model is loaded.
  std::string text(const EngineStats* engine, const HttpStats& http, const std::string& model, MetricNames names) const;

  struct Totals {
    std::uint64_t received = 0, refused = 0, finished = 0, cancelled = 0, failed = 0;
  };
  /// received = refused + finished + cancelled + failed + those that are being answered.
  Totals totals() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> refused_, ended_, reasons_, unknown_;
  std::uint64_t accepted_ = 0, prompt_tokens_ = 0, cached_tokens_ = 0, tokens_ = 0;
  Histogram first_token_, gaps_, requests_, queue_, prefill_, decode_, prompts_, answers_;
};

}  // namespace mortar::server
