// Pointers by number, in order of first use; also a set of pointers. One table with open addressing: where thousands of
// them are noted for a moment, an allocation for each would be most of the cost.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera {

class PointerNumbers {
 public:
  /// Has room for `expected` before it grows.
  explicit PointerNumbers(std::size_t expected = 32) {
    std::size_t size = 64;
    while (size < 2 * expected) size *= 2;
    slots_.resize(size);
  }
  /// From 1 on; 0: it has none.
  std::uint32_t find(const void* p) const noexcept { return slots_[place(p)].number; }
  bool contains(const void* p) const noexcept { return find(p) != 0; }
  /// The number of a pointer that is not null, and whether it is new.
  std::pair<std::uint32_t, bool> give(const void* p) {
    if (2 * (std::size_t{count_} + 1) > slots_.size()) grow();
    Slot& s = slots_[place(p)];
    if (s.number != 0) return {s.number, false};
    s = {p, ++count_};
    return {s.number, true};
  }

 private:
  struct Slot {
    const void* pointer = nullptr;
    std::uint32_t number = 0;
  };
  /// Of the pointer, or where it would go.
  std::size_t place(const void* p) const noexcept {
    const std::uint64_t h = reinterpret_cast<std::uintptr_t>(p) * 0x9E3779B97F4A7C15u;  // 2^64 by the golden ratio
    std::size_t at = static_cast<std::size_t>(h >> 32) & (slots_.size() - 1);
    while (slots_[at].number != 0 && slots_[at].pointer != p) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    for (const Slot& s : old) {
      if (s.number != 0) slots_[place(s.pointer)] = s;
    }
  }
  std::vector<Slot> slots_;
  std::uint32_t count_ = 0;
};

}  // namespace tessera
