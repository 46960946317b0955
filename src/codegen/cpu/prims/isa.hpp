// The instruction sets that the primitives are compiled for, and what each provides. The sources in kernels/ are
// compiled once per instruction set, in a namespace of its own (see cmake/TesseraLayerExtras/codegen_cpu.cmake);
// prims.cpp picks one at run time.
#pragma once
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

#define TESSERA_PRIMS_DECLARE(isa)                \
  namespace isa {                                 \
  ElementwiseFn integer(const ir::ElementOp&);    \
  ElementwiseFn arithmetic(const ir::ElementOp&); \
  ElementwiseFn elementary(const ir::ElementOp&); \
  ElementwiseFn conversion(const ir::ElementOp&); \
  ReduceFn reduction(const ir::ElementOp&);       \
  ScanFn inclusive_scan(const ir::ElementOp&);    \
  MmaFn matmul(const MmaOp&);                     \
  }
TESSERA_PRIMS_DECLARE(baseline)
TESSERA_PRIMS_DECLARE(avx2)
TESSERA_PRIMS_DECLARE(avx512)
#undef TESSERA_PRIMS_DECLARE

enum class Isa : std::uint8_t { Baseline, Avx2, Avx512 };
/// The best one that was compiled in and that this machine has. TESSERA_CPU_ISA lowers it (ConfigError if it names
/// none).
Isa selected_isa();
bool isa_available(Isa);

/// The same choices as prims.hpp, for one instruction set (tests compare them).
ElementwiseFn elementwise(const ir::ElementOp&, Isa);
ReduceFn reduce(const ir::ElementOp&, Isa);
ScanFn scan(const ir::ElementOp&, Isa);
MmaFn mma(const MmaOp&, Isa);
std::size_t mma_scratch_bytes(const MmaOp&, std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace tessera::cpu::prims
