// Runs the same work on the CPU and on the GPU. Outputs are part of a larger allocation, filled with a finite pattern
// that differs between the devices: elements that are not written differ, and writes outside are detected.
#pragma once
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "tessera/tessera.hpp"

namespace gpu_test {

/// The layout of inputs and outputs in memory.
enum class Placement {
  Aligned,    ///< contiguous, the base a multiple of 16 elements: guards along the first axis only
  Padded,     ///< rows apart by a multiple of 16 elements, the base as well
  OddStride,  ///< the base aligned, rows apart by three elements more than they have
  Shifted,    ///< one element off along every axis: nothing is aligned
};
inline constexpr Placement kPlacements[] = {Placement::Aligned, Placement::Padded, Placement::OddStride,
                                            Placement::Shifted};

template <class T>
T poison_value(unsigned char byte) {
  if constexpr (std::is_same_v<T, bool>) {
    return (byte & 1) != 0;
  } else {
    T value;
    std::memset(static_cast<void*>(&value), byte, sizeof value);
    if constexpr (std::is_same_v<T, tessera::tf32>) value = tessera::tf32(value.value);
    return value;
  }
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// A tensor inside guard zones.
template <class T, int R>
class Guarded {
 public:
  using Sizes = std::array<std::int64_t, static_cast<std::size_t>(R)>;

  Guarded(tessera::Device device, const Sizes& dims, Placement placement, unsigned char poison)
      : dims_(dims), poison_(poison_value<T>(poison)) {
    std::int64_t count = 1;
    for (std::size_t a = 0; a < R; ++a) {
      const bool first = a == 0, last = a == R - 1;
      if (placement == Placement::Shifted) {
        before_[a] = 1, after_[a] = 2;
      } else if (first || (last && placement == Placement::Padded)) {
        before_[a] = 16, after_[a] = 16;
      } else if (last && placement == Placement::OddStride) {
        after_[a] = 3;
      }
      outer_[a] = before_[a] + dims[a] + after_[a];
      count *= outer_[a];
    }
    const std::vector<T> fill(static_cast<std::size_t>(count), poison_);
    make(device, fill);
  }
  /// Puts values (row-major) into the middle.
  void set(const std::vector<T>& values, tessera::Device device) {
    std::vector<T> all(static_cast<std::size_t>(size_of_outer()), poison_);
    std::size_t next = 0;
    walk([&](std::size_t at, bool inside) {
      if (inside) all[at] = values[next++];
    });
    make(device, all);
  }
  tessera::Lend<T, R> lend() { return cut(tessera::mut(storage_), std::make_integer_sequence<int, R>{}); }
  tessera::View<T, R> view() const { return cut(storage_.view(), std::make_integer_sequence<int, R>{}); }
  /// The elements inside, row-major. Throws std::runtime_error if an element outside has changed.
  std::vector<T> take(const char* what = "output") const {
    const std::vector<T> all = tessera::host(storage_).sync();
    std::vector<T> inner;
    walk([&](std::size_t at, bool inside) {
      const T value = all[at];
      if (inside)
        inner.push_back(value);
      else if (!same_bits<T>(value, poison_))
        throw std::runtime_error(std::string(what) + ": element " + std::to_string(at) +
                                 " of the allocation is outside the tensor and was overwritten");
    });
    return inner;
  }

 private:
  void make(tessera::Device device, const std::vector<T>& values) {
    const tessera::Stream stream = tessera::Stream::default_of(device);
    storage_ = [&]<std::size_t... A>(std::index_sequence<A...>) {
      return tessera::from(values, {outer_[A]...}).on(stream);
    }(std::make_index_sequence<static_cast<std::size_t>(R)>{});
  }
  std::int64_t size_of_outer() const {
    std::int64_t n = 1;
    for (const std::int64_t d : outer_) n *= d;
    return n;
  }
  template <class X, int... A>
  auto cut(X&& x, std::integer_sequence<int, A...>) const {
    if constexpr (sizeof...(A) == 0) {
      return std::forward<X>(x);
    } else {
      return cut_one(std::forward<X>(x), std::integer_sequence<int, A...>{});
    }
  }
  template <class X, int First, int... Rest>
  auto cut_one(X&& x, std::integer_sequence<int, First, Rest...>) const {
    constexpr auto a = static_cast<std::size_t>(First);
    return cut(std::forward<X>(x).template slice<First>(before_[a], before_[a] + dims_[a]),
               std::integer_sequence<int, Rest...>{});
  }
  /// Visits the whole allocation in row-major order.
  template <class F>
  void walk(F f) const {
    const std::int64_t n = size_of_outer();
    for (std::int64_t at = 0; at < n; ++at) {
      std::int64_t rest = at;
      bool inside = true;
      for (std::size_t a = R; a-- > 0;) {
        const std::int64_t i = rest % outer_[a];
        rest /= outer_[a];
        inside = inside && i >= before_[a] && i < before_[a] + dims_[a];
      }
      f(static_cast<std::size_t>(at), inside);
    }
  }

  Sizes dims_, before_{}, after_{}, outer_{};
  T poison_;
  tessera::Tensor<T, R> storage_;
};

/// One of the two devices, for a test's function that runs on both.
class Side {
 public:
  Side(tessera::Device device, unsigned char poison, Placement placement)
      : device_(device), poison_(poison), placement_(placement) {}
  tessera::Device device() const { return device_; }

  template <class T, std::size_t N>
  Guarded<T, static_cast<int>(N)> output(const std::int64_t (&dims)[N]) const {
    return Guarded<T, static_cast<int>(N)>(device_, std::to_array(dims), placement_, poison_);
  }
  /// Also for what is read and written: an output that begins with values.
  template <class T, std::size_t N>
  Guarded<T, static_cast<int>(N)> input(const std::vector<T>& values, const std::int64_t (&dims)[N]) const {
    Guarded<T, static_cast<int>(N)> g(device_, std::to_array(dims), placement_, poison_);
    g.set(values, device_);
    return g;
  }

 private:
  tessera::Device device_;
  unsigned char poison_;
  Placement placement_;
};

/// The results of a function on the CPU and on the device under test.
template <class R>
struct Both {
  R cpu, gpu;
};

/// The device under test: what TESSERA_DEVICE names, else the first GPU (DeviceError if there is none).
inline tessera::Device device_under_test() {
  return std::getenv("TESSERA_DEVICE") ? tessera::runtime::device_from_environment() : tessera::Device::cuda(0);
}

/// Runs `f(side)` on both devices. The poisons are finite numbers in every type.
template <class F>
auto on_both(Placement placement, F f) {
  auto cpu = f(Side(tessera::Device::cpu(), 0x3C, placement));
  auto gpu = f(Side(device_under_test(), 0x5A, placement));
  return Both<decltype(cpu)>{std::move(cpu), std::move(gpu)};
}

// -- comparing -------------------------------------------------------------------------------------------------------

/// Describes the difference, for a message; empty if there is none.
using Difference = std::string;

template <class T>
std::string number_text(const T& v) {
  char text[64];
  if constexpr (std::is_integral_v<T>)
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(v));
  else
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(v));
  return text;
}

/// Bit for bit, where every NaN equals every other.
template <class T>
Difference exact(const std::vector<T>& wanted, const std::vector<T>& found) {
  if (wanted.size() != found.size()) return "the lengths differ";
  std::size_t different = 0, first = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const T w = wanted[i], f = found[i];
    if (same_bits<T>(w, f)) continue;
    if constexpr (!std::is_integral_v<T>) {
      const auto a = static_cast<double>(w), b = static_cast<double>(f);
      if (a != a && b != b) continue;
    }
    if (different++ == 0) first = i;
  }
  if (different == 0) return {};
  return std::to_string(different) + " of " + std::to_string(wanted.size()) + " elements differ; the first, number " +
         std::to_string(first) + ", is " + number_text(T(found[first])) + " instead of " +
         number_text(T(wanted[first]));
}

/// |found - wanted| / |wanted| over the finite elements at most `tolerance`; NaN and infinities at the same places.
template <class T>
Difference close(const std::vector<T>& wanted, const std::vector<T>& found, double tolerance) {
  if (wanted.size() != found.size()) return "the lengths differ";
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto w = static_cast<double>(T(wanted[i])), f = static_cast<double>(T(found[i]));
    if (w != w && f != f) continue;
    if (!std::isfinite(w) || !std::isfinite(f)) {
      if (w == f) continue;
      return "element " + std::to_string(i) + " is " + number_text(f) + " instead of " + number_text(w);
    }
    difference += (f - w) * (f - w);
    norm += w * w;
  }
  const double error = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  if (error <= tolerance) return {};
  char text[96];
  std::snprintf(text, sizeof text, "relative error %.3g, allowed %.3g", error, tolerance);
  return text;
}

/// Element by element: |found - wanted| <= relative * |wanted| + floor; NaN and infinities at the same places.
template <class T>
Difference close_each(const std::vector<T>& wanted, const std::vector<T>& found, double relative, double floor) {
  if (wanted.size() != found.size()) return "the lengths differ";
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto w = static_cast<double>(T(wanted[i])), f = static_cast<double>(T(found[i]));
    if ((w != w && f != f) || w == f) continue;
    if (std::isfinite(w) && std::abs(f - w) <= relative * std::abs(w) + floor) continue;
    return "element " + std::to_string(i) + " is " + number_text(f) + " instead of " + number_text(w);
  }
  return {};
}

// -- data ------------------------------------------------------------------------------------------------------------

/// A small generator (splitmix64: Steele, Lea, Flood, OOPSLA 2014), so that data is the same with every standard
/// library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x1234567) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }
  double uniform(double low, double high) { return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53); }

 private:
  std::uint64_t state_;
};

/// Random bit patterns: NaN, infinities, denormals and extremes among them.
template <class T>
std::vector<T> any_values(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = random.bits();
    if constexpr (std::is_same_v<T, bool>) {
      v[i] = (bits & 1) != 0;
    } else {
      T value;
      std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
      if constexpr (std::is_same_v<T, tessera::tf32>) value = tessera::tf32(value.value);
      v[i] = value;
    }
  }
  return v;
}
/// Numbers in [low, high] (integers: whole ones).
template <class T>
std::vector<T> values_in(std::size_t n, std::uint64_t seed, double low, double high) {
  Random random(seed);
  std::vector<T> v;
  v.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double x = random.uniform(low, high);
    if constexpr (std::is_same_v<T, bool>)
      v.push_back(x > 0);
    else if constexpr (std::is_integral_v<T>)
      v.push_back(static_cast<T>(std::llround(x)));
    else
      v.push_back(T(x));
  }
  return v;
}
/// Half ordinary numbers, half bit patterns.
template <class T>
std::vector<T> mixed_values(std::size_t n, std::uint64_t seed) {
  auto v = any_values<T>(n, seed);
  const bool is_signed = !std::is_integral_v<T> || std::is_signed_v<T>;
  const auto plain = values_in<T>(n, seed + 1, is_signed ? -9 : 0, 9);
  for (std::size_t i = 0; i < n; i += 2) v[i] = plain[i];
  return v;
}

}  // namespace gpu_test
