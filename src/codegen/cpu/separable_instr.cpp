// Running separable accesses: the interval along each axis that is inside, then stretches of memory.
#include "codegen/cpu/separable_instr.hpp"

#include <algorithm>

#include "codegen/cpu/checker.hpp"
#include "codegen/cpu/tile_instr.hpp"

namespace tessera::cpu {
namespace {

std::int64_t listed_place(const Frame& f, const SeparablePlace::Offset& o, std::int64_t i) {
  const std::int64_t bytes = ir::info(o.elem).bytes;
  return read_signed(f, {o.places.buffer, o.places.offset + i * bytes}, o.elem);
}
/// Addresses wrap.
std::int64_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// The numbers of a counted limit: element i is inside if first + i, of so many bits, is below bound.
struct Count {
  std::uint64_t first, bound, mask;
  Count(const Frame& f, const SeparablePlace::Limit& l)
      : first(l.from_zero ? 0 : read_unsigned(f, l.first, l.elem)),
        bound(read_unsigned(f, l.bound, l.elem)),
        mask(l.elem == ir::Elem::I64 ? ~std::uint64_t{0} : (std::uint64_t{1} << ir::info(l.elem).bits) - 1) {}
  bool is_inside(std::int64_t i) const { return ((first + static_cast<std::uint64_t>(i)) & mask) < bound; }
  /// Narrows [begin, end) to what is inside. False if that is not one interval: where the count wraps into a bound that
  /// lies close below the wrap.
  bool narrow(std::int64_t& begin, std::int64_t& end, std::int64_t tile) const {
    const auto n = static_cast<std::uint64_t>(tile);
    const std::uint64_t wrap = (~first & mask) + (first == 0 ? 0 : 1);  // the element whose number is 0, or beyond all
    std::uint64_t from = 0, to = 0;
    if (first < bound) {
      if (first != 0 && wrap < n) return false;
      to = bound - first;
    } else if (bound != 0 && wrap < n) {
      from = wrap;
      to = bound > ~std::uint64_t{0} - wrap ? n : wrap + bound;
    }
    begin = std::max(begin, static_cast<std::int64_t>(std::min(from, n)));
    end = std::min(end, static_cast<std::int64_t>(std::min(to, n)));
    return true;
  }
};

SeparableWindow resolve(const Frame& f, const SeparablePlace& p) {
  SeparableWindow w;
  std::int64_t address = *f.at<std::int64_t>(p.base);
  for (std::size_t a = 0; a < p.tile.size(); ++a) w.begin[a] = 0, w.end[a] = p.tile[a], w.step[a] = 0;
  for (const SeparablePlace::Offset& o : p.offsets) {
    const std::int64_t places = o.one || (o.axis >= 0 && !o.counted) ? 1 : read_signed(f, o.places, o.elem);
    if (o.axis < 0)
      address = sum(address, product(places, o.bytes));
    else if (o.counted)
      w.step[o.axis] = sum(w.step[o.axis], product(places, o.bytes));
  }
  for (const SeparablePlace::Limit& l : p.limits) {
    if (l.axis < 0)
      w.empty |= *f.at<std::uint8_t>(l.bound) == 0;
    else if (l.counted)
      w.simple &= Count(f, l).narrow(w.begin[l.axis], w.end[l.axis], p.tile[static_cast<std::size_t>(l.axis)]);
  }
  for (std::size_t a = 0; a < p.tile.size(); ++a) {
    w.empty |= w.begin[a] >= w.end[a];
    w.whole &= w.begin[a] == 0 && w.end[a] == p.tile[a];
  }
  w.whole &= !w.empty;
  w.address = reinterpret_cast<std::byte*>(address);
  return w;
}

/// Along the listed axis: the bytes to add at place i, and whether it is inside.
std::int64_t listed_offset(const Frame& f, const SeparablePlace& p, std::int64_t i) {
  std::int64_t bytes = 0;
  for (const SeparablePlace::Offset& o : p.offsets)
    if (o.axis == p.listed && !o.counted) bytes = sum(bytes, product(listed_place(f, o, i), o.bytes));
  return bytes;
}
bool is_listed(const Frame& f, const SeparablePlace& p, std::int64_t i) {
  return std::ranges::all_of(p.limits, [&](const SeparablePlace::Limit& l) {
    return l.axis != p.listed || l.counted || f.at<std::uint8_t>({l.bound.buffer, l.bound.offset + i})[0] != 0;
  });
}

/// f(offset in the tile, address) for each element that is inside, whatever the limits are.
template <class F>
void for_each_element(const Frame& f, const SeparablePlace& p, const SeparableWindow& w, F&& call) {
  for (const SeparablePlace::Limit& l : p.limits)
    if (l.axis < 0 && *f.at<std::uint8_t>(l.bound) == 0) return;
  std::int64_t index[kMaxRank] = {};
  for (;;) {
    std::int64_t tile = 0, address = reinterpret_cast<std::int64_t>(w.address);
    bool inside = true;
    for (std::size_t a = 0; a < p.tile.size(); ++a) {
      tile += index[a] * p.stride[a];
      address = sum(address, product(index[a], w.step[a]));
    }
    for (const SeparablePlace::Limit& l : p.limits)
      if (l.axis >= 0 && l.counted) inside = inside && Count(f, l).is_inside(index[l.axis]);
    if (p.listed >= 0) {
      address = sum(address, listed_offset(f, p, index[p.listed]));
      inside = inside && is_listed(f, p, index[p.listed]);
    }
    if (inside) call(tile, reinterpret_cast<std::byte*>(address));
    std::size_t a = p.tile.size();
    while (a > 0 && ++index[a - 1] == p.tile[a - 1]) index[--a] = 0;
    if (a == 0) return;
  }
}

/// f(shape with the tile's strides first, offset in the tile, address) for each stretch of axes that are counted.
template <class F>
void for_each_stretch(const Frame& f, const SeparablePlace& p, const SeparableWindow& w, bool load, F&& call) {
  CopyShape shape;
  std::int64_t tile = 0, address = reinterpret_cast<std::int64_t>(w.address);
  for (std::size_t a = 0; a < p.tile.size(); ++a) {
    if (static_cast<int>(a) == p.listed) continue;
    shape.add_axis(w.end[a] - w.begin[a], load ? p.stride[a] : w.step[a], load ? w.step[a] : p.stride[a]);
    tile += w.begin[a] * p.stride[a];
    address = sum(address, product(w.begin[a], w.step[a]));
  }
  shape.simplify(p.elem_bytes);
  if (p.listed < 0) return call(shape, tile, reinterpret_cast<std::byte*>(address));
  const auto listed = static_cast<std::size_t>(p.listed);
  for (std::int64_t i = w.begin[listed]; i < w.end[listed]; ++i) {
    if (!is_listed(f, p, i)) continue;
    const std::int64_t at = sum(sum(address, product(i, w.step[listed])), listed_offset(f, p, i));
    call(shape, tile + i * p.stride[listed], reinterpret_cast<std::byte*>(at));
  }
}

void check(Frame& f, const SeparablePlace& p, const SeparableWindow& w, const Site& site) {
  const std::int32_t access = f.checker->begin(f, site);
  for_each_element(f, p, w, [&](std::int64_t, std::byte* address) {
    f.checker->touch(site, access, address, p.elem_bytes, nullptr);
  });
}

}  // namespace

std::int64_t SeparableLoadInstr::row_length() const { return cpu::row_length(place.tile); }

Status SeparableLoadInstr::run(Frame& f) const {
  const SeparableWindow w = resolve(f, place);
  if (f.checker != nullptr) check(f, place, w, site);
  if (borrow_) {
    const bool there = w.whole && w.simple;
    if (there && borrow_tile(f, dst.buffer, place.tile, place.elem_bytes, lying_, {w.address, w.step}))
      return Status::Next;
    own_tile(f, dst.buffer, place.tile, place.elem_bytes);
  }
  auto* to = f.at<std::byte>(dst);
  if (!w.whole || !w.simple || place.listed >= 0) {
    const std::uint64_t bits = padding.present ? load_bits(f.at<std::byte>(padding.ref), place.elem_bytes) : 0;
    fill_elements(to, count, bits, place.elem_bytes);
  }
  if (!w.simple) {
    for_each_element(f, place, w, [&](std::int64_t tile, std::byte* from) {
      store_bits(to + tile, load_bits(from, place.elem_bytes), place.elem_bytes);
    });
  } else if (!w.empty) {
    for_each_stretch(f, place, w, true, [&](const CopyShape& shape, std::int64_t tile, const std::byte* from) {
      copy_elements(shape, to + tile, from, place.elem_bytes);
    });
  }
  if (bools) normalise_bools(to, count);
  return Status::Next;
}

Status SeparableStoreInstr::run(Frame& f) const {
  SeparableWindow w = resolve(f, place);
  w.simple = w.simple && std::all_of(w.step, w.step + place.tile.size(), [](std::int64_t step) { return step >= 0; });
  if (f.checker != nullptr) check(f, place, w, site);
  const auto* from = f.at<std::byte>(src);
  if (!w.simple) {
    for_each_element(f, place, w, [&](std::int64_t tile, std::byte* to) {
      store_bits(to, load_bits(from + tile, place.elem_bytes), place.elem_bytes);
    });
  } else if (!w.empty) {
    for_each_stretch(f, place, w, false, [&](const CopyShape& shape, std::int64_t tile, std::byte* to) {
      copy_elements(shape, to, from + tile, place.elem_bytes);
    });
  }
  return Status::Next;
}

}  // namespace tessera::cpu
