// Checked mode on GPUs: detects loads of elements that were never written.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tessera/abi/kernel_abi.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// A tensor that a kernel is given.
struct WatchedTensor {
  int arg = 0;        ///< entry argument: the address of its first element
  std::string label;  ///< its name in error messages: "argument 2 (In<f32, dyn>)"
};

/// Gives the entry `f` one more argument for each of `tensors`, in their order and after the others: the address of a
/// shadow (ptr<i8>), which has a byte for each element of the tensor, at the same strides; null where everything counts
/// as written (calling::kNeverWritten). Each store through the tensor's argument also clears the shadow of what it
/// stores; each load and atomic update asserts that the shadow of what it reads is clear. Accesses through other
/// pointers are not checked. Returns what a launch passes for each of them, where the n-th tensor is the storage of the
/// n-th access. Throws InternalError for a tensor whose elements have no bytes of their own.
std::vector<calling::WatchedArgument> watch_writes(ir::Function& f, std::span<const WatchedTensor> tensors);

}  // namespace tessera::passes
