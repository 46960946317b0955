// Checked mode on GPUs: detects loads of elements that were never written.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// A tensor that a kernel is given.
struct WatchedTensor {
  int arg = 0;        ///< entry argument: the address of its first element
  std::string label;  ///< its name in error messages: "argument 2 (In<f32, dyn>)"
};

/// The shadow byte of an element that was never written; that of a written one is 0.
inline constexpr int kNeverWritten = 0xFF;

/// Gives the entry `f` one more argument for each of `tensors`, in their order and after the others: the address of a
/// shadow (ptr<i8>), which has a byte for each element of the tensor, at the same strides; null where everything counts
/// as written. Each store through the tensor's argument also clears the shadow of what it stores; each load and atomic
/// update asserts that the shadow of what it reads is clear. Accesses through other pointers are not checked.
/// Returns the size of an element of each tensor in bytes. Throws InternalError for a tensor whose elements have no
/// bytes of their own.
std::vector<int> watch_writes(ir::Function& f, std::span<const WatchedTensor> tensors);

}  // namespace tessera::passes
