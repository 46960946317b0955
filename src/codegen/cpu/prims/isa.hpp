// The instruction sets that the primitives are compiled for, and what each provides. The sources in kernels/ are
// compiled once per instruction set, in a namespace of its own (see cmake/TesseraLayerExtras/codegen_cpu.cmake);
// prims.cpp picks one at run time.
#pragma once
#include <optional>

#include "codegen/cpu/prims/prims.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::cpu::prims {

/// What decides the code of a matrix multiplication.
struct MmaOp {
  ir::Elem lhs, rhs, acc;
  bool lhs_signed = true, rhs_signed = true;
  ir::Elem scale = ir::Elem::F8E8M0FNU;
  int scale_block = 0;  ///< elements along k that share a scale; 0: not scaled
};

/// What an integer is converted to: f32 or f64 rounded to nearest, or an f32 that rounds again without harm.
enum class FromInteger : std::uint8_t { F32, F64, OddF32 };

/// A loop and its forms for one value in place of an operand.
struct Loop {
  LoopFn loop = nullptr;
  LoopFn with_one[2] = {};
  bool any_length = true, swapped = false;
};

/// The loops of one instruction set. Null where it has none: elementwise.cpp and reduce.cpp say which are requested.
#define TESSERA_PRIMS_DECLARE(isa)                                                         \
  namespace isa {                                                                          \
  Loop integer(const ir::ElementOp&);    /* i8 (also i1), i16, i32, i64 */                 \
  Loop arithmetic(const ir::ElementOp&); /* f32, f64; absf and negf also 16 bits */        \
  Loop elementary(const ir::ElementOp&); /* f32, rsqrt also f64 */                         \
  LoopFn widening(ir::Op, ir::Elem);     /* fma, mulf, addf of f32, a narrow float as a */ \
  LoopFn narrow_fma();                   /* f32 operands that hold f16 or bf16 */          \
  LoopFn widen(ir::Elem);                /* any float to f32; f64 to an odd f32 */         \
  LoopFn narrow(ir::Elem);               /* f32 to any float but f8e8m0 */                 \
  LoopFn double_to_float();                                                                \
  LoopFn float_to_integer(bool from_f64, ir::Elem to, bool is_signed);                     \
  LoopFn integer_to_float(ir::Elem from, bool is_signed, FromInteger);                     \
  LoopFn resize(int from_bytes, int to_bytes, bool is_signed);                             \
  LoopFn extend_bits(ir::Elem from, bool is_signed); /* i1 and i4 to i8 */                 \
  LoopFn keep_bits(ir::Elem to);                     /* i8 to i1 and i4 */                 \
  LoopFn select(int bytes);                                                                \
  LoopFn copy(int bytes);                                                                  \
  LoopFn offset(int index_bytes, int pointee_bytes); /* 4 or 8; 1, 2, 4 or 8 */            \
  RowFn reduce_row(const ir::ElementOp&);                                                  \
  MmaFn matmul(const MmaOp&);                                                              \
  }
TESSERA_PRIMS_DECLARE(baseline)
TESSERA_PRIMS_DECLARE(avx2)
TESSERA_PRIMS_DECLARE(avx512)
#undef TESSERA_PRIMS_DECLARE

// What gains nothing from vectors is compiled for one instruction set alone.
namespace baseline {
LoopFn library(const ir::ElementOp&);      ///< functions of the C library: f64, and f32's remainder and atan2
ScanRowFn scan_row(const ir::ElementOp&);  ///< serial chains
}  // namespace baseline

/// i1 operations as operations on the bytes 0 and 1; nullopt where there is none. Other elements: the operation itself.
std::optional<ir::ElementOp> on_bytes(const ir::ElementOp&);
inline bool is_directed(ir::Rounding r) {
  return r == ir::Rounding::Zero || r == ir::Rounding::NegativeInf || r == ir::Rounding::PositiveInf;
}

/// Partial results of the reduction of a row.
inline constexpr std::int64_t kLanes = 64;

/// The functions of one instruction set.
struct Table {
  Loop (*integer)(const ir::ElementOp&);
  Loop (*arithmetic)(const ir::ElementOp&);
  Loop (*elementary)(const ir::ElementOp&);
  LoopFn (*widening)(ir::Op, ir::Elem);
  LoopFn (*narrow_fma)();
  LoopFn (*widen)(ir::Elem);
  LoopFn (*narrow)(ir::Elem);
  LoopFn (*double_to_float)();
  LoopFn (*float_to_integer)(bool, ir::Elem, bool);
  LoopFn (*integer_to_float)(ir::Elem, bool, FromInteger);
  LoopFn (*resize)(int, int, bool);
  LoopFn (*extend_bits)(ir::Elem, bool);
  LoopFn (*keep_bits)(ir::Elem);
  LoopFn (*select)(int);
  LoopFn (*copy)(int);
  LoopFn (*offset)(int, int);
  RowFn (*reduce_row)(const ir::ElementOp&);
  MmaFn (*matmul)(const MmaOp&);
};

enum class Isa : std::uint8_t { Baseline, Avx2, Avx512 };
/// The best one that was compiled in and that this machine has. TESSERA_CPU_ISA lowers it (ConfigError if it names
/// none).
Isa selected_isa();
bool isa_available(Isa);
const Table& table(Isa);

/// The same choices as prims.hpp, for one instruction set (tests compare them).
Elementwise elementwise(const ir::ElementOp&, Isa);
Elementwise converting(const Elementwise& user, int operand, const Elementwise& conversion, Isa);
Reduce reduce(const ir::ElementOp&, Isa);
Scan scan(const ir::ElementOp&, Isa);
MmaFn mma(const MmaOp&, Isa);
std::size_t mma_scratch_bytes(const MmaOp&, std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace tessera::cpu::prims
