// Transposed convolutions with a stride: outputs whose coordinates have the same remainder by the stride are a phase.
// Each phase is a convolution of the input, without a stride, with some of the filter's positions. Host arithmetic
// only; the kernels are in convolution_transposed.hpp.
#pragma once
#include <numeric>

#include "tessera/kernels/convolution_plan.hpp"

namespace tessera::kernels::convolutions {

/// One axis: output o is the sum of the products of filter position k and input i for all i and k with
/// i * stride == o + padding - k * dilation.
struct TransposedAxis {
  std::int64_t in = 1, out = 1, filter = 1, stride = 1, padding = 0, dilation = 1;

  /// Zeros before the input; a negative number is of elements that are left out.
  std::int64_t before() const {
    const std::int64_t last = padding - (filter - 1) * dilation;  // what output 0 has for the last position
    const std::int64_t lowest = last > 0 ? ceil_div(last, stride) : -(-last / stride);
    return -std::min(lowest, padding / stride);
  }
  /// Elements from there to the last input of the last output.
  std::int64_t reached() const { return (out - 1 + padding) / stride + before() + 1; }
};

/// Which filter positions an output has: first, first + step, ... (`count` of them), and how far its input is.
template <class I>
struct Taps {
  I first, count, ahead;
};
template <class I>
Taps<I> taps_of(const I& place, const I& extent, const I& step) {
  const I first = place % step;
  return {first, (extent + step - 1 - first) / step, place / step};
}

/// Neighbouring phases that have equally many outputs, of one axis. Phase r < width has the outputs first + r + spacing
/// * q for q < count. With t = taps_of(place + r + advance * q, extent, step), tap j is filter position t.first + j *
/// step, and its input is element begin + t.ahead - j * apart of the frame.
struct Phases {
  std::int64_t first = 0, width = 1, count = 0, spacing = 1;
  std::int64_t place = 0, advance = 1, extent = 0, step = 1;  ///< extent 0: no filter position reaches these outputs
  std::int64_t begin = 0, apart = 0;
  /// The largest element of the frame of outputs with q = 0.
  std::int64_t reach() const { return extent == 0 ? 0 : begin + (place + width - 1) / step; }
};
/// The phases of an axis, in order. Those that have one output more come first, then the others. With dilation
/// neighbours have no common rule, so each phase that the filter reaches is by itself, with the first of its positions
/// as its place; so it is with strides whose places are no numbers of 32 bits. `planes`: every output is a position of
/// its own, as along an axis along which boxes have one element.
inline std::vector<Phases> phases_of(const TransposedAxis& axis, bool planes) {
  constexpr std::int64_t kMaxShared = 1 << 28;
  const std::int64_t s = axis.stride, d = axis.filter > 1 ? axis.dilation : 1;
  const std::int64_t base = axis.padding + axis.before() * s, remainders = std::min(s, axis.out);
  const bool shared = d == 1 && s <= kMaxShared;
  if (shared && planes) return {{0, 1, axis.out, 1, base, 1, axis.filter, s, 0, 1}};
  std::vector<std::int64_t> starts{0, axis.out % s};
  for (std::int64_t k = 0; k < axis.filter && !shared; ++k) {
    const std::int64_t r = ((k * d - axis.padding) % s + s) % s;
    starts.insert(starts.end(), {r, r + 1});
  }
  for (std::int64_t r = 0; r < remainders && planes; ++r) starts.push_back(r);
  std::erase_if(starts, [&](std::int64_t r) { return r >= remainders; });
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  starts.push_back(remainders);
  std::vector<Phases> all;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::int64_t first = starts[i], common = std::gcd(s, d), step = std::min(s / common, axis.filter);
    Phases p{first, starts[i + 1] - first, ceil_div(axis.out - first, s), s};
    std::int64_t k = 0;
    while (k < axis.filter && !shared && (base + first - k * d) % s != 0) ++k;
    if (shared)
      p.place = base + first, p.advance = p.step = s, p.extent = axis.filter, p.apart = 1;
    else if (k < axis.filter)
      p.place = k, p.advance = p.step = step, p.extent = axis.filter, p.begin = (base + first - k * d) / s,
      p.apart = d / common;
    all.push_back(p);
  }
  return all;
}

/// A transposed convolution.
struct Transposed {
  std::int64_t images = 0, groups = 1;
  std::int64_t channels = 0, outputs = 0;  ///< of one group
  std::array<TransposedAxis, 3> axes{};
};
inline Frame frame_of(const Transposed& t, std::size_t element_bytes) {
  Axes in, before, reached;
  for (std::size_t a = 0; a < 3; ++a)
    in[a] = t.axes[a].in, before[a] = t.axes[a].before(), reached[a] = t.axes[a].reached();
  return frame_of(in, before, reached, t.channels, element_bytes);
}

/// The convolution that it is if there is no stride, of its filter's last position first.
inline Sizes backwards(const Transposed& t) {
  Sizes s;
  s.images = t.images, s.groups = t.groups, s.channels = t.channels, s.outputs = t.outputs;
  for (std::size_t a = 0; a < 3; ++a) {
    const TransposedAxis& axis = t.axes[a];
    s.in[a] = axis.in, s.out[a] = axis.out, s.filter[a] = axis.filter, s.dilation[a] = axis.dilation;
    s.before[a] = s.window(a) - 1 - axis.padding;
  }
  return s;
}

/// What a launch computes: phases of each axis, the first of which is that of planes.
using PhasesOfLaunch = std::array<Phases, 3>;
inline std::vector<PhasesOfLaunch> launches_of(const Transposed& t) {
  std::vector<PhasesOfLaunch> all;
  for (const Phases& planes : phases_of(t.axes[0], true))
    for (const Phases& rows : phases_of(t.axes[1], false))
      for (const Phases& columns : phases_of(t.axes[2], false)) all.push_back({planes, rows, columns});
  return all;
}
/// Its sizes, for tile_of().
inline Sizes sizes_of(const Transposed& t, const PhasesOfLaunch& p) {
  Sizes s;
  s.images = t.images, s.groups = t.groups, s.channels = t.channels, s.outputs = t.outputs;
  s.out = {1, p[1].count, p[2].count};
  s.phases = p[0].count * p[1].width * p[2].width;
  return s;
}

/// The view of the framed input that a block loads boxes from, [images, units, rows, columns, channels], and what the
/// kernel's walk needs, in units: the channels of one group of a pixel.
struct PhaseWindows {
  std::array<std::int64_t, 5> dims{}, strides{};
  std::int64_t start = 0, images_apart = 0;
  Axes pitch{};  ///< from an element of the frame to the next
};
/// `by_image`: the first axis is that of the images; otherwise images are among the units.
inline PhaseWindows windows_of(const Transposed& t, const Frame& f, const PhasesOfLaunch& p, bool by_image) {
  PhaseWindows w;
  w.pitch = {f.extents[1] * f.extents[2] * t.groups, f.extents[2] * t.groups, t.groups};
  const std::int64_t image = f.extents[0] * w.pitch[0];
  // Planes are units, whatever their phase is.
  std::int64_t units = t.groups + (f.extents[0] - 1) * w.pitch[0];
  for (std::size_t a = 0; a < 3; ++a) {
    w.start += p[a].begin * w.pitch[a];
    if (a > 0) units += p[a].reach() * w.pitch[a];
  }
  w.images_apart = by_image ? 0 : image;
  units += std::max<std::int64_t>(t.images - 1, 0) * w.images_apart;
  w.dims = {by_image ? t.images : 1, t.images > 0 ? units : 0, p[1].count, p[2].count, f.channels};
  w.strides = {image * f.channels, f.channels, w.pitch[1] * f.channels, w.pitch[2] * f.channels, 1};
  return w;
}

}  // namespace tessera::kernels::convolutions
