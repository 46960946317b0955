// Walks the operands of an elementwise primitive in stretches of contiguous elements. Shared by all instruction sets:
// the work is in the stretches.
#pragma once
#include "codegen/cpu/prims/prims.hpp"

namespace tessera::cpu::prims {

/// Elements handled between two looks at the operands: buffers of this length stay in the first-level cache.
inline constexpr std::int64_t kChunk = kUniformCopies;

/// One stretch of at most kChunk contiguous elements; absent operands are null.
using ChunkFn = void (*)(void* out, const void* a, const void* b, const void* c, std::int64_t n);

/// Number and sizes (bytes) of the elements of a primitive.
struct Layout {
  int arity;
  int out_bytes;
  int bytes[3];
};

void walk(ChunkFn, const Layout&, void* dst, const Operand* srcs, std::int64_t rows, std::int64_t cols);

}  // namespace tessera::cpu::prims
