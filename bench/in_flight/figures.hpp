// Figures of work in flight, each compared with its peer and with what is required of it. A figure is a line of JSON,
// which table.py turns into the section of bench/RESULTS.md.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tessera.hpp"

namespace in_flight {

using namespace tessera;

struct Options {
  Device device = Device::cpu();
  bool tiny = false;     ///< sizes and counts that show that the program works; its figures mean nothing
  bool executes = true;  ///< false with a driver that runs nothing: results are not compared
  std::string svg;       ///< where the timeline goes; empty: nowhere
  bool has_driver() const { return device.kind() == DeviceKind::Cuda; }
  /// `n`, or a smaller count with --tiny.
  int count(int n, int tiny_n) const { return tiny ? tiny_n : n; }
};

/// What is asked of a figure.
struct Asked {
  enum class Kind : std::uint8_t { Nothing, Above, Times, Most, Least, Faster } kind = Kind::Nothing;
  double limit = 0;
};
/// At most `limit` more than the peer; at most `limit` times the peer; at most `limit`; at least `limit`; at least
/// `limit` times the peer.
inline Asked above(double limit) { return {Asked::Kind::Above, limit}; }
inline Asked times(double limit) { return {Asked::Kind::Times, limit}; }
inline Asked most(double limit) { return {Asked::Kind::Most, limit}; }
inline Asked least(double limit) { return {Asked::Kind::Least, limit}; }
inline Asked faster(double limit) { return {Asked::Kind::Faster, limit}; }

struct Figure {
  std::string name, unit;
  double value = 0;
  std::string peer;  ///< empty: none
  double peer_value = 0;
  Asked asked = {};
  std::optional<double> allocations = {};  ///< of host memory by each call; none are accepted where this is given
};
void print(const Figure& figure);
/// True if what is asked of the figure holds; empty where nothing is.
std::optional<bool> met(const Figure& figure);

double median(std::vector<double> values);
/// Allocations of the program so far (count_allocations.hpp).
long allocations_so_far();

template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Time and allocations of one way to do something, in rounds that alternate with the other ways.
class Timing {
 public:
  /// Calls `work` `count` times, and `wait`, which is timed too if `waited`.
  template <class Work, class Wait>
  void round(int count, bool waited, Work&& work, Wait&& wait) {
    const long before = allocations_so_far();
    double seconds = seconds_of([&] {
      for (int i = 0; i < count; ++i) work();
      if (waited) wait();
    });
    allocated_ += static_cast<double>(allocations_so_far() - before);
    calls_ += count;
    if (!waited) wait();
    rounds_.push_back(seconds / count);
  }
  /// Seconds of a call, the median of the rounds.
  double seconds() const { return median(rounds_); }
  double allocations() const { return allocated_ / std::max(1, calls_); }

 private:
  std::vector<double> rounds_;
  double allocated_ = 0;
  int calls_ = 0;
};

// -- the groups, each in a file of its own --
void measure_launches(const Options&);
void measure_dependent(const Options&);
void measure_awaits(const Options&);
void measure_queue(const Options&);
void measure_batches(const Options&);
void measure_timeline(const Options&);

}  // namespace in_flight
