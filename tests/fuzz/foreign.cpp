// Memory from other libraries: DLPack tensors whose fields are any bytes, and the shapes and strides of borrow.
#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "fuzz/fuzz.hpp"
#include "tessera/host/borrow.hpp"
#include "tessera/host/dlpack.hpp"

namespace tessera::fuzz {
namespace {

constexpr int kMaxAxes = 4;
using Sizes = std::array<std::int64_t, kMaxAxes>;
constexpr ElementType kElements[] = {
#define TESSERA_ELEMENT(name, ...) ElementType::name,
#include "tessera/base/element_types.def"
};

/// Offsets of all elements, in elements, row-major; for tensors with few elements.
std::vector<std::int64_t> offsets_of(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) {
  std::vector<std::int64_t> all{0};
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < 0 || static_cast<std::uint64_t>(dims[axis]) > 4096 / std::max<std::size_t>(all.size(), 1))
      return {};
    std::vector<std::int64_t> next;
    for (const std::int64_t base : all) {
      for (std::int64_t i = 0; i < dims[axis]; ++i) next.push_back(base + i * strides[axis]);
    }
    all = std::move(next);
  }
  return all;
}

/// The guarantees of an accepted layout: every element has its own address, none before the first.
std::int64_t require_distinct(const std::vector<std::int64_t>& offsets) {
  std::int64_t last = -1;
  for (const std::int64_t o : offsets) FUZZ_REQUIRE(o >= 0), last = std::max(last, o);
  FUZZ_REQUIRE(std::set<std::int64_t>(offsets.begin(), offsets.end()).size() == offsets.size());
  return last;
}

int deleted = 0;
template <class M>
void count(M*) {
  ++deleted;
}

/// A producer's tensor: fields from the input, memory that ends where a sanitizer sees it.
template <class M>
struct Producer {
  std::unique_ptr<std::byte[]> memory;
  std::size_t bytes;
  std::vector<std::int64_t> shape, strides;
  M managed{};

  explicit Producer(Input& in) {
    auto& t = managed.dl_tensor;
    const auto axes = static_cast<std::size_t>(in.number<std::uint8_t>() % (kMaxAxes + 1));
    t.ndim = in.flag() ? static_cast<std::int32_t>(axes) : in.number<std::int32_t>();
    t.dtype.code = in.number<std::uint8_t>() % 20;
    t.dtype.bits = in.flag() ? 32 : in.number<std::uint8_t>();
    t.dtype.lanes = in.flag() ? 1 : in.number<std::uint16_t>();
    t.device = {in.flag() ? 1 : static_cast<std::int32_t>(in.extent()), static_cast<std::int32_t>(in.extent())};
    t.byte_offset = in.flag() ? static_cast<std::uint64_t>(in.number<std::uint8_t>()) : in.number<std::uint64_t>();
    for (std::size_t i = 0; i < axes; ++i) shape.push_back(in.extent());
    for (std::size_t i = 0; i < axes; ++i) strides.push_back(in.extent());
    t.shape = in.flag() ? shape.data() : in.flag() ? nullptr : shape.data();
    t.strides = in.flag() ? strides.data() : nullptr;
    bytes = in.number<std::uint8_t>() * std::size_t{4};
    memory = std::make_unique<std::byte[]>(bytes);
    for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(i);
    t.data = in.flag() ? memory.get() : nullptr;
    managed.deleter = in.flag() ? count<M> : nullptr;
    if constexpr (dlpack::Versioned<M>) {
      managed.version = in.flag() ? dlpack::kVersion : dlpack::Version{in.number<std::uint32_t>(), 0};
      managed.flags = in.number<std::uint8_t>() & 7;
    }
    // A shape with fewer entries than axes is the producer's error, unless there are more axes than any tensor has:
    // then the entries are not read.
    if (t.ndim <= detail::kMaxRank) t.ndim = std::min(t.ndim, static_cast<std::int32_t>(axes));
  }
};

template <class T, int R>
std::array<std::int64_t, R> strides_of(const View<T, R>& v) {
  std::array<std::int64_t, R> strides{};
  for (int i = 0; i < R; ++i) strides[static_cast<std::size_t>(i)] = v.stride(i);
  return strides;
}

/// Every element has the address that the producer gave; an export of it is imported again with the same layout.
template <class T, int R, class M>
void require_same(TESSERA_ARG_LIVE Tensor<T, R>&& t, const Producer<M>& p) {
  const auto& d = p.managed.dl_tensor;
  const auto dims = t.dims();
  FUZZ_REQUIRE(std::equal(dims.begin(), dims.end(), d.shape) && *std::min_element(dims.begin(), dims.end()) >= 0);
  const std::array<std::int64_t, R> strides = strides_of(t.view());
  const std::vector<std::int64_t> offsets = offsets_of(dims, strides);
  const std::int64_t last = require_distinct(offsets);
  const std::size_t size = static_cast<std::size_t>(last + 1) * sizeof(T);
  if (t.size() != 0 && (offsets.empty() || d.byte_offset > p.bytes || size > p.bytes - d.byte_offset))
    return;  // the producer's memory is smaller than it says: its elements are not looked at
  const std::vector<T> found = host(t).sync();
  FUZZ_REQUIRE(found.size() == offsets.size());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::byte* at = p.memory.get() + d.byte_offset + static_cast<std::size_t>(offsets[i]) * sizeof(T);
    FUZZ_REQUIRE(std::memcmp(&found[i], at, sizeof(T)) == 0);
  }
  auto exported = to_dlpack<M>(std::move(t));
  const auto back = from_dlpack<T, R>(std::move(exported));
  FUZZ_REQUIRE(back.dims() == dims);
  const std::vector<T> again = host(back).sync();
  FUZZ_REQUIRE(again.size() == found.size() &&
               (found.empty() || std::memcmp(again.data(), found.data(), found.size() * sizeof(T)) == 0));
}

template <class T, int R, class M>
void import(Producer<M>& p) {
  deleted = 0;
  const int expected = p.managed.deleter ? 1 : 0;
  const bool taken = accepted([&] { require_same<T, R>(from_dlpack<T, R>(&p.managed), p); });
  FUZZ_REQUIRE(deleted == (taken ? expected : 0));
  deleted = 0;
  const bool shared = accepted([&] { (void)shared_from_dlpack<T, R>(&p.managed).size(); });
  FUZZ_REQUIRE(deleted == (shared ? expected : 0));
  FUZZ_REQUIRE(shared || !taken);  // what may be written may be read
}

template <class M>
void import_all(Input& in) {
  Producer<M> p(in);
  import <f32, 1>(p);
  import <f32, 2>(p);
  import <u8, 1>(p);
  import <bf16, 3>(p);
}

}  // namespace

void fuzz_dlpack(Bytes bytes) {
  set_default_device(Device::cpu());
  Input in(bytes);
  if (in.flag())
    import_all<dlpack::ManagedTensorVersioned>(in);
  else
    import_all<dlpack::ManagedTensor>(in);
}

Seeds seeds_dlpack() {
  // form, ndim and its flag, code, bits, lanes, device, byte_offset, shape, strides, their flags, memory, data, deleter
  const auto seed = [](std::initializer_list<int> values) {
    std::string s;
    for (const int v : values) s += static_cast<char>(v);
    return s;
  };
  return {
      seed({1, 2, 1, 2, 1, 1, 1, 4, 1, 0, 6, 7, 8, 5, 1, 1, 16, 1, 1, 1, 0}),
      seed({0, 1, 1, 2, 1, 1, 1, 4, 1, 4, 8, 5, 1, 1, 5, 1, 1}),
      seed({0, 3, 1, 4, 0, 16, 1, 1, 4, 1, 0, 6, 6, 6, 8, 6, 5, 1, 1, 16, 1, 1}),
      seed({1, 1, 1, 1, 0, 8, 1, 1, 4, 1, 0, 10, 5, 1, 0, 16, 1, 1, 1, 1}),
      // an offset of 2^64 - 16, and 2^24 axes
      seed({0, 1, 1, 2, 1, 1, 1, 4, 0, -16, -1, -1, -1, -1, -1, -1, -1, 8, 5, 1, 0, 16, 1, 1}),
      seed({0, 1, 0, 0, 0, 0, 1, 2, 1, 1, 1, 4, 1, 0, 8, 5, 1, 0, 16, 1, 1}),
  };
}

void fuzz_borrow(Bytes bytes) {
  Input in(bytes);
  const auto axes = static_cast<std::size_t>(1 + in.number<std::uint8_t>() % kMaxAxes);
  const ElementType row = kElements[in.number<std::uint8_t>() % std::size(kElements)];
  Sizes dims{}, strides{};
  for (std::size_t i = 0; i < axes; ++i) dims[i] = std::max<std::int64_t>(0, in.extent());
  for (std::size_t i = 0; i < axes; ++i) strides[i] = in.extent();
  const auto d = std::span(dims).first(axes), s = std::span(strides).first(axes);
  alignas(16) static std::byte place[16];
  std::size_t size = 0;
  if (!accepted([&] { size = detail::check_borrowed("borrow", place, d, s, row, {}); })) return;
  if (std::find(d.begin(), d.end(), 0) != d.end()) {
    FUZZ_REQUIRE(size == 0);
    return;
  }
  // Of an axis with one element the stride means nothing.
  for (std::size_t i = 0; i < axes; ++i) strides[i] = dims[i] == 1 ? 0 : strides[i];
  const std::vector<std::int64_t> offsets = offsets_of(d, s);
  if (offsets.empty()) return;
  const std::int64_t last = require_distinct(offsets);
  FUZZ_REQUIRE(size == static_cast<std::size_t>(last + 1) * static_cast<std::size_t>(size_of(row)));
}

Seeds seeds_borrow() {
  const auto seed = [](std::initializer_list<int> values) { return std::string(values.begin(), values.end()); };
  return {seed({0, 1, 10, 5}), seed({1, 2, 6, 7, 8, 5}), seed({3, 0, 6, 6, 6, 6, 5, 6, 8, 12}),
          seed({1, 3, 4, 7, 0, 0})};
}

}  // namespace tessera::fuzz
