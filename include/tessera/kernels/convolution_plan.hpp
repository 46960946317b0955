// What a convolution computes, and how: extents, the frame around the input, the windows in it, and the tile of a
// block. Host arithmetic only; the kernels are in convolution.hpp. Axes in space are always three here: those that a
// tensor lacks come first and have one element.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// A number for each of S axes: one for all of them (`.stride = 2`), or one for each (`.stride = {2, 1}`).
template <int S>
struct PerAxis {
  std::array<std::int64_t, static_cast<std::size_t>(S)> of{};

  // NOLINTBEGIN(google-explicit-constructor): numbers in braces
  template <class I>
    requires std::is_convertible_v<I, std::int64_t>
  PerAxis(I all) {
    of.fill(all);
  }
  template <class... I>
    requires(sizeof...(I) == S && S > 1 && (std::is_convertible_v<I, std::int64_t> && ...))
  PerAxis(I... each) : of{static_cast<std::int64_t>(each)...} {}
  // NOLINTEND(google-explicit-constructor)
};

/// Options of a convolution over S axes in space.
template <int S>
struct ConvolutionOptions {
  PerAxis<S> stride = 1;    ///< distance of the windows of neighbouring outputs
  PerAxis<S> padding = 0;   ///< zeros before and behind the input
  PerAxis<S> dilation = 1;  ///< distance of neighbouring elements of a window
  std::int64_t groups = 1;  ///< channels are divided into so many groups; outputs of one see its inputs only
};
/// Options of a transposed convolution over S axes in space.
template <int S>
struct TransposedConvolutionOptions {
  PerAxis<S> stride = 1, padding = 0;
  PerAxis<S> output_padding = 0;  ///< outputs more at the far end, of those that several extents of the input give
  PerAxis<S> dilation = 1;
  std::int64_t groups = 1;
};

namespace convolutions {

using Axes = std::array<std::int64_t, 3>;

/// The sizes of a convolution, of any kind.
struct Sizes {
  std::int64_t images = 0, groups = 1;
  std::int64_t channels = 0, outputs = 0;  ///< of one group
  Axes in{1, 1, 1}, out{1, 1, 1}, filter{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Axes before{0, 0, 0};     ///< zeros before the input; a negative number is of elements that are left out
  std::int64_t phases = 1;  ///< a launch computes so many outputs of these extents
  std::int64_t window(std::size_t a) const { return (filter[a] - 1) * dilation[a] + 1; }
  /// The input that the windows reach along an axis.
  std::int64_t reached(std::size_t a) const { return (out[a] - 1) * stride[a] + window(a); }
};

/// The input with its frame: channels of a group rounded up to whole 16 bytes.
struct Frame {
  bool copied = false;  ///< the input as it is has no zeros, or its rows cannot be loaded by tensor copies
  Axes extents{1, 1, 1};
  std::int64_t channels = 0;
};
/// The frame of an input of which so many elements are reached along each axis, from `before` elements before it.
inline Frame frame_of(const Axes& in, const Axes& before, const Axes& reached, std::int64_t channels,
                      std::size_t element_bytes) {
  const std::int64_t vector = 16 / static_cast<std::int64_t>(element_bytes);
  Frame f;
  f.channels = ceil_div(channels, vector) * vector;
  f.copied = f.channels != channels;
  for (std::size_t a = 0; a < 3; ++a) f.copied = f.copied || before[a] != 0 || reached[a] > in[a];
  f.extents = f.copied ? reached : in;
  return f;
}
inline Frame frame_of(const Sizes& s, std::size_t element_bytes) {
  return frame_of(s.in, s.before, {s.reached(0), s.reached(1), s.reached(2)}, s.channels, element_bytes);
}

/// The pieces of a frame that a block may copy: so many bytes of channels of neighbouring columns. frame_piece_of()
/// chooses the one with the fewest blocks, because a narrow image would leave most of a wide piece empty.
inline constexpr int kBytesOfFramePieces[] = {32, 128, 256, 512}, kElementsOfFramePieces = 2048;
inline int frame_piece_of(std::int64_t columns, std::int64_t channels, std::size_t element_bytes) {
  int best = 0;
  std::int64_t least = -1;
  for (std::size_t i = 0; i < std::size(kBytesOfFramePieces); ++i) {
    const std::int64_t wide = kBytesOfFramePieces[i] / static_cast<std::int64_t>(element_bytes);
    const std::int64_t blocks = ceil_div(columns, kElementsOfFramePieces / wide) * ceil_div(channels, wide);
    if (least < 0 || blocks < least) best = static_cast<int>(i), least = blocks;
  }
  return best;
}

/// The output positions of a block: images, then elements along each axis in space.
struct Box {
  int images, extents[3];
  constexpr std::int64_t positions() const { return std::int64_t{images} * extents[0] * extents[1] * extents[2]; }
};
/// A block's box, and the channels of the output that it computes.
struct BlockTile {
  Box box;
  int columns;
};
/// Boxes of 8 x 8 and 4 x 4 positions divide the extents that networks have (28, 56, 112); several images at once
/// divide 7 and 14.
inline constexpr Box kBoxes[] = {{1, {1, 1, 128}}, {1, {1, 4, 32}}, {1, {1, 8, 16}}, {1, {2, 8, 8}},
                                 {2, {1, 8, 8}},   {8, {1, 4, 4}},  {16, {1, 1, 8}}},
                     kLargeBoxes[] = {{1, {1, 1, 256}}, {1, {1, 8, 32}}, {4, {1, 8, 8}}, {32, {1, 1, 8}}};
inline constexpr int kColumns[] = {64, 128, 256}, kColumnsOfLargeBoxes = 64;
inline constexpr int kSmallTileCount = static_cast<int>(std::size(kBoxes)),
                     kTileCount = kSmallTileCount * static_cast<int>(std::size(kColumns)) +
                                  static_cast<int>(std::size(kLargeBoxes));
/// The smallest tiles come first, because products without tensor cores take no others.
inline constexpr std::array<BlockTile, kTileCount> kTiles = [] {
  std::array<BlockTile, kTileCount> all{};
  std::size_t at = 0;
  for (const int columns : kColumns)
    for (const Box& box : kBoxes) all[at++] = {box, columns};
  for (const Box& box : kLargeBoxes) all[at++] = {box, kColumnsOfLargeBoxes};
  return all;
}();

/// The blocks that compute the output by these tiles. Boxes of several images are for outputs of one plane.
inline std::int64_t blocks_of(const Sizes& s, const BlockTile& tile) {
  std::int64_t blocks = ceil_div(s.images, std::int64_t{tile.box.images}) * s.phases * s.groups *
                        ceil_div(s.outputs, std::int64_t{tile.columns});
  for (std::size_t a = 0; a < 3; ++a) blocks *= ceil_div(s.out[a], std::int64_t{tile.box.extents[a]});
  return blocks;
}

/// The tile with which the busiest SM takes the least time, among the first `choices`; of equals the one that loads
/// least. In a step of 128 bytes of channels an SM of sm_90 multiplies for one clock for each 32 results (4096
/// operations a clock), and loads for two clocks for each row of 128 bytes (64 bytes a clock).
inline int tile_of(const Sizes& s, const Target& target, int choices) {
  constexpr std::int64_t kResultsAClock = 32, kClocksARow = 2;
  int best = 0;
  std::int64_t least = -1, least_loads = 0;
  for (int i = 0; i < choices; ++i) {
    const BlockTile& tile = kTiles[static_cast<std::size_t>(i)];
    if (tile.box.images > 1 && s.out[0] > 1) continue;
    const std::int64_t rows = tile.box.positions() + tile.columns, blocks = blocks_of(s, tile);
    const std::int64_t step = std::max(tile.box.positions() * tile.columns / kResultsAClock, kClocksARow * rows);
    const std::int64_t time = ceil_div(blocks, std::int64_t{target.num_sms}) * step, loads = blocks * rows;
    if (least < 0 || time < least || (time == least && loads < least_loads))
      best = i, least = time, least_loads = loads;
  }
  return best;
}

/// Whether convolution_by_rows computes it: its windows are neighbours along the last axis, and it has so few rows that
/// a thread keeps their weights. Places of rows are numbers of the host, of 32 bits.
inline bool few_rows(const Sizes& s) {
  constexpr std::int64_t kMaxRows = 8, kMaxApart = 1 << 20;
  return s.stride[2] == 1 && s.filter[1] <= kMaxRows && s.stride[1] <= kMaxApart && s.dilation[1] <= kMaxApart;
}
/// The rows of the input that `outputs` rows of the output read, relative to the first of them.
inline std::vector<int> rows_of_input(int outputs, int filter, int stride, int dilation) {
  std::vector<int> all;
  for (int o = 0; o < outputs; ++o)
    for (int r = 0; r < filter; ++r) all.push_back(o * stride + r * dilation);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Numbers of the kernel that find the input of a filter position: in units of the channels of one group.
struct Walk {
  std::int64_t images_apart = 0;  ///< units of an image
  Axes filter{1, 1, 1};           ///< positions that are walked
  Axes apart{0, 0, 0};            ///< units from one position to the next
};

/// The view of the framed input that a block loads boxes from: [planes or images, units, out, out, line], and of the
/// filter: [groups, outputs, positions, line]. Tensor copies have at most five axes.
struct Windows {
  std::array<std::int64_t, 5> dims{}, strides{};
  std::int64_t positions = 1, line = 0;
  Walk walk;
};
/// Neighbouring elements of a window along the last axis are neighbours in memory, so that they are one line with their
/// channels, unless they are dilated or have other groups between them. `by_image`: the first axis is that of the
/// images, of an output that has one plane; otherwise it is that of the planes, and images are among the units.
inline Windows windows_of(const Sizes& s, const Frame& f, bool by_image, bool lines) {
  Windows w;
  const std::int64_t unit = std::max<std::int64_t>(f.channels, 1);
  const std::int64_t pixel = s.groups * f.channels;
  const Axes pitch{f.extents[1] * f.extents[2] * pixel, f.extents[2] * pixel, pixel};
  const std::int64_t image = f.extents[0] * pitch[0];
  w.walk.filter = s.filter;
  w.line = f.channels;
  if (lines && s.groups == 1 && s.dilation[2] == 1) {
    w.line = s.filter[2] * f.channels;
    w.walk.filter[2] = 1;
  }
  std::int64_t units = s.groups;
  for (std::size_t a = 0; a < 3; ++a) {
    w.walk.apart[a] = s.dilation[a] * pitch[a] / unit;
    units += (w.walk.filter[a] - 1) * w.walk.apart[a];
    w.positions *= w.walk.filter[a];
  }
  w.walk.images_apart = by_image ? 0 : image / unit;
  units += std::max<std::int64_t>(s.images - 1, 0) * w.walk.images_apart;
  w.dims = {by_image ? s.images : s.out[0], s.images > 0 ? units : 0, s.out[1], s.out[2], w.line};
  w.strides = {by_image ? image : s.stride[0] * pitch[0], f.channels, s.stride[1] * pitch[1], s.stride[2] * pitch[2],
               1};
  return w;
}

}  // namespace convolutions
}  // namespace tessera::kernels
