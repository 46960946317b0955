// Where the elements of a tile value lie: a strided window on a buffer. Broadcast, permute, reshape, extraction at
// constant indices and bit casts only make another window; data is copied when a consumer cannot use the strides it is
// given.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen/cpu/frame.hpp"

namespace tessera::cpu {

using Dims = std::vector<std::int64_t>;

struct Tile {
  Ref ref;
  std::int64_t elem_bytes = 0;
  Dims shape;
  Dims stride;  ///< elements; 0 on axes of extent 1 and on broadcast ("dead") axes

  int rank() const { return static_cast<int>(shape.size()); }
  std::int64_t count() const;   ///< elements, broadcast ones included
  std::int64_t stored() const;  ///< elements over the live axes
  bool live(int axis) const { return stride[static_cast<std::size_t>(axis)] != 0; }
  bool is_splat() const;   ///< every axis dead
  bool is_packed() const;  ///< row-major contiguous over its live axes
  bool is_dense() const { return stored() == count() && is_packed(); }
};

/// A row-major tile over a fresh buffer; axes of extent 1 get stride 0, as do those where `live` is false.
Tile packed_tile(Ref, std::int64_t elem_bytes, Dims shape, std::span<const bool> live = {});

/// The same elements under another shape without moving them; nullopt if that takes a copy.
std::optional<Tile> reshaped(const Tile&, std::span<const std::int64_t> shape);
Tile broadcasted(const Tile&, std::span<const std::int64_t> shape);
Tile permuted(const Tile&, std::span<const std::int32_t> permutation);

}  // namespace tessera::cpu
