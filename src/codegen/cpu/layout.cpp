// Making windows on tiles: which reshapes, permutations and broadcasts need no copy.
#include "codegen/cpu/layout.hpp"

namespace tessera::cpu {

std::int64_t Tile::count() const {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

std::int64_t Tile::stored() const {
  std::int64_t n = 1;
  for (int a = 0; a < rank(); ++a)
    if (live(a)) n *= shape[static_cast<std::size_t>(a)];
  return n;
}

bool Tile::is_splat() const {
  for (auto s : stride)
    if (s != 0) return false;
  return true;
}

bool Tile::is_packed() const {
  std::int64_t next = 1;
  for (std::size_t a = shape.size(); a-- > 0;) {
    if (stride[a] == 0) continue;
    if (stride[a] != next) return false;
    next *= shape[a];
  }
  return true;
}

Tile packed_tile(Ref ref, std::int64_t elem_bytes, Dims shape, std::span<const bool> live) {
  Tile t{ref, elem_bytes, std::move(shape), {}};
  t.stride.assign(t.shape.size(), 0);
  std::int64_t next = 1;
  for (std::size_t a = t.shape.size(); a-- > 0;) {
    if (t.shape[a] == 1 || (!live.empty() && !live[a])) continue;
    t.stride[a] = next;
    next *= t.shape[a];
  }
  return t;
}

std::optional<Tile> reshaped(const Tile& t, std::span<const std::int64_t> shape) {
  Tile out{t.ref, t.elem_bytes, Dims(shape.begin(), shape.end()), Dims(shape.size(), 0)};
  std::size_t from = t.shape.size(), to = shape.size();
  // From the innermost axes outwards: groups of old and new axes with equal products; a group of several old axes must
  // be walkable by one stride.
  while (from > 0 || to > 0) {
    while (from > 0 && t.shape[from - 1] == 1) --from;
    while (to > 0 && shape[to - 1] == 1) --to;
    if (from == 0 || to == 0) break;
    const std::size_t first = from, last = to;
    std::int64_t old_product = t.shape[--from], new_product = shape[--to];
    while (old_product != new_product) {
      if (old_product < new_product) {
        old_product *= t.shape[--from];
      } else {
        new_product *= shape[--to];
      }
    }
    std::int64_t unit = 0, walked = 1;
    bool seen = false;
    for (std::size_t a = first; a-- > from;) {
      if (t.shape[a] == 1) continue;
      if (!seen)
        unit = t.stride[a];
      else if (t.stride[a] != unit * walked)
        return std::nullopt;
      seen = true;
      walked *= t.shape[a];
    }
    for (std::size_t a = last; a-- > to;) {
      if (shape[a] == 1) continue;
      out.stride[a] = unit;
      unit *= shape[a];
    }
  }
  return out;
}

Tile broadcasted(const Tile& t, std::span<const std::int64_t> shape) {
  Tile out = t;
  out.shape.assign(shape.begin(), shape.end());
  return out;  // axes of extent 1 already have stride 0
}

Tile permuted(const Tile& t, std::span<const std::int32_t> permutation) {
  Tile out = t;
  for (std::size_t a = 0; a < permutation.size(); ++a) {
    const auto p = static_cast<std::size_t>(permutation[a]);
    out.shape[a] = t.shape[p];
    out.stride[a] = t.stride[p];
  }
  return out;
}

}  // namespace tessera::cpu
