// Counters, gauges and histograms, written in Prometheus' text format (version 0.0.4).
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mortar {

class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {
 public:
  void set(double value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(double n) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  double value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  /// `bounds`: inclusive upper bounds of the buckets, rising; one more bucket takes what is larger.
  explicit Histogram(std::span<const double> bounds);
  void observe(double value) noexcept;
  const std::vector<double>& bounds() const { return bounds_; }
  /// One more than there are bounds.
  std::vector<std::uint64_t> counts() const;
  double sum() const noexcept { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

/// Seconds between tokens and to the first one: fine where a GPU is, up to ten seconds.
inline constexpr double kLatencyBuckets[] = {0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.012, 0.015, 0.02,
                                             0.03,  0.05,  0.075, 0.1,   0.2,   0.5,   1,     2,    5,     10};

/// All metrics of a server. Members may be called from any thread; references stay valid as long as it does. A name and
/// labels that were used before give the metric that there is. Throws RequestError for names that Prometheus does not
/// allow, and for a name that was used with another type.
class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help, std::span<const double> bounds,
                       const Labels& labels = {});
  /// Values that are read when the text is written. `value` must not use this object.
  void read_counter(const std::string& name, const std::string& help, std::function<double()> value,
                    const Labels& labels = {});
  void read_gauge(const std::string& name, const std::string& help, std::function<double()> value,
                  const Labels& labels = {});
  /// For the content type "text/plain; version=0.0.4".
  std::string text() const;

 private:
  struct Series {
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
    std::function<double()> read;
  };
  struct Family {
    std::string type, help;
    std::map<std::string, Series> series;  ///< by the labels as they are written, without braces
  };
  Series& find(const std::string& name, const char* type, const std::string& help, const Labels& labels);
  static void append_histogram(std::string& out, const std::string& name, const std::string& labels,
                               const Histogram& histogram);

  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
};

}  // namespace mortar
