// Loads and stores through tiles of pointers.
#include <algorithm>
#include <cstring>

#include "codegen/cpu/checker.hpp"
#include "codegen/cpu/memory_instr.hpp"

namespace tessera::cpu {
namespace {

template <class T>
T load_one(const std::byte* p, ir::MemoryOrdering order) {
  if (order == ir::MemoryOrdering::Weak) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  return __atomic_load_n(reinterpret_cast<const T*>(p),
                         order == ir::MemoryOrdering::Relaxed ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE);
}

template <class T>
void store_one(std::byte* p, T v, ir::MemoryOrdering order) {
  if (order == ir::MemoryOrdering::Weak) {
    std::memcpy(p, &v, sizeof v);
  } else {
    __atomic_store_n(reinterpret_cast<T*>(p), v,
                     order == ir::MemoryOrdering::Relaxed ? __ATOMIC_RELAXED : __ATOMIC_RELEASE);
  }
}

/// A lane with the step from element to element.
template <class T>
struct Stream {
  const T* data;
  std::int64_t step;
  Stream(const Frame& f, const Lane& lane) : data(f.at<const T>(lane.ref)), step(lane.splat ? 0 : 1) {
    if (!lane.present) data = nullptr;
  }
  T operator[](std::int64_t i) const { return data[i * step]; }
};

/// Length of the run of neighbouring addresses, all unmasked, that starts at element `first`.
std::int64_t run_length(const Stream<std::byte*>& p, const Stream<std::uint8_t>& mask, std::int64_t first,
                        std::int64_t count, std::int64_t elem_bytes) {
  if (mask.data != nullptr && mask.step == 0 && mask[0] == 0) return 0;
  const bool masked = mask.data != nullptr && mask.step != 0;
  const std::byte* start = p[first];
  std::int64_t n = 0;
  while (first + n < count && p[first + n] == start + n * elem_bytes && (!masked || mask[first + n] != 0)) ++n;
  return n;
}

template <class T>
void load_lanes(const Frame& f, const PointerLoadInstr& in) {
  const Stream<std::byte*> p(f, in.pointers);
  const Stream<std::uint8_t> mask(f, in.mask);
  const Stream<T> padding(f, in.padding);
  T* to = f.at<T>(in.dst);
  for (std::int64_t i = 0; i < in.count;) {
    const std::int64_t n = run_length(p, mask, i, in.count, sizeof(T));
    if (n == 0) {
      to[i] = padding.data != nullptr ? padding[i] : T{};
      ++i;
    } else if (in.order == ir::MemoryOrdering::Weak && n > 1) {
      std::memcpy(to + i, p[i], static_cast<std::size_t>(n) * sizeof(T));
      i += n;
    } else {
      to[i] = load_one<T>(p[i], in.order);
      ++i;
    }
  }
}

template <class T>
void store_lanes(const Frame& f, const PointerStoreInstr& in) {
  const Stream<std::byte*> p(f, in.pointers);
  const Stream<std::uint8_t> mask(f, in.mask);
  const Stream<T> value(f, in.value);
  for (std::int64_t i = 0; i < in.count;) {
    const std::int64_t n = run_length(p, mask, i, in.count, sizeof(T));
    if (n == 0) {
      ++i;
    } else if (in.order == ir::MemoryOrdering::Weak && value.step == 1) {
      std::memcpy(p[i], value.data + i, static_cast<std::size_t>(n) * sizeof(T));
      i += n;
    } else {
      store_one<T>(p[i], value[i], in.order);
      ++i;
    }
  }
}

/// Checked mode: every unmasked lane.
void check_lanes(Frame& f, const Site& site, const Lane& pointers, const Lane& mask, std::int64_t count,
                 std::int64_t elem_bytes) {
  const Stream<std::byte*> p(f, pointers);
  const Stream<std::uint8_t> m(f, mask);
  const std::int32_t access = f.checker->begin(f, site);
  for (std::int64_t i = 0; i < count; ++i)
    if (m.data == nullptr || m[i] != 0) f.checker->touch(site, access, p[i], elem_bytes, nullptr);
}

}  // namespace

std::uint64_t load_bits(const std::byte* p, std::int64_t elem_bytes) {
  // By type: a copy of a length that is not known is a call, and what is then read back as a whole waits for its bytes.
  const auto read = [&]<class T>(T v) -> std::uint64_t {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (elem_bytes) {
    case 1: return read(std::uint8_t{});
    case 2: return read(std::uint16_t{});
    case 4: return read(std::uint32_t{});
    default: return read(std::uint64_t{});
  }
}

void store_bits(std::byte* p, std::uint64_t bits, std::int64_t elem_bytes) {
  std::memcpy(p, &bits, static_cast<std::size_t>(elem_bytes));
}

Status PointerLoadInstr::run(Frame& f) const {
  if (f.checker != nullptr) check_lanes(f, site, pointers, mask, count, elem_bytes);
  switch (elem_bytes) {
    case 1: load_lanes<std::uint8_t>(f, *this); break;
    case 2: load_lanes<std::uint16_t>(f, *this); break;
    case 4: load_lanes<std::uint32_t>(f, *this); break;
    default: load_lanes<std::uint64_t>(f, *this); break;
  }
  if (bools) normalise_bools(f.at<std::byte>(dst), count);
  return Status::Next;
}

Status PointerStoreInstr::run(Frame& f) const {
  if (f.checker != nullptr) check_lanes(f, site, pointers, mask, count, elem_bytes);
  switch (elem_bytes) {
    case 1: store_lanes<std::uint8_t>(f, *this); break;
    case 2: store_lanes<std::uint16_t>(f, *this); break;
    case 4: store_lanes<std::uint32_t>(f, *this); break;
    default: store_lanes<std::uint64_t>(f, *this); break;
  }
  return Status::Next;
}

Status AtomicInstr::run(Frame& f) const {
  if (f.checker != nullptr) check_lanes(f, site, pointers, mask, count, elem_bytes);
  const Stream<std::byte*> p(f, pointers);
  const Stream<std::uint8_t> m(f, mask);
  const auto lane_bits = [&](const Lane& lane, std::int64_t i) {
    return load_bits(f.at<std::byte>(lane.ref) + (lane.splat ? 0 : i * elem_bytes), elem_bytes);
  };
  auto* to = f.at<std::byte>(dst);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool active = m.data == nullptr || m[i] != 0;
    std::uint64_t old;
    if (compare.present) {
      old = lane_bits(compare, i);
      if (active) old = atomic_compare_and_swap(p[i], elem_bytes, old, lane_bits(value, i));
    } else {
      old = active ? atomic_update(p[i], mode, elem, lane_bits(value, i)) : 0;
    }
    store_bits(to + i * elem_bytes, old, elem_bytes);
  }
  return Status::Next;
}

Status JoinTokensInstr::run(Frame& f) const {
  if (f.checker == nullptr) return Status::Next;
  std::vector<std::int32_t> all;
  for (Ref t : tokens) all.push_back(*f.at<std::int32_t>(t));
  *f.at<std::int32_t>(dst) = f.checker->join(all);
  return Status::Next;
}

}  // namespace tessera::cpu
