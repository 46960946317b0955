// Fills with random numbers, one counter of base/philox per element.
#include "tessera/host/create.hpp"

#include <cstring>

#include "tessera/base/philox.hpp"

namespace tessera::detail {
namespace {

template <class T, T (*At)(std::uint64_t, std::uint64_t)>
void fill(const Recipe& r, std::byte* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T v = At(r.seed, static_cast<std::uint64_t>(i));
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof v), &v, sizeof v);
  }
}

}  // namespace

void fill_uniform(const Recipe& r, std::byte* to, std::int64_t count) {
  switch (r.element) {
    case ElementType::f64: return fill<f64, uniform_at<f64>>(r, to, count);
    case ElementType::f32: return fill<f32, uniform_at<f32>>(r, to, count);
    case ElementType::f16: return fill<f16, uniform_at<f16>>(r, to, count);
    case ElementType::bf16: return fill<bf16, uniform_at<bf16>>(r, to, count);
    case ElementType::u32: return fill<u32, uniform_at<u32>>(r, to, count);
    default: return fill<u64, uniform_at<u64>>(r, to, count);
  }
}

void fill_normal(const Recipe& r, std::byte* to, std::int64_t count) {
  switch (r.element) {
    case ElementType::f64: return fill<f64, normal_at<f64>>(r, to, count);
    case ElementType::f32: return fill<f32, normal_at<f32>>(r, to, count);
    case ElementType::f16: return fill<f16, normal_at<f16>>(r, to, count);
    default: return fill<bf16, normal_at<bf16>>(r, to, count);
  }
}

}  // namespace tessera::detail
