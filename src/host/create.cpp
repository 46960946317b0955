// Creating tensors: allocation, fills, and checked mode's record of what was written.
#include "tessera/host/create.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "host/convert.hpp"
#include "host/device_kernels.hpp"
#include "host/driver_work.hpp"
#include "host/work.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/number_range.hpp"
#include "tessera/host/kernel.hpp"

namespace tessera {

namespace detail {

void check_bytes(std::int64_t count, const Recipe& r) {
  std::int64_t bytes = 0;
  if (!__builtin_mul_overflow(count, static_cast<std::int64_t>(size_of(r.element)), &bytes)) return;
  throw ShapeError(concat(r.label, ": ", count, " elements of ", info(r.element).name,
                          " are more bytes than any memory has; check the extents of the tensor."),
                   r.where);
}

std::uint64_t fitting(const ArgRef& number, const char* label, SourceLocation where) {
  if (number.fits) return number.number;
  throw ShapeError(concat(label, ": the number given does not fit in ", range_text(number.layout.element),
                          ".\n  Choose a wider element type."),
                   where);
}

Recipe arange_recipe(const ArgRef& start, const ArgRef& step, std::int64_t count, SourceLocation where) {
  const ElementType element = start.layout.element;
  Recipe r{fill_arange, "arange", element, fitting(start, "arange", where), step.number, 0, where};
  if (info(element).cls != ElementClass::Float) return r;
  fitting(step, "arange", where);
  const auto value = [&](std::uint64_t bits) { return std::bit_cast<double>(widened_bits(element, bits)); };
  const double first = value(r.first), by = value(r.second);
  if (count == 0 || !std::isfinite(first) || !std::isfinite(by)) return r;
  const double last = std::fma(static_cast<double>(count - 1), by, first);
  std::uint64_t bits = 0;
  const bool narrow = element != ElementType::f64 && element != ElementType::f32;
  const bool fits = narrow ? narrow_number(element, last, bits)
                           : std::isfinite(element == ElementType::f32 ? static_cast<float>(last) : last);
  if (fits) return r;
  throw ShapeError(concat("arange: element ", count - 1, " would be ", last, ", which does not fit in ",
                          range_text(element), ".\n  Choose a wider element type or a smaller step."),
                   where);
}

void fill_value(const Recipe& r, std::byte* to, std::int64_t count) {
  const auto size = static_cast<std::size_t>(size_of(r.element));
  const auto bytes = static_cast<std::size_t>(count) * size;
  if (r.first == 0) {
    std::memset(to, 0, bytes);
    return;
  }
  // Copy the filled part, which doubles, until all is filled.
  std::memcpy(to, &r.first, size);
  for (std::size_t done = size; done < bytes; done *= 2) std::memcpy(to + done, to, std::min(done, bytes - done));
}

void fill_arange(const Recipe& r, std::byte* to, std::int64_t count) {
  write_arange(r.element, r.first, r.second, to, count);
}

runtime::StorageRef make_storage(const Recipe& r, std::int64_t count, const Stream& stream) {
  const bool check = check_mode(), on_host = stream.device().backend().host_accessible();
  runtime::StorageOptions options;
  options.track_writes = check && (on_host || !r.fill);  // memory that is filled at once needs no shadow
  options.element_bytes = static_cast<std::size_t>(size_of(r.element));
  options.poison = check && !r.fill;
  options.where = r.where;
  const std::size_t bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(size_of(r.element));
  auto storage = runtime::Storage::allocate(stream.core(), bytes, options);
  const bool done =
      !r.fill || (!on_host && (fill_by_driver(stream, storage, r) || fill_by_kernel(stream, storage, r, count)));
  if (!done) {
    const std::uint64_t numbers[] = {reinterpret_cast<std::uintptr_t>(r.fill), static_cast<std::uint64_t>(r.element),
                                     r.first, r.second, r.seed};
    enqueue_fill(stream, storage, r.label, r.where, numbers, [r, count](std::byte* to) { r.fill(r, to, count); });
  }
  return storage;
}

}  // namespace detail
}  // namespace tessera
