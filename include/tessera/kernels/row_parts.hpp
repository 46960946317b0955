// Few long rows: with one block for each row, a GPU with more SMs than rows is partly idle. Such rows are split into
// parts. A first kernel reduces each part to its statistics, and a second one combines those of a row, which are few,
// and computes the results. Here are the choice of the parts by shape and device, and what these kernels share. The
// rule and its reasons: docs/kernels.md.
#pragma once
#include "tessera/kernels/rows.hpp"

namespace tessera::kernels {

/// Elements per chunk of a part: 16 KB of 16-bit and of 32-bit elements. A block has two chunks in flight, and an SM
/// two blocks: the 64 KB that the memory of a GPU needs to be busy. More elements would need too many registers for
/// sums.
constexpr int part_chunk(std::size_t element_bytes) { return element_bytes < 4 ? 8192 : kRowChunk; }
template <class T>
inline constexpr int kPartChunk = part_chunk(sizeof(T));

/// How many parts each row is split into. 0: chosen by shape and device; 1: rows are not split. A part is a whole
/// number of chunks (4096 elements, 8192 if they have less than 32 bits), so that there may be fewer parts than
/// requested.
struct RowParts {
  std::int64_t parts = 0;
};

inline constexpr int kRowPartsLimit = 512;  ///< of a row: their statistics are combined in one tile
inline constexpr int kFewRowParts = 64;     ///< up to here they are combined in a smaller tile

/// The parts of a row: `parts` of `steps` chunks, of which the last may have fewer.
struct RowSplit {
  std::int64_t parts = 1;
  std::int32_t steps = 0;
};
inline constexpr double kSecondKernel = 3;  ///< microseconds of a kernel that combines parts

/// What a kernel that does not split its rows moves through an SM.
struct RowTraffic {
  std::int64_t element_bytes;
  int accesses;                   ///< loads and stores of each element
  double second = kSecondKernel;  ///< microseconds of the kernel that combines the parts
  std::int64_t chunk() const { return part_chunk(static_cast<std::size_t>(element_bytes)); }
};
inline constexpr RowTraffic normalizing(std::size_t element_bytes) {
  return {static_cast<std::int64_t>(element_bytes), 3};  // statistics, results, and the store
}
inline constexpr RowTraffic reducing(std::size_t element_bytes) {
  return {static_cast<std::int64_t>(element_bytes), 1};
}

/// Estimated microseconds of a kernel whose rows of n elements have `parts` blocks each. The device's memory gives each
/// SM 32 KB per microsecond (4.2 TB/s for 132 SMs of an H200; other devices of the data center have 17 to 50). An SM by
/// itself takes up to 2.5 times as much. A block has two chunks in flight, for which it waits 0.8 microseconds.
inline double rows_time(std::int64_t rows, std::int64_t n, std::int64_t parts, const RowTraffic& traffic,
                        const Target& target) {
  constexpr double kShare = 32e3, kAlone = 2.5 * kShare, kLatency = 0.8, kInFlight = 2;
  const auto chunk_bytes = static_cast<double>(traffic.chunk() * traffic.element_bytes);
  const double row_bytes = static_cast<double>(n * traffic.element_bytes) * traffic.accesses;
  const auto blocks = static_cast<double>(ceil_div(rows * parts, std::int64_t{target.num_sms}));  // of the busiest SM
  const double rate = std::min(kAlone, blocks * kInFlight * chunk_bytes / kLatency);
  const double memory = static_cast<double>(rows) * row_bytes / (kShare * target.num_sms);
  return std::max(memory, blocks * row_bytes / static_cast<double>(parts) / rate);
}

/// n elements in at most `parts` parts of whole chunks.
inline RowSplit row_split(std::int64_t n, std::int64_t parts, std::int64_t chunk) {
  const std::int64_t chunks = ceil_div(n, chunk);
  const std::int64_t most = std::max<std::int64_t>(std::min({parts, chunks, std::int64_t{kRowPartsLimit}}), 1);
  const std::int64_t steps = ceil_div(chunks, most);
  return {std::max<std::int64_t>(steps > 0 ? ceil_div(chunks, steps) : 1, 1), static_cast<std::int32_t>(steps)};
}
/// The parts of `rows` rows of n elements on a device. Whether rows are split depends on the device, into how many
/// parts depends on the shape alone, so that devices that split them add in the same order. 1024 blocks are several for
/// each SM of today's GPUs, which balances them. The estimate must promise a gain of a tenth.
inline RowSplit row_split_heuristic(std::int64_t rows, std::int64_t n, const RowTraffic& traffic,
                                    const Target& target) {
  constexpr std::int64_t kBlocks = 1024;
  constexpr double kGain = 0.9;
  if (!target.gpu || rows == 0) return {};
  const RowSplit split = row_split(n, kBlocks / rows, traffic.chunk());
  const double whole = rows_time(rows, n, 1, traffic, target);
  return rows_time(rows, n, split.parts, traffic, target) + traffic.second < kGain * whole ? split : RowSplit{};
}
/// The requested parts, or those of the heuristics. Throws ShapeError for a negative number.
template <Element T>
RowSplit chosen_split(const char* name, const View<T, 2>& rows, RowParts asked, const RowTraffic& traffic,
                      SourceLocation where) {
  expect_shape(asked.parts >= 0, name, "x", rows, "the number of parts may not be negative", where);
  if (asked.parts > 0) return row_split(rows.dim(1), asked.parts, traffic.chunk());
  return row_split_heuristic(rows.dim(0), rows.dim(1), traffic, target_of(rows.device(where)));
}
/// f(integral_constant) with the extent of the tile that holds the statistics of a row.
template <class F>
auto with_parts_tile(const RowSplit& split, F&& f) {
  return with_constant<2>(split.parts > kFewRowParts ? 1 : 0, [&](auto many) {
    return f(std::integral_constant < int, many ? kRowPartsLimit : kFewRowParts > {});
  });
}

/// The chunks of a part.
inline auto steps_of_row_part(const Scalar<i32>& part, const Scalar<i32>& steps, const Scalar<i32>& chunks) {
  return range(part * steps, min((part + 1) * steps, chunks));
}

}  // namespace tessera::kernels
