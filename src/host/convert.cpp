// Conversion in chunks through the widest type of the source's class (double, i64 or u64), which holds every element
// exactly: one loader per source type and one storer per target type and class instead of a function per pair.
#include "host/convert.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tessera/base/float_types.hpp"

namespace tessera::detail {
namespace {

constexpr std::int64_t kChunk = 256;

template <class T>
T read_stored(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void write(std::byte* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

/// The widest type of T's class.
template <class T>
using Wide =
    std::conditional_t<element_class<T> == ElementClass::Float, double,
                       std::conditional_t<element_class<T> == ElementClass::Signed, std::int64_t, std::uint64_t>>;

template <class T>
constexpr FloatFormat kFormat{};
template <>
constexpr FloatFormat kFormat<f16> = kF16;
template <>
constexpr FloatFormat kFormat<bf16> = kBF16;
template <>
constexpr FloatFormat kFormat<f8e4m3> = kF8E4M3;
template <>
constexpr FloatFormat kFormat<f8e5m2> = kF8E5M2;

template <class T>
T narrow_float(double v) {
  if constexpr (std::is_same_v<T, double>) {
    return v;
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(v);
  } else {
    const auto f = static_cast<float>(v);
    if (static_cast<double>(f) == v || f != f) return T(f);  // exact so far: the type's own rounding is the only one
    if constexpr (std::is_same_v<T, tf32>) {
      tf32 t;  // stored in the high bits of an f32
      const std::uint32_t bits = encode_float(kTF32, v) << 13;
      std::memcpy(&t, &bits, sizeof t);
      return t;
    } else {
      return T::from_bits(static_cast<decltype(T::bits)>(encode_float(kFormat<T>, v)));
    }
  }
}

template <class T>
T saturated(double v) {
  if (v != v) return T{0};
  // 2^digits is the first value that does not fit; it is exact in double where the largest value may not be.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (v >= end) return std::numeric_limits<T>::max();
  if (v <= (std::is_signed_v<T> ? -end : 0.0)) return std::numeric_limits<T>::min();
  return static_cast<T>(v);
}

template <class T, class W>
T narrow(W v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != W{0};
  } else if constexpr (element_class<T> == ElementClass::Float) {
    if constexpr (std::is_same_v<W, double>) {
      return narrow_float<T>(v);
    } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>) {
      return static_cast<T>(v);
    } else {
      return narrow_float<T>(to_double_odd(v));
    }
  } else if constexpr (std::is_same_v<W, double>) {
    return saturated<T>(v);
  } else {
    return static_cast<T>(v);
  }
}

union Chunk {
  double f[kChunk];
  std::int64_t s[kChunk];
  std::uint64_t u[kChunk];
};
template <class W>
W* lane(Chunk& c) {
  if constexpr (std::is_same_v<W, double>) {
    return c.f;
  } else if constexpr (std::is_same_v<W, std::int64_t>) {
    return c.s;
  } else {
    return c.u;
  }
}

/// `step` in bytes.
template <class T>
void load(const std::byte* p, std::int64_t step, std::int64_t n, Chunk& c) {
  using W = Wide<T>;
  using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  W* to = lane<W>(c);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto v = read_stored<Stored>(p + i * step);
    if constexpr (std::is_same_v<T, bool>) {
      to[i] = v != 0;
    } else {
      to[i] = static_cast<W>(v);
    }
  }
}
template <class T, class W>
void store(Chunk& c, std::byte* p, std::int64_t step, std::int64_t n) {
  const W* from = lane<W>(c);
  for (std::int64_t i = 0; i < n; ++i) write<T>(p + i * step, narrow<T, W>(from[i]));
}

using Load = void (*)(const std::byte*, std::int64_t, std::int64_t, Chunk&);
using Store = void (*)(Chunk&, std::byte*, std::int64_t, std::int64_t);

Load loader(ElementType t) {
  switch (t) {
#define TESSERA_ELEMENT(name, host, ir, bits, cls) \
  case ElementType::name: return load<host>;
#include "tessera/base/element_types.def"
  }
  return nullptr;
}
template <class W>
Store storer_of(ElementType t) {
  switch (t) {
#define TESSERA_ELEMENT(name, host, ir, bits, cls) \
  case ElementType::name: return store<host, W>;
#include "tessera/base/element_types.def"
  }
  return nullptr;
}
Store storer(ElementType from, ElementType to) {
  switch (info(from).cls) {
    case ElementClass::Float: return storer_of<double>(to);
    case ElementClass::Signed: return storer_of<std::int64_t>(to);
    default: return storer_of<std::uint64_t>(to);
  }
}

template <class U>
void copy_row(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) write<U>(to + i * to_step, read_stored<U>(from + i * from_step));
}

/// One row of equal element types.
void copy_elements(int size, const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step,
                   std::int64_t n) {
  if (from_step == size && to_step == size) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size));
    return;
  }
  switch (size) {
    case 1: return copy_row<std::uint8_t>(from, from_step, to, to_step, n);
    case 2: return copy_row<std::uint16_t>(from, from_step, to, to_step, n);
    case 4: return copy_row<std::uint32_t>(from, from_step, to, to_step, n);
    default: return copy_row<std::uint64_t>(from, from_step, to, to_step, n);
  }
}

struct Converter {
  const SourceArray& from;
  const TargetArray& to;
  Load load;
  Store store;
  std::int64_t from_size, to_size;

  void row(const std::byte* p, std::int64_t p_step, std::byte* q, std::int64_t q_step, std::int64_t n) const {
    if (from.element == to.element) return copy_elements(static_cast<int>(from_size), p, p_step, q, q_step, n);
    Chunk chunk;
    for (std::int64_t i = 0; i < n; i += kChunk) {
      const std::int64_t part = std::min(kChunk, n - i);
      load(p + i * p_step, p_step, part, chunk);
      store(chunk, q + i * q_step, q_step, part);
    }
  }

  /// Axes [axis, last): a loop; the last axes that are dense on both sides are one row of `inner` elements.
  void walk(std::size_t axis, std::size_t last, std::int64_t inner, const std::byte* p, std::byte* q) const {
    if (axis == last) return row(p, from_size, q, to_size, inner);
    const std::int64_t p_step = from.strides[axis] * from_size, q_step = to.strides[axis] * to_size;
    if (inner == 1 && axis + 1 == last) return row(p, p_step, q, q_step, from.dims[axis]);
    for (std::int64_t i = 0; i < from.dims[axis]; ++i) walk(axis + 1, last, inner, p + i * p_step, q + i * q_step);
  }
};

}  // namespace

void convert(const SourceArray& from, const TargetArray& to) {
  for (const std::int64_t d : from.dims) {
    if (d == 0) return;
  }
  std::size_t last = from.dims.size();
  std::int64_t inner = 1;
  while (last > 0 && (from.dims[last - 1] == 1 || (from.strides[last - 1] == inner && to.strides[last - 1] == inner))) {
    inner *= from.dims[--last];
  }
  const Converter c{
      from, to, loader(from.element), storer(from.element, to.element), size_of(from.element), size_of(to.element)};
  c.walk(0, last, inner, from.base, to.base);
}

void store_doubles(ElementType element, const double* from, std::byte* to, std::int64_t count) {
  Chunk chunk;
  const Store store = storer_of<double>(element);
  const int size = size_of(element);
  for (std::int64_t i = 0; i < count; i += kChunk) {
    const std::int64_t n = std::min(kChunk, count - i);
    std::copy_n(from + i, n, chunk.f);
    store(chunk, to + i * size, size, n);
  }
}

std::uint64_t widened_bits(ElementType element, std::uint64_t bits) {
  Chunk c;
  loader(element)(reinterpret_cast<const std::byte*>(&bits), 0, 1, c);
  std::uint64_t wide;
  static_assert(sizeof wide == sizeof c.f[0]);
  std::memcpy(&wide, info(element).cls == ElementClass::Float ? static_cast<const void*>(c.f) : c.u, sizeof wide);
  return wide;
}

void write_arange(ElementType element, std::uint64_t start_bits, std::uint64_t step_bits, std::byte* to,
                  std::int64_t count) {
  Chunk start, step, out;
  const auto as_bytes = [](const std::uint64_t& bits) { return reinterpret_cast<const std::byte*>(&bits); };
  loader(element)(as_bytes(start_bits), 0, 1, start);
  loader(element)(as_bytes(step_bits), 0, 1, step);
  const bool is_float = info(element).cls == ElementClass::Float;
  const Store store = storer(element, element);
  const int size = size_of(element);
  for (std::int64_t i = 0; i < count; i += kChunk) {
    const std::int64_t n = std::min(kChunk, count - i);
    for (std::int64_t k = 0; k < n; ++k) {
      const auto index = static_cast<std::uint64_t>(i + k);
      if (is_float) {
        out.f[k] = std::fma(static_cast<double>(index), step.f[0], start.f[0]);
      } else {
        out.u[k] = start.u[0] + index * step.u[0];  // two's complement: the same bits for both signs
      }
    }
    store(out, to + i * size, size, n);
  }
}

}  // namespace tessera::detail
