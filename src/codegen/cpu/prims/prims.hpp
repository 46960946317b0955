// The vectorised tile primitives of the CPU backend: plain function pointers, selected by operation. The IR is used
// only to select a function (once, when a kernel is translated); the functions do not depend on it.
//
// Storage of tile elements ("registers"): contiguous row-major arrays. f16/bf16: 16 bits; tf32: 32 bits (value already
// rounded); i1: one byte, 0 or 1; fp8 formats: one byte; i4/f4: one byte, the value in the low nibble; pointers: 64
// bits. No alignment may be assumed beyond the element's own (whole tiles are 64-byte aligned, strips of them are not).
// Every function is re-entrant, throws nothing and allocates nothing.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tessera/ir/operation.hpp"

namespace tessera::cpu::prims {

/// Copies of a value that stand for any number of them: see Operand::uniform.
inline constexpr std::int64_t kUniformCopies = 256;

/// One source of an elementwise primitive, seen as a rows x cols matrix. Element (r, c) is at
/// `data + r * row_stride + (splat ? 0 : c * element_size)`. So a full tile has row_stride = cols * size, a splat has
/// row_stride 0 and splat set, a [1,N] row has row_stride 0, an [M,1] column has row_stride = size and splat set.
struct Operand {
  const void* data;
  std::int64_t row_stride;  ///< bytes; any value (also 0 or larger than a row)
  bool splat;               ///< one value for the whole row
  /// One value for the whole matrix, of which `data` holds kUniformCopies (or one for each element, if those
  /// are fewer); the stride and `splat` mean nothing then.
  bool uniform = false;
};

/// dst[r][c] = op(srcs[0][r][c], ...) for r < rows, c < cols; dst is contiguous (row r starts at r * cols elements).
/// `srcs` has one entry per operand of the operation, in operand order. dst may be exactly the same array as a full,
/// contiguous source of the same or a larger element size (in place), never a partly overlapping one.
/// rows = cols = 1 (scalar index arithmetic) must be fast: about 5 ns.
using ElementwiseFn = void (*)(void* dst, const Operand* srcs, std::int64_t rows, std::int64_t cols);

/// The primitive for an elementwise operation with these element types and attributes: everything that
/// docs/semantics.md gives a meaning per element, including conversions, comparisons, select, offset (pointer + index *
/// pointee size), ptr_to_int, int_to_ptr, fpowi. Null for other operations. (bitcast, ptr_to_ptr, assume, reshape,
/// broadcast cost nothing and need no function.)
ElementwiseFn elementwise(const ir::Operation&);

/// Reduction of src seen as [outer, n, inner] along n into dst [outer, inner], both contiguous. dst holds initial
/// values and is combined with them: dst = op(dst, src[.., 0, ..], ..., src[.., n-1, ..]). The association is fixed by
/// n and inner alone (never by alignment or the CPU's thread count), but need not be left to right.
using ReduceFn = void (*)(void* dst, const void* src, std::int64_t outer, std::int64_t n, std::int64_t inner);

/// For the only operation of a region that combines the region's two arguments (either order) and yields the result:
/// addf, mulf, maxf, minf (with their attributes), addi, muli, maxi, mini, andi, ori, xori. Null: no primitive (the
/// evaluator then runs the body itself, with elementwise primitives).
ReduceFn reduce(const ir::Operation& body);

/// Inclusive scan of src seen as [outer, n, inner] along n, backwards if reverse. The first result is op(src[first],
/// identity). dst may be src. Left-to-right association.
using ScanFn = void (*)(void* dst, const void* src, const void* identity, std::int64_t outer, std::int64_t n,
                        std::int64_t inner, bool reverse);
ScanFn scan(const ir::Operation& body);

/// A matrix operand: element (b, r, c) is at data + (b * batch_stride + r * row_stride + c * col_stride) *
/// element_size. Strides in elements, any of them 0; the usual case has one of row_stride, col_stride equal to 1
/// (either: transposed operands).
struct Matrix {
  const void* data;
  std::int64_t batch_stride, row_stride, col_stride;
};
struct MmaArgs {
  Matrix a;          ///< [m, k]
  Matrix b;          ///< [k, n]
  const void* acc;   ///< contiguous [batch, m, n]
  void* dst;         ///< contiguous [batch, m, n]; may be acc
  Matrix a_scale{};  ///< mmaf_scaled only: [m, k / block]
  Matrix b_scale{};  ///< mmaf_scaled only: [k / block, n]
  std::int64_t batch, m, n, k;
  void* scratch;  ///< mma_scratch_bytes, 64-byte aligned: packed panels
};
/// dst = acc + a * b for mmaf, mmai, mmaf_scaled with these element types and attributes. Null if unknown.
using MmaFn = void (*)(const MmaArgs&);
MmaFn mma(const ir::Operation&);
std::size_t mma_scratch_bytes(const ir::Operation&);

}  // namespace tessera::cpu::prims
