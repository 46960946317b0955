// The kernels behind fills, copies and casts compute the bits of the host functions that they stand for. They run on
// the CPU here; on a GPU the library uses them by itself.
#include "host/device_kernels.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <tessera/tessera.hpp>

#include "host/convert.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/runtime/storage.hpp"

namespace THIS_FILE {

using namespace tessera;

constexpr ElementType kElements[] = {
#define TESSERA_ELEMENT(name, host, ir, bits, cls) ElementType::name,
#include "tessera/base/element_types.def"
};

runtime::StorageRef poisoned(std::size_t bytes) {
  auto s = runtime::Storage::allocate(Device::cpu(), bytes, {});
  std::memset(s->data(), 0xA5, bytes);
  return s;
}
std::vector<std::byte> copied_bytes(const runtime::StorageRef& s) {
  s->wait_written();
  return {s->data(), s->data() + s->bytes()};
}

void expect_same_fill(const detail::Recipe& r, std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(count * size_of(r.element));
  std::vector<std::byte> expected(bytes);
  r.fill(r, expected.data(), count);
  const auto to = poisoned(bytes);
  ASSERT_TRUE(detail::fill_by_kernel(Stream::default_of(Device::cpu()), to, r, count)) << info(r.element).name;
  EXPECT_TRUE(copied_bytes(to) == expected)
      << r.label << " of " << info(r.element).name << ", " << count << " elements";
}

TEST(DeviceKernels, FillsAreThoseOfTheHost) {
  for (const std::int64_t count : {1, 1023, 1024, 5000}) {
    for (const ElementType t : kElements) {
      const std::uint64_t bits = t == ElementType::boolean ? 1 : 0x3A4B5C6D7E2F1234;
      expect_same_fill({detail::fill_value, "full", t, bits, 0, 0, {}}, count);
      if (t != ElementType::boolean) {
        const auto second = info(t).cls == ElementClass::Float ? std::uint64_t{0x3B1A2C4D3C003300} : 7;
        expect_same_fill({detail::fill_arange, "arange", t, 5, second, 0, {}}, count);
      }
    }
    for (const ElementType t : {ElementType::f64, ElementType::f32, ElementType::f16, ElementType::bf16}) {
      expect_same_fill({detail::fill_uniform, "uniform", t, 0, 0, 42, {}}, count);
      expect_same_fill({detail::fill_normal, "normal", t, 0, 0, 43, {}}, count);
    }
    expect_same_fill({detail::fill_uniform, "uniform", ElementType::u32, 0, 0, 44, {}}, count);
    expect_same_fill({detail::fill_uniform, "uniform", ElementType::u64, 0, 0, 45, {}}, count);
  }
}

/// Random bits as `count` elements; floats are numbers of moderate size and special values.
std::vector<std::byte> random_elements(ElementType t, std::int64_t count, std::uint64_t seed) {
  std::vector<double> v;
  std::vector<std::byte> out(static_cast<std::size_t>(count * size_of(t)));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto words = random_words(seed, static_cast<std::uint64_t>(i));
    const double special[] = {0.0, -0.0, 1e300, -1e300, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 0.5, 1e-310};
    v.push_back(words[0] % 8 == 0 ? special[words[1] % std::size(special)]
                                  : (static_cast<double>(words[2]) - 2147483648.0) / static_cast<double>(words[3] | 1));
    if (info(t).cls != ElementClass::Float)
      std::memcpy(out.data() + i * size_of(t), words.data(), static_cast<std::size_t>(size_of(t)));
    if (t == ElementType::boolean) out[static_cast<std::size_t>(i)] &= std::byte{1};
  }
  if (info(t).cls == ElementClass::Float) detail::store_doubles(t, v.data(), out.data(), count);
  return out;
}

/// Which NaN a conversion gives is not specified: replaces each by the one whose bits are all ones.
void unify_nans(ElementType t, std::vector<std::byte>& data) {
  const auto n = static_cast<std::int64_t>(data.size()) / size_of(t);
  std::vector<double> v(static_cast<std::size_t>(n));
  const std::int64_t dims[] = {n}, strides[] = {1};
  detail::convert({t, data.data(), dims, strides}, {ElementType::f64, reinterpret_cast<std::byte*>(v.data()), strides});
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto size = static_cast<std::size_t>(size_of(t));
    if (v[i] != v[i]) std::memset(data.data() + i * size, 0xFF, size);
  }
}

struct Case {
  std::vector<std::int64_t> dims, from_strides, to_strides;
  std::int64_t from_size, to_size;
};

void expect_same_conversion(ElementType from, ElementType to, const Case& c) {
  const auto source = poisoned(static_cast<std::size_t>(c.from_size * size_of(from)));
  const auto data = random_elements(from, c.from_size, 7);
  std::memcpy(source->data(), data.data(), data.size());
  const auto target = poisoned(static_cast<std::size_t>(c.to_size * size_of(to)));
  std::vector<std::byte> expected = copied_bytes(target);
  detail::convert({from, source->data(), c.dims, c.from_strides}, {to, expected.data(), c.to_strides});
  const detail::LayoutRef f{&source, 0, c.dims, c.from_strides, from}, t{&target, 0, c.dims, c.to_strides, to};
  ASSERT_TRUE(detail::convert_by_kernel(Stream::default_of(Device::cpu()), f, t, "cast", {}));
  std::vector<std::byte> found = copied_bytes(target);
  if (from != to && info(to).cls == ElementClass::Float) unify_nans(to, expected), unify_nans(to, found);
  EXPECT_TRUE(found == expected) << info(from).name << " to " << info(to).name << ", rank " << c.dims.size();
}

TEST(DeviceKernels, CastsOfAllPairsAreThoseOfTheHost) {
  for (const ElementType from : kElements) {
    for (const ElementType to : kElements) expect_same_conversion(from, to, {{1500}, {1}, {1}, 1500, 1500});
  }
}

TEST(DeviceKernels, StridedCopiesAreThoseOfTheHost) {
  const Case cases[] = {
      {{70, 90}, {1, 70}, {90, 1}, 6300, 6300},                    // transposed
      {{3, 5, 70}, {700, 140, 2}, {350, 70, 1}, 2100, 1050},       // every other element
      {{4, 3, 5, 7}, {1, 4, 12, 60}, {200, 60, 10, 1}, 420, 800},  // reversed axes, gaps in the target
      {{6, 1, 10, 1}, {10, 99, 1, 99}, {10, 1, 1, 1}, 60, 60},     // axes of size 1
      {{1}, {1}, {1}, 1, 1},
  };
  for (const Case& c : cases) {
    expect_same_conversion(ElementType::f32, ElementType::bf16, c);
    expect_same_conversion(ElementType::tf32, ElementType::tf32, c);
    expect_same_conversion(ElementType::u8, ElementType::i64, c);
  }
}

TEST(DeviceKernels, MoreAxesThanKernelsHaveAreRejected) {
  const std::vector<std::int64_t> dims{2, 2, 2, 2, 2}, backwards{1, 2, 4, 8, 16}, forwards{16, 8, 4, 2, 1};
  const auto s = poisoned(32), t = poisoned(32);
  const detail::LayoutRef from{&s, 0, dims, backwards, ElementType::i8}, to{&t, 0, dims, forwards, ElementType::i8};
  const auto before = copied_bytes(t);
  EXPECT_FALSE(detail::convert_by_kernel(Stream::default_of(Device::cpu()), from, to, "copy", {}));
  EXPECT_EQ(copied_bytes(t), before);
  const detail::LayoutRef merged{&s, 0, dims, forwards, ElementType::i8};  // one axis after merging
  EXPECT_TRUE(detail::convert_by_kernel(Stream::default_of(Device::cpu()), merged, to, "copy", {}));
  EXPECT_EQ(copied_bytes(t), copied_bytes(s));
}

}  // namespace THIS_FILE
