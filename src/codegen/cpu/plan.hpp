// Where buffers lie in a thread's arena: lifetimes over the instruction tree, merging of buffers that may share memory
// (loop-carried values, results computed in place), then placement at the lowest free offset, so that the working set
// of a block stays small.
#pragma once
#include <cstdint>
#include <vector>

#include "codegen/cpu/frame.hpp"

namespace tessera::cpu {

enum class BufferKind : std::uint8_t { Arena, Constant, Argument };

struct BufferInfo {
  BufferKind kind = BufferKind::Arena;
  std::int64_t bytes = 0;
  std::int64_t where = 0;  ///< Constant: offset in the constants; Argument: slot; Arena: offset (set by plan_buffers)
  const Instr* loop = nullptr;  ///< lives inside this loop though written before it: induction variable, carried value
  bool carried = false;         ///< keeps its value from one iteration to the next
  const Instr* branch = nullptr;  ///< result of this `if`
  bool whole_scope = false;       ///< its address is taken: lives until the innermost loop (or the block) ends
};

/// Sets `where` of all arena buffers; returns the arena's size. `block` runs once per block, after `uniform` ran once.
std::int64_t plan_buffers(std::vector<BufferInfo>& buffers, Code& uniform, Code& block);

}  // namespace tessera::cpu
