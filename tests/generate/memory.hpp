// The memory of one launch: every tensor inside a storage of its own, with guard zones around, all in one block that is
// copied, used and compared as a whole.
#pragma once
#include <cstddef>
#include <vector>

#include "generate/program.hpp"

namespace tessera::generate {

/// One tensor parameter of a launch.
struct Placed {
  int param = 0;
  ElementType elem = ElementType::i32;
  const Layout* layout = nullptr;
  std::size_t origin = 0;              ///< of element (0, ..., 0), in bytes from the start of the memory
  std::size_t storage = 0, bytes = 0;  ///< the storage that the tensor is a part of
};

struct Memory {
  std::vector<Placed> tensors;  ///< in the order of the parameters
  std::vector<std::byte> initial;
  std::vector<std::uint8_t> element;  ///< one per byte: 1 if it belongs to an element of a tensor

  /// Lays out and fills. False if the launch is too large.
  bool make(const Program&, const Launch&);
  /// Describes where two results differ; empty if they are equal. NaNs of floats are equal to each other.
  std::string difference(const Program&, const std::byte* expected, const std::byte* found) const;
};

inline constexpr std::size_t kGuard = 256;  ///< bytes on either side of a storage

}  // namespace tessera::generate
