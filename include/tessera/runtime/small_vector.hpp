// A vector with inline capacity for N elements: a launch uses few storages and must not allocate.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace tessera::runtime {

/// T is default-constructible and nothrow-movable. Only what the runtime needs; not a general container.
template <class T, std::size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  SmallVector(SmallVector&& other) noexcept { *this = std::move(other); }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this == &other) return *this;
    clear();
    if (other.heap_) {
      heap_ = std::move(other.heap_);
      capacity_ = std::exchange(other.capacity_, N);
    } else {
      heap_.reset();
      capacity_ = N;
      for (std::size_t i = 0; i < other.size_; ++i) inline_[i] = std::move(other.inline_[i]);
    }
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() noexcept { return heap_ ? heap_.get() : inline_; }
  const T* data() const noexcept { return heap_ ? heap_.get() : inline_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  std::span<const T> span() const noexcept { return {data(), size_}; }

  /// Room for `n` elements. Throws std::bad_alloc and changes nothing.
  void reserve(std::size_t n) {
    if (n <= capacity_) return;
    std::size_t grown = capacity_ * 2 < n ? n : capacity_ * 2;
    auto bigger = std::make_unique<T[]>(grown);
    for (std::size_t i = 0; i < size_; ++i) bigger[i] = std::move(data()[i]);
    heap_ = std::move(bigger);
    capacity_ = grown;
  }
  void push_back(T value) {
    reserve(size_ + 1);
    data()[size_++] = std::move(value);
  }
  void assign(std::span<const T> values) {
    clear();
    reserve(values.size());
    for (const T& v : values) data()[size_++] = v;
  }
  /// Drops the elements from `n` on, keeps the room.
  void truncate(std::size_t n) noexcept {
    for (std::size_t i = n; i < size_; ++i) data()[i] = T();
    if (n < size_) size_ = n;
  }
  void clear() noexcept { truncate(0); }

 private:
  std::size_t size_ = 0, capacity_ = N;
  std::unique_ptr<T[]> heap_;
  T inline_[N]{};
};

}  // namespace tessera::runtime
