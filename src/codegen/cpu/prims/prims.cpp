// Chooses primitives: the instruction set once per process, the function by operation and element types.
#include "codegen/cpu/prims/prims.hpp"

#include <algorithm>
#include <string_view>

#include "codegen/cpu/prims/isa.hpp"
#include "codegen/cpu/prims/matmul_plan.hpp"
#include "tessera/base/env.hpp"

#if defined(TESSERA_PRIMS_X86)
#include <cpuid.h>
#endif

namespace tessera::cpu::prims {
namespace {

Isa detect() {
  const Isa best = isa_available(Isa::Avx512) ? Isa::Avx512 : isa_available(Isa::Avx2) ? Isa::Avx2 : Isa::Baseline;
  const char* wanted = env(Env::CPU_ISA);
  if (!wanted) return best;
  const std::string_view name = wanted;
  if (name == "baseline") return Isa::Baseline;
  if (name == "avx2") return std::min(best, Isa::Avx2);
  if (name == "avx512") return best;
  env_reject(Env::CPU_ISA, info(Env::CPU_ISA).value);
}

/// The multiplication that an operation asks for.
MmaOp mma_op(const ir::Operation& op) {
  using ir::AttrName;
  using ir::Signedness;
  MmaOp m;
  m.lhs = op.operand(0).type().elem();
  m.rhs = op.operand(1).type().elem();
  m.acc = op.operand(2).type().elem();
  m.lhs_signed = op.enum_attr(AttrName::signedness_lhs, Signedness::Signed) == Signedness::Signed;
  m.rhs_signed = op.enum_attr(AttrName::signedness_rhs, Signedness::Signed) == Signedness::Signed;
  if (op.op() == ir::Op::MmaFScaled) {
    const auto a = op.operand(0).type().shape(), scale = op.operand(3).type().shape();
    m.scale = op.operand(3).type().elem();
    m.scale_block = static_cast<int>(a.back() / scale.back());
  }
  return m;
}

bool is_mma(ir::Op op) { return op == ir::Op::MmaF || op == ir::Op::MmaI || op == ir::Op::MmaFScaled; }

}  // namespace

bool isa_available(Isa isa) {
  if (isa == Isa::Baseline) return true;
#if defined(TESSERA_PRIMS_X86)
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;  // f16c is no name for __builtin_cpu_supports in clang
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  const bool avx2 =
      f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (isa == Isa::Avx2) return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

Isa selected_isa() {
  static const Isa isa = detect();
  return isa;
}

#define TESSERA_PRIMS_TABLE(isa)                                                                             \
  {                                                                                                          \
    isa::integer, isa::arithmetic, isa::elementary, isa::widening, isa::narrow_fma, isa::widen, isa::narrow, \
        isa::double_to_float, isa::float_to_integer, isa::integer_to_float, isa::resize, isa::extend_bits,   \
        isa::keep_bits, isa::select, isa::copy, isa::offset, isa::reduce_row, isa::matmul                    \
  }
const Table& table(Isa isa) {
  static constexpr Table baseline = TESSERA_PRIMS_TABLE(baseline);
#if defined(TESSERA_PRIMS_X86)
  static constexpr Table avx2 = TESSERA_PRIMS_TABLE(avx2), avx512 = TESSERA_PRIMS_TABLE(avx512);
  if (isa == Isa::Avx512) return avx512;
  if (isa == Isa::Avx2) return avx2;
#endif
  (void)isa;
  return baseline;
}

MmaFn mma(const MmaOp& op, Isa isa) { return table(isa).matmul(op); }

std::size_t mma_scratch_bytes(const MmaOp& op, std::int64_t m, std::int64_t n, std::int64_t k) {
  return op.acc == ir::Elem::F64 ? Scratch<double>::bytes(m, n, k) : Scratch<float>::bytes(m, n, k);
}

Elementwise elementwise(const ir::Operation& op) {
  const auto e = ir::element_op(op);
  return e ? elementwise(*e, selected_isa()) : Elementwise{};
}
Reduce reduce(const ir::Operation& body) {
  const auto e = ir::element_op(body);
  return e ? reduce(*e, selected_isa()) : Reduce{};
}
Scan scan(const ir::Operation& body) {
  const auto e = ir::element_op(body);
  return e ? scan(*e, selected_isa()) : Scan{};
}
MmaFn mma(const ir::Operation& op) { return is_mma(op.op()) ? mma(mma_op(op), selected_isa()) : nullptr; }
std::size_t mma_scratch_bytes(const ir::Operation& op) {
  if (!is_mma(op.op())) return 0;
  const auto a = op.operand(0).type().shape(), b = op.operand(1).type().shape();
  return mma_scratch_bytes(mma_op(op), a[a.size() - 2], b.back(), a.back());
}

}  // namespace tessera::cpu::prims
