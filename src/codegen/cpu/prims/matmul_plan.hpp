// What decides a matrix multiplication besides its sizes, and the memory that it works in.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tessera::cpu::prims {

/// Rows of b that are packed at a time, and the widest panel (in elements) of any instruction set.
inline constexpr std::int64_t kDepth = 256, kWidestPanel = 32;

/// How elements become the computing type T.
template <class T>
struct Loader {
  void (*load)(T* to, const void* from, std::int64_t n);
  int bytes;
  bool native;  ///< stored as T already
  /// The elements of [rows, width] words of 32 bits: those of a row of words are rows of `to`. Null: no shorter way
  /// than to take the words apart and then to load.
  void (*split)(T* to, const std::uint32_t* words, std::int64_t rows, std::int64_t width) = nullptr;
};

template <class T>
struct Plan {
  Loader<T> lhs, rhs;
  int acc_bytes;
  void (*acc_load)(T*, const void*, std::int64_t) = nullptr;  ///< null: acc is T
  void (*acc_store)(void*, const T*, std::int64_t) = nullptr;
  bool integer = false;  ///< acc is i32
  const Loader<T>* scale = nullptr;
  int scale_block = 0;
};

/// Scratch memory, 64-byte aligned: b's panel, what it is packed by way of, a widened, the result in T.
template <class T>
struct Scratch {
  T *panel, *packing, *a, *result;

  Scratch(void* memory, std::int64_t m, std::int64_t k)
      : panel(static_cast<T*>(memory)),
        packing(panel + kDepth * kWidestPanel),
        a(packing + kDepth * kWidestPanel),
        result(a + rounded(m * k)) {}
  static std::int64_t rounded(std::int64_t elements) { return (elements + 15) / 16 * 16; }
  static std::size_t bytes(std::int64_t m, std::int64_t n, std::int64_t k) {
    return static_cast<std::size_t>(2 * kDepth * kWidestPanel + rounded(m * k) + rounded(m * n)) * sizeof(T);
  }
};

}  // namespace tessera::cpu::prims
