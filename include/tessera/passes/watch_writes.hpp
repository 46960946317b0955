// Checked mode on devices that cannot look at their memory while they run: reads of elements that nothing has written.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// A tensor that a kernel is given.
struct WatchedTensor {
  int arg = 0;        ///< entry argument: the address of its first element
  std::string label;  ///< how errors name it: "argument 2 (In<f32, dyn>)"
};

/// The byte that a tensor's shadow holds for an element that nothing has written; written ones have 0.
inline constexpr int kNeverWritten = 0xFF;

/// Gives the entry `f` one more argument for each of `tensors`, in their order and behind the others: the address of a
/// shadow (ptr<i8>), which has a byte for each element of the tensor, at the same strides; null where everything counts
/// as written. Each store through the tensor's argument also clears the shadow of what it stores; each load and atomic
/// update asserts that the shadow of what it reads is clear. What is reached through other pointers is not watched.
/// Returns how many bytes an element of each tensor has. Throws InternalError for a tensor whose elements have no bytes
/// of their own.
std::vector<int> watch_writes(ir::Function& f, std::span<const WatchedTensor> tensors);

}  // namespace tessera::passes
