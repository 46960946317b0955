// Tiles that are used where they lie in memory: whole ones without gaps, and, by instructions that can find them there,
// rows that lie apart.
#pragma once
#include <span>

#include "codegen/cpu/frame.hpp"

namespace tessera::cpu {

/// A tile in memory: all of it exists. Strides in bytes.
struct Borrowed {
  std::byte* address;
  const std::int64_t* stride;
};

/// How a tile may lie in memory, so that it need not be copied: without gaps, as rows that are equally far apart, or
/// with any stride along both.
enum class Lying : std::uint8_t { Whole, Rows, Strides };

/// The extent of the last axis that is not 1, if an axis before it is not 1 either; else 0: there are no rows.
std::int64_t row_length(std::span<const std::int64_t> tile);

/// Makes the buffer the tile in memory, if it lies there as it may; sets Frame::pitch and Frame::step. False: the tile
/// has to be copied.
bool borrow_tile(Frame&, std::uint32_t buffer, std::span<const std::int64_t> tile, std::int64_t elem_bytes, Lying,
                 Borrowed);
/// The buffer is its own memory again, which is about to be written, without gaps.
void own_tile(Frame&, std::uint32_t buffer, std::span<const std::int64_t> tile, std::int64_t elem_bytes);

}  // namespace tessera::cpu
