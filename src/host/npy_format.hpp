// The header of NumPy's .npy files. Its contents are not trusted. Does not depend on tensors.
// Source of the format: numpy.lib.format, "Format Version 1.0/2.0/3.0" (a magic string, a version, the header's length,
// a Python dictionary literal, then the elements).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/element.hpp"
#include "tessera/base/source_location.hpp"

namespace tessera::detail {

inline constexpr int kNpyMaxRank = 32;  ///< NumPy's own limit (NPY_MAXDIMS before 2.0)
/// Longer headers are rejected. Headers of Tessera and NumPy are padded to a multiple of 64 and stay below 1 KiB for
/// any rank.
inline constexpr std::uint32_t kNpyMaxHeader = 1u << 16;

struct NpyHeader {
  ElementType element{};
  int rank = 0;
  std::array<std::int64_t, kNpyMaxRank> dims{};
  std::uint64_t elements = 0;     ///< product of dims
  std::uint64_t data_offset = 0;  ///< bytes before the first element
};

/// The fixed part of a file: magic, version and the length of the dictionary. `prefix` holds the file's first bytes (12
/// if it has as many). Returns the offset of the dictionary and sets its length. Throws IoError.
std::uint32_t npy_prefix(std::string_view prefix, std::uint64_t file_size, std::uint32_t& header_length,
                         const std::string& path, SourceLocation where);

/// Parses the dictionary. Checks type, order, rank, the product of the extents and that the file has exactly that many
/// bytes of elements, before anything is allocated. Throws IoError.
NpyHeader npy_dictionary(std::string_view text, std::uint64_t data_offset, std::uint64_t file_size,
                         const std::string& path, SourceLocation where);

/// NumPy's name of an element type ("<f4", "|b1"), or null where the format has none (bf16, fp8, tf32).
const char* npy_type(ElementType) noexcept;

/// Everything before the first element, version 1.0, padded to a multiple of 64 bytes.
std::string npy_header(ElementType, const std::int64_t* dims, int rank);

}  // namespace tessera::detail
