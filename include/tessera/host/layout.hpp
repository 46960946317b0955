// Extents and strides over a storage: the common part of tensors, views and lent regions. Mostly out of line.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "tessera/base/dims.hpp"
#include "tessera/base/element.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::detail {

inline constexpr int kMaxRank = 8;  ///< the highest rank of host tensors; bounds the arrays of untyped code

/// Where the elements of a tensor, view or lent region are. Empty (moved from or never assigned) if there is no
/// storage.
template <int R>
struct Layout {
  static_assert(R >= 1 && R <= kMaxRank, "a tensor has 1 to 8 axes");
  runtime::StorageRef storage;
  std::int64_t offset = 0;  ///< offset of element (0, ..., 0) from the storage's start, in elements
  std::array<std::int64_t, R> dims{};
  std::array<std::int64_t, R> strides{};  ///< in elements
};

/// The same, untyped and by reference, for functions out of line. Valid as long as its Layout.
struct LayoutRef {
  const runtime::StorageRef* storage = nullptr;
  std::int64_t offset = 0;
  std::span<const std::int64_t> dims;
  std::span<const std::int64_t> strides;
  ElementType element{};

  int rank() const { return static_cast<int>(dims.size()); }
  std::int64_t size() const noexcept;  ///< elements; creation has verified that the product fits
  bool contiguous() const noexcept;    ///< row-major without gaps
  std::byte* data() const noexcept;  ///< address of element (0, ..., 0); only for code that has waited for the elements
};

template <int R>
LayoutRef ref(const Layout<R>& l, ElementType element) {
  return {&l.storage, l.offset, l.dims, l.strides, element};
}

/// That of a storage, which is not empty.
Device device_of(const runtime::StorageRef& storage) noexcept;
using runtime::bytes_of;
using runtime::change_owner;
using runtime::ownership_of;
using runtime::set_shared;

/// Row-major strides.
void set_contiguous(std::span<const std::int64_t> dims, std::span<std::int64_t> strides) noexcept;
/// Throws ShapeError unless 0 <= axis < rank.
void check_axis(int axis, int rank, SourceLocation where);
/// Throws ShapeError unless 0 <= lo <= hi <= dim.
void check_slice(int axis, std::int64_t lo, std::int64_t hi, std::int64_t dim, SourceLocation where);
/// Throws ShapeError unless `from` is contiguous and has as many elements as `to`.
void check_reshape(const LayoutRef& from, std::span<const std::int64_t> to, SourceLocation where);
/// Throws ShapeError unless `from` is contiguous and contains every element that these extents and strides reach.
void check_windows(const LayoutRef& from, std::span<const std::int64_t> dims, std::span<const std::int64_t> strides,
                   SourceLocation where);
/// Throws the BorrowError of an empty `what` ("Tensor", "View", ...).
[[noreturn]] void throw_empty(const char* what, ElementType element, int rank, SourceLocation where);
/// "Tensor<f32, 2>".
std::string type_text(const char* what, ElementType element, int rank);

template <int Axis, int R>
Layout<R> sliced(Layout<R> l, Extent lo, Extent hi, SourceLocation where) {
  static_assert(Axis >= 0 && Axis < R, "this tensor has no such axis: axes count from 0 to its rank - 1");
  constexpr auto a = static_cast<std::size_t>(Axis);
  check_slice(Axis, lo.value, hi.value, l.dims[a], where);
  l.dims[a] = hi.value - lo.value;
  if (ref(l, {}).size() != 0)
    l.offset += lo.value * l.strides[a];  // without elements: keeps the offset inside the storage
  return l;
}

template <int... Axes>
constexpr bool is_permutation() {
  bool seen[sizeof...(Axes)] = {};
  for (const int a : {Axes...}) {
    if (a < 0 || a >= static_cast<int>(sizeof...(Axes)) || seen[a]) return false;
    seen[a] = true;
  }
  return true;
}

template <int... Axes, int R>
Layout<R> permuted(Layout<R>&& l) {
  static_assert(sizeof...(Axes) == R, "permute names every axis once: their number must be the rank");
  static_assert(is_permutation<Axes...>(), "permute names every axis once, from 0 to the rank - 1");
  return {std::move(l.storage), l.offset, {l.dims[Axes]...}, {l.strides[Axes]...}};
}

template <int N, int R>
Layout<N> reshaped(Layout<R>&& l, ElementType element, const Dims<N>& dims, SourceLocation where) {
  check_reshape(ref(l, element), dims, where);
  Layout<N> out{std::move(l.storage), l.offset, dims.array(), {}};
  set_contiguous(out.dims, out.strides);
  return out;
}

}  // namespace tessera::detail
