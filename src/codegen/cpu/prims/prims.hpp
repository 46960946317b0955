// The vectorised tile primitives of the CPU backend: small values that hold function pointers, selected by operation.
// The IR is used only to select them (once, when a kernel is translated).
//
// Storage of tile elements ("registers"): contiguous row-major arrays. f16/bf16: 16 bits; tf32: 32 bits (value already
// rounded); i1: one byte, 0 or 1; fp8 formats: one byte; i4/f4: one byte, the value in the low nibble; pointers: 64
// bits. No alignment may be assumed beyond the element's own (whole tiles are 64-byte aligned, strips of them are not).
// Every function is re-entrant, throws nothing and allocates nothing.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tessera/ir/operation.hpp"
#include "tessera/ir/semantics.hpp"

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

/// A loop over n contiguous elements: out[i] = f(a[i], b[i], c[i]). Absent operands are null. `out` may be exactly the
/// array of an operand whose elements are not smaller.
using LoopFn = void (*)(void* out, const void* a, const void* b, const void* c, std::int64_t n);

/// An elementwise primitive: a loop of one instruction set, and what to do around it. False if there is none.
///
/// Operands may be converted before the loop and its result after it, 256 elements at a time: f16 is loaded as f32,
/// computed in f32 and stored as f16. So a loop is compiled once for each computing type, and a conversion once for
/// each format.
struct Elementwise {
  LoopFn loop = nullptr;         ///< null with `store`: the converted operand is the result
  LoopFn with_one[2] = {};       ///< loops in which a or b points to one value; null: none
  LoopFn load[3] = {};           ///< converts operand i; null: taken as it is
  LoopFn store = nullptr;        ///< converts the result
  bool any_length = true;        ///< the loop takes any number of elements, otherwise at most kUniformCopies
  bool swapped = false;          ///< the first operand is the loop's second
  bool plain = false;            ///< the loop alone
  bool widening = false;         ///< the loop converts its first operand
  bool by_reference = false;     ///< no loop: ir::evaluate_element for each element (operations that are rare)
  int arity = 0, out_bytes = 0;  ///< of an element
  int bytes[3] = {};             ///< of an element of each operand
  ir::ElementOp op{};

  explicit operator bool() const { return loop != nullptr || store != nullptr || by_reference; }

  /// dst[r][c] = op(srcs[0][r][c], ...) for r < rows, c < cols; dst is contiguous (row r starts at r * cols elements).
  /// `srcs` has one entry per operand of the operation, in operand order. dst may be exactly the same array as a full,
  /// contiguous source of the same or a larger element size (in place), never a partly overlapping one.
  /// rows = cols = 1 (scalar index arithmetic) must be fast: about 5 ns.
  void operator()(void* dst, const Operand* srcs, std::int64_t rows, std::int64_t cols) const;
};

/// The primitive for an elementwise operation with these element types and attributes: everything that
/// docs/semantics.md gives a meaning per element, including conversions, comparisons, select, offset (pointer + index *
/// pointee size), ptr_to_int, int_to_ptr, fpowi. None for other operations. (bitcast, ptr_to_ptr, assume, reshape,
/// broadcast cost nothing and need no function.)
Elementwise elementwise(const ir::Operation&);

/// `user` with an operand that is not converted yet: what `conversion` (to f32) does to it is done on the way, in the
/// registers of the loop where an instruction set has such a loop. None if the two are not of that kind.
Elementwise converting(const Elementwise& user, int operand, const Elementwise& conversion);

/// Combines one element with n contiguous ones: acc = op(acc, src[0], ..., src[n - 1]), associated as reductions are.
using RowFn = void (*)(void* acc, const void* src, std::int64_t n);
/// n results, each the combination of the one before (first: `acc`) with its element; from the last element to the
/// first if reverse. dst may be src.
using ScanRowFn = void (*)(void* dst, const void* src, const void* acc, std::int64_t n, bool reverse);

/// What combines elements: reductions and scans along an axis. False if there is no primitive.
struct Combine {
  LoopFn loop = nullptr;     ///< on two stretches of the computing type
  RowFn row = nullptr;       ///< null: by `loop`
  bool row_of_work = false;  ///< `row` takes the computing type, otherwise elements
  ScanRowFn scan_row = nullptr;
  LoopFn load = nullptr;  ///< element to computing type; null: the same
  LoopFn store = nullptr;
  bool exact = false;  ///< never rounded: the association does not matter
  int bytes = 0;       ///< of an element

  explicit operator bool() const { return loop != nullptr; }
};

/// Reduction of src seen as [outer, n, inner] along n into dst [outer, inner], both contiguous. dst holds initial
/// values and is combined with them: dst = op(dst, src[.., 0, ..], ..., src[.., n-1, ..]). The association is fixed by
/// n and inner alone (never by alignment or the CPU's thread count), but need not be left to right.
struct Reduce {
  Combine combine;
  explicit operator bool() const { return static_cast<bool>(combine); }
  void operator()(void* dst, const void* src, std::int64_t outer, std::int64_t n, std::int64_t inner) const;
};

/// For the only operation of a region that combines the region's two arguments (either order) and yields the result:
/// addf, mulf, maxf, minf (with their attributes), addi, muli, maxi, mini, andi, ori, xori. None: no primitive (the
/// evaluator then runs the body itself, with elementwise primitives).
Reduce reduce(const ir::Operation& body);

/// Inclusive scan of src seen as [outer, n, inner] along n, backwards if reverse. The first result is op(src[first],
/// identity). dst may be src. Left-to-right association.
struct Scan {
  Combine combine;
  explicit operator bool() const { return static_cast<bool>(combine); }
  void operator()(void* dst, const void* src, const void* identity, std::int64_t outer, std::int64_t n,
                  std::int64_t inner, bool reverse) const;
};
Scan scan(const ir::Operation& body);

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
