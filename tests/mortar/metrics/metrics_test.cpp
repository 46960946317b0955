// Prometheus' text format, and counting from several threads.
#include "metrics/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace mortar {
namespace THIS_FILE {

TEST(Metrics, Text) {
  Metrics m;
  m.counter("requests_total", "Requests\nby \\reason", {{"reason", "a\"b\\c\nd"}}).add(3);
  m.counter("requests_total", "Requests\nby \\reason", {{"reason", "done"}, {"key", "x"}}).add();
  m.gauge("temperature", "").set(0.1);
  m.read_gauge("asked", "At the time of writing.", [] { return 2.5; });
  m.read_counter("asked_total", "", [] { return 1e15; });
  const double bounds[] = {0.5, 1};
  Histogram& h = m.histogram("seconds", "Time.", bounds, {{"k", "v"}});
  for (const double value : {0.1, 0.5, 0.6, 7.0}) h.observe(value);
  EXPECT_EQ(m.text(), R"(# HELP asked At the time of writing.
# TYPE asked gauge
asked 2.5
# HELP asked_total 
# TYPE asked_total counter
asked_total 1e+15
# HELP requests_total Requests\nby \\reason
# TYPE requests_total counter
requests_total{reason="a\"b\\c\nd"} 3
requests_total{reason="done",key="x"} 1
# HELP seconds Time.
# TYPE seconds histogram
seconds_bucket{k="v",le="0.5"} 2
seconds_bucket{k="v",le="1"} 3
seconds_bucket{k="v",le="+Inf"} 4
seconds_sum{k="v"} 8.2
seconds_count{k="v"} 4
# HELP temperature 
# TYPE temperature gauge
temperature 0.1
)");
}

TEST(Metrics, NumbersThatAreNone) {
  Metrics m;
  m.gauge("a", "").set(std::nan(""));
  m.gauge("b", "").set(std::numeric_limits<double>::infinity());
  m.gauge("c", "").set(-std::numeric_limits<double>::infinity());
  EXPECT_NE(m.text().find("\na NaN\n"), std::string::npos);
  EXPECT_NE(m.text().find("\nb +Inf\n"), std::string::npos);
  EXPECT_NE(m.text().find("\nc -Inf\n"), std::string::npos);
}

TEST(Metrics, OneObjectPerNameAndLabels) {
  Metrics m;
  EXPECT_EQ(&m.counter("a:b_total", "", {{"x", "1"}}), &m.counter("a:b_total", "", {{"x", "1"}}));
  EXPECT_NE(&m.counter("a:b_total", "", {{"x", "1"}}), &m.counter("a:b_total", "", {{"x", "2"}}));
  EXPECT_ANY_THROW(m.gauge("a:b_total", ""));
  for (const char* name : {"", "1a", "a-b", "a b"}) EXPECT_ANY_THROW(m.counter(name, "")) << name;
  EXPECT_ANY_THROW(m.counter("a", "", {{"b:c", ""}}));
  const double falling[] = {1, 1};
  EXPECT_ANY_THROW(m.histogram("h", "", falling));
}

TEST(Metrics, CountsOfSeveralThreads) {
  Metrics m;
  constexpr int kThreads = 4, kRounds = 20'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      Counter& counter = m.counter("n_total", "");
      Gauge& gauge = m.gauge("g", "");
      Histogram& histogram = m.histogram("h", "", kLatencyBuckets);
      for (int i = 0; i < kRounds; ++i) {
        counter.add();
        gauge.add(1);
        histogram.observe(i % 2 ? 0.004 : 20.0);
      }
    });
  while (m.counter("n_total", "").value() < kRounds) (void)m.text();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(m.counter("n_total", "").value(), static_cast<std::uint64_t>(kThreads * kRounds));
  EXPECT_EQ(m.gauge("g", "").value(), kThreads * kRounds);
  const auto counts = m.histogram("h", "", kLatencyBuckets).counts();
  EXPECT_EQ(counts[3], static_cast<std::uint64_t>(kThreads * kRounds / 2)) << "a bound belongs to its bucket";
  EXPECT_EQ(counts.back(), static_cast<std::uint64_t>(kThreads * kRounds / 2));
}

}  // namespace THIS_FILE
}  // namespace mortar
